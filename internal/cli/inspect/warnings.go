// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/policy"
)

// Warning is a warning event of a controller about a set. FirstNode is the first node that it was about, if that is not the node that was asked about: it came
// again, for the same node or for others.
type Warning struct {
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	Last      time.Time `json:"last"`
	FirstNode string    `json:"firstNode,omitempty"`
}

// String is the text without the time.
func (w Warning) String() string {
	if w.FirstNode != "" {
		return fmt.Sprintf("%s: %s (first for %s)", w.Reason, w.Message, w.FirstNode)
	}
	return fmt.Sprintf("%s: %s", w.Reason, w.Message)
}

// fresh is the maximum age of a warning that is shown, mostWarnings their maximum number.
const (
	fresh        = time.Hour
	mostWarnings = 3
)

// About selects warnings: those of a set and, with a node, none about other nodes. Acting is whether something is done for that node now. Then warnings about
// pods that could not be created elsewhere count too, if they came again: equal messages about different nodes become one event, which has the name of the first.
//
// Warnings about rollouts that the present Policy contradicts do not count.
type About struct {
	Set    *resolver.Set
	Node   string
	Acting bool
	Policy *PolicyReport
}

// Warnings returns the newest warnings of the last hour about a set, those of the node first, then newest first: only the controller knows which
// requests were rejected, and reports that in events. Warnings are optional: without the right to read events, there
// are none.
func Warnings(ctx context.Context, o *options.Options, c *options.Clients, about About) []Warning {
	set, node := about.Set, about.Node
	list, _, err := eventsAbout(ctx, c, set, fields.Set{"type": corev1.EventTypeWarning})
	if err != nil {
		return nil
	}
	var warnings []Warning
	for i := range list {
		e := &list[i]
		first := e.Annotations[everynode.EventNode]
		if node == "" || first == node {
			first = ""
		}
		if first != "" && (!about.Acting || e.Reason != base.ReasonFailedCreate || occurrences(e) == 1) {
			continue
		}
		if e.Type != corev1.EventTypeWarning || o.Now().Sub(lastSeen(e)) > fresh {
			continue
		}
		if w := (Warning{Reason: e.Reason, Message: e.Message, Last: lastSeen(e), FirstNode: first}); about.Policy.Concerns(&w) {
			warnings = append(warnings, w)
		}
	}
	elsewhere := func(w Warning) int { return min(len(w.FirstNode), 1) }
	slices.SortStableFunc(warnings, func(a, b Warning) int { return cmp.Or(elsewhere(a)-elsewhere(b), b.Last.Compare(a.Last)) })
	return warnings[:min(len(warnings), mostWarnings)]
}

// Event is an event about a set.
type Event struct {
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int32     `json:"count"`
	Last    time.Time `json:"last"`
}

// EventList has the newest events about a set, newest first. Read is how many were read to find them; More reports whether there are others that were not read, of which some may be newer.
type EventList struct {
	Events []Event
	Read   int
	More   bool
}

// Events returns the newest events about a set, at most that many.
func Events(ctx context.Context, c *options.Clients, set *resolver.Set, most int) (EventList, error) {
	list, more, err := eventsAbout(ctx, c, set, fields.Set{})
	if err != nil {
		return EventList{}, err
	}
	events := []Event{}
	for i := range list {
		e := &list[i]
		events = append(events, Event{Type: e.Type, Reason: e.Reason, Message: e.Message, Count: occurrences(e), Last: lastSeen(e)})
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.Last.Compare(a.Last) })
	return EventList{Events: events[:min(len(events), most)], Read: len(events), More: more}, nil
}

// String describes which events the list has, if it does not have all: "The last 50 of 312."
func (l EventList) String() string {
	switch {
	case l.More:
		return fmt.Sprintf("%d of %d or more: the API server lists too many to read all of them, so there may be newer ones.", len(l.Events), l.Read)
	case len(l.Events) < l.Read:
		return fmt.Sprintf("The last %d of %d.", len(l.Events), l.Read)
	default:
		return ""
	}
}

const (
	// eventsPage is how many events are read at a time, mostEventPages how many times: any kubelet can create events about a set.
	eventsPage     = 250
	mostEventPages = 8
	// longestMessage is how many characters of the message of an event are kept: the API server stores messages of more than a megabyte.
	longestMessage = 1024
)

// eventsAbout lists the events about a set that a selector of fields selects, with messages that are not too long. more reports whether there are too many to read all of them.
func eventsAbout(ctx context.Context, c *options.Clients, set *resolver.Set, selector fields.Set) (all []corev1.Event, more bool, err error) {
	uid := set.Object.GetUID()
	selector["involvedObject.uid"] = string(uid)
	how := metav1.ListOptions{FieldSelector: selector.String(), Limit: eventsPage}
	for range mostEventPages {
		list, err := c.Kubernetes.CoreV1().Events(set.Namespace()).List(ctx, how)
		if err != nil {
			return nil, false, options.Explain(err, options.Request{Verb: "list", Resource: corev1.Resource("events"), Namespace: set.Namespace()})
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.UID == uid {
				e.Message = policy.Shortened(e.Message, longestMessage-len("..."))
				all = append(all, *e)
			}
		}
		if how.Continue = list.Continue; how.Continue == "" {
			break
		}
	}
	return all, how.Continue != "", nil
}

func occurrences(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}
