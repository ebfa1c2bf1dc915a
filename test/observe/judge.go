// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// Rules are the rules of Judge.
type Rules struct {
	// Namespace and Name of the DaemonSet.
	Namespace, Name string
	// From is the version up to which events only build the state (the initial list); later ones are checked.
	From uint64
	// Eligible reports whether the set must run a pod on the node.
	Eligible func(node *corev1.Node, set *appsv1.DaemonSet) bool
	// Excused are pods that another client than the controller deletes.
	Excused map[types.UID]bool
	// Received are the times at which the API server received deletes of pods by the controller, as far as that is known (Deletes).
	Received map[types.UID]time.Time
	// Outages says that nodes fail by themselves: only those that the controller has taken a pod from count against the budget.
	Outages bool
	// Deaths are the moments at which the API server or its storage ended. What changes in the time after that the controller may learn late: see unseen.
	Deaths []time.Time
	// Limit is the budget of a set whose own strategy does not define it; 0 otherwise.
	Limit int
	// Rests are the moments at which the numbers of the status are checked, in order.
	Rests []Rest
}

// Invariant is the name of an invariant.
type Invariant string

// The invariants; the package comment defines them.
const (
	Budget    Invariant = "budget"
	OnePod    Invariant = "one-pod"
	SurgePods Invariant = "surge-pods"
	Surge     Invariant = "surge"
	Limits    Invariant = "limits"
	Kept      Invariant = "kept"
	InPlace   Invariant = "in-place"
	Hook      Invariant = "hook"
	Status    Invariant = "status"
)

const (
	traceLength     = 25 // events shown before a violation,
	nodeTraceLength = 16 // and events of its node
	maxViolations   = 20 // the first ones are sufficient, thousands would hide them
)

// Violation is an event that violates an invariant.
type Violation struct {
	Invariant Invariant
	Event     Event
	Detail    string
	// Trace has the last events about the set up to Event, for the first violation.
	Trace []string
	// OfNode has the last events about the pods and the readiness of the node.
	OfNode []string
}

// Report is the result of Judge.
type Report struct {
	// Judged is the number of events after Rules.From.
	Judged int
	// Baseline reports whether every eligible node was available at some moment; otherwise no budget was checked.
	Baseline bool
	// LeastAvailable and MostUnavailable are the extreme numbers of available and of unavailable nodes since the
	// baseline.
	LeastAvailable, MostUnavailable int
	// Rests is the number of moments at which the status was checked.
	Rests int
	// Limit is the budget at the end of the log.
	Limit int
	// MostPodsOnNode is the highest number of pods (including terminating ones) on one node at one moment.
	MostPodsOnNode int
	// MostSurging is the highest number of surging nodes at one moment.
	MostSurging int
	// Created and Deleted are the pods of the set that were created, or that started to terminate or were removed;
	// Restarted those with a container restart. Each name appears once, in order.
	Created, Deleted, Restarted []string
	Violations                  []Violation
	// Suppressed is the number of violations that are not listed.
	Suppressed int
}

// Err returns nil if no invariant was violated and the log is sufficient to show that.
func (r Report) Err() error {
	if len(r.Violations) == 0 {
		if !r.Baseline {
			return errors.New("the log proves nothing: the set was never available on all its nodes while it was observed")
		}
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d violations (%s)", len(r.Violations)+r.Suppressed, r.Summary())
	for _, v := range r.Violations {
		fmt.Fprintf(&text, "\n%s: %s\n  after %s", v.Invariant, v.Detail, v.Event)
		for _, line := range v.OfNode {
			fmt.Fprintf(&text, "\n    %s", line)
		}
	}
	fmt.Fprintf(&text, "\nevents before the first one:\n  %s", strings.Join(r.Violations[0].Trace, "\n  "))
	return errors.New(text.String())
}

// Summary returns one line for a test log.
func (r Report) Summary() string {
	return fmt.Sprintf("%d events, at most %d nodes unavailable (budget %d), at least %d available, at most %d pods on a node, "+
		"at most %d nodes surging, %d pods created, %d deleted, %d restarted",
		r.Judged, r.MostUnavailable, r.Limit, r.LeastAvailable, r.MostPodsOnNode,
		r.MostSurging, len(r.Created), len(r.Deleted), len(r.Restarted))
}

// Judge checks a log, which must be sorted.
func Judge(log []Event, rules Rules) Report {
	w := newWorld(rules)
	for _, event := range log {
		judged := event.Version > rules.From
		w.judgeRests(event.Version)
		w.remember(event)
		old, eligible := w.pods[event.Object.GetUID()], len(w.eligible)
		w.apply(event, judged)
		w.followDesired(event.At, eligible)
		w.followTemplate(event.At)
		counts, surging, unavailable, up := w.counts, len(w.surging), len(w.unavailable), w.up
		w.settle(event.At, judged)
		if judged {
			w.report.Judged++
			w.judgePods(event, counts)
			if rules.Outages {
				w.judgeCharge(event, old, up)
				w.judgeNewest(event, old)
				w.judgeUnchanged(event, old)
			} else {
				w.judgeSurge(event, w.surging, surging)
				w.judgeBudget(event, unavailable)
			}
		}
		w.followLimits(event, old, judged)
	}
	w.judgeRests(math.MaxUint64)
	return w.report
}

// judgePods reports a node that has too many pods because of this event.
func (w *world) judgePods(event Event, before map[string]int) {
	allowed, invariant := 1, OnePod
	if _, surge := w.budgets(); surge > 0 {
		allowed, invariant = 2, SurgePods
	}
	for _, node := range slices.Sorted(maps.Keys(w.counts)) {
		count := w.counts[node]
		w.report.MostPodsOnNode = max(w.report.MostPodsOnNode, count)
		if count > allowed && count > before[node] {
			w.violate(invariant, event, fmt.Sprintf("node %s has %d pods (%s), at most %d allowed",
				node, count, strings.Join(w.podNames(node), ", "), allowed))
		}
	}
}

// judgeSurge reports a pod that makes more nodes surge than allowed.
func (w *world) judgeSurge(event Event, surging []string, before int) {
	_, limit := w.budgets()
	w.report.MostSurging = max(w.report.MostSurging, len(surging))
	_, isPod := event.Object.(*corev1.Pod)
	if now := len(surging); isPod && event.Type == watch.Added && limit > 0 && now > limit && now > before {
		w.violate(Surge, event, fmt.Sprintf("%d nodes are surging (%s), at most %d allowed", now, strings.Join(surging, ", "), limit))
	}
}

// judgeBudget reports a pod event that raises the number of unavailable nodes above the budget. A change of the set (a
// smaller budget, a larger minReadySeconds) is not a violation until one more pod is lost.
func (w *world) judgeBudget(event Event, before int) {
	if !w.report.Baseline || w.set == nil || w.set.DeletionTimestamp != nil {
		return
	}
	w.report.Limit, _ = w.budgets()
	w.report.MostUnavailable = max(w.report.MostUnavailable, len(w.unavailable))
	w.report.LeastAvailable = min(w.report.LeastAvailable, w.available)
	onDelete := w.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
	_, isPod := event.Object.(*corev1.Pod)
	if now := len(w.unavailable); isPod && !onDelete && now > w.report.Limit && now > before {
		w.violate(Budget, event, fmt.Sprintf("%d nodes are unavailable (%s), at most %d allowed",
			now, strings.Join(w.unavailable, ", "), w.report.Limit))
	}
}

func (w *world) violate(invariant Invariant, event Event, detail string) {
	if len(w.report.Violations) == maxViolations {
		w.report.Suppressed++
		return
	}
	v := Violation{Invariant: invariant, Event: event, Detail: detail, OfNode: w.traceOf(event)}
	if len(w.report.Violations) == 0 {
		v.Trace = append(v.Trace, w.trace...)
	}
	w.report.Violations = append(w.report.Violations, v)
}

// budgets returns maxUnavailable and maxSurge, resolved as in apps/v1.
func (w *world) budgets() (unavailable, surge int) {
	if w.set == nil {
		return 0, 0
	}
	if w.rules.Limit > 0 {
		return w.rules.Limit, 0
	}
	eligible := w.desired()
	rolling := w.set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return 1, 0
	}
	unavailable, surge = resolve(rolling.MaxUnavailable, 1, eligible), resolve(rolling.MaxSurge, 0, eligible)
	if unavailable == 0 && surge == 0 && eligible > 0 {
		unavailable = 1
	}
	return unavailable, surge
}

func resolve(value *intstr.IntOrString, missing, total int) int {
	if value == nil {
		return missing
	}
	resolved, err := intstr.GetScaledValueFromIntOrPercent(value, total, true)
	if err != nil {
		return missing // the API server rejects such a value
	}
	return resolved
}
