// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	audit "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
)

// Write is a write in the audit log of the API server, answered or aborted.
type Write struct {
	// Sent is when the API server received it, Done when it had answered.
	Sent, Done time.Time
	// Manager is the component that sent it; "" for any other User.
	Manager, User string
	// Verb and Resource are those of the API, with the subresource: "update", "daemonsets/status".
	Verb, Resource, Namespace, Name string
	// Code is the status code, 0 if there was no response: then it is unknown whether the write was executed.
	Code int32
	// UID and Version are the preconditions of a delete, or "".
	UID     types.UID
	Version string
}

// managerGroup is the prefix of the groups that identify the managers of a plane.
const managerGroup = "localplane:manager"

// ReadAudit parses an audit log. If an API server was killed while it wrote a line, that line is incomplete, and the
// first line of the next process follows it directly.
func ReadAudit(log io.Reader) ([]Write, error) {
	var writes []Write
	lines := bufio.NewReader(log)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		line = line[max(0, bytes.LastIndex(line, []byte(`{"kind":"Event"`))):]
		if len(line) > 0 {
			var event audit.Event
			switch broken := json.Unmarshal(line, &event); {
			case broken == nil && (event.Stage == audit.StageResponseComplete || event.Stage == audit.StagePanic) && event.ObjectRef != nil:
				writes = append(writes, writeOf(&event))
			case broken != nil && err == nil:
				return nil, fmt.Errorf("reading line %d of an audit log: %w", number, broken)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading an audit log: %w", err)
		}
	}
	slices.SortStableFunc(writes, func(a, b Write) int { return cmp.Or(a.Sent.Compare(b.Sent), a.Done.Compare(b.Done)) })
	return writes, nil
}

// unanswered is the message of the API server, with a success code, if it has not sent a response
// (k8s.io/apiserver/pkg/endpoints/filters, WithAudit): the client had disconnected. The API server also aborts requests
// after a panic or a timeout.
const unanswered = "Connection closed early"

func writeOf(event *audit.Event) Write {
	w := Write{
		Sent: event.RequestReceivedTimestamp.Time, Done: event.StageTimestamp.Time, User: event.User.Username, Verb: event.Verb,
		Resource: event.ObjectRef.Resource, Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name,
	}
	if event.ObjectRef.Subresource != "" {
		w.Resource += "/" + event.ObjectRef.Subresource
	}
	if event.ResponseStatus != nil && event.Stage != audit.StagePanic && event.ResponseStatus.Message != unanswered {
		w.Code = event.ResponseStatus.Code
	}
	for _, group := range event.User.Groups {
		if strings.HasPrefix(group, managerGroup) {
			w.Manager = strings.TrimPrefix(group, "localplane:")
		}
	}
	if event.RequestObject != nil && event.Verb == "delete" {
		var options metav1.DeleteOptions
		if json.Unmarshal(event.RequestObject.Raw, &options) == nil && options.Preconditions != nil {
			w.UID, w.Version = ptr.Deref(options.Preconditions.UID, ""), ptr.Deref(options.Preconditions.ResourceVersion, "")
		}
	}
	return w
}

// String returns one line for users.
func (w Write) String() string {
	who := w.Manager
	if who == "" {
		who = w.User
	}
	return fmt.Sprintf("%s %s: %s %s %s/%s: %d", w.Sent.Format("15:04:05.000"), who, w.Verb, w.Resource, w.Namespace, w.Name, w.Code)
}

// done reports whether the API server has executed it.
func (w Write) done() bool { return w.Code >= 200 && w.Code < 300 }

// read reports whether the API server has processed more than authentication and authorization.
func (w Write) read() bool {
	return !slices.Contains([]int32{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, w.Code)
}

// The invariants of writes.
const (
	// Precondition: every pod that a manager deletes is named by its UID as well.
	Precondition Invariant = "precondition"
	// OneWriter: between the last response to one manager and the first write of another one, or of its restarted
	// process, there are no writes for as long as a write may take.
	OneWriter Invariant = "one-writer"
	// Once: no pod is deleted twice.
	Once Invariant = "once"
	// Logged: every pod that ends has a delete in the audit log, unless the API server was killed.
	Logged Invariant = "logged"
	// Known: pods are deleted only by managers, known users and, while it collects them, the garbage collector.
	Known Invariant = "known"
)

// WriteRules are the rules for writes.
type WriteRules struct {
	// Namespace is the namespace of the sets.
	Namespace string
	// Users may delete any pods.
	Users []string
	// Collecting are the times at which the garbage collector may delete pods, because their set has gone.
	Collecting []Span
	// Fence is how long after the end of a manager there must be no writes.
	Fence time.Duration
	// Deaths are managers that were killed.
	Deaths []Death
	// Outages are the times at which the API server, or its store, was killed: responses just before may be lost.
	Outages []time.Time
	// Endings are the pods that have ended; nil if that was not recorded.
	Endings []Ending
}

// Span is from one moment to another one.
type Span struct{ From, To time.Time }

// Death is the end of a manager.
type Death struct {
	Manager string
	At      time.Time
}

// WriteReport is the result of JudgeWrites.
type WriteReport struct {
	// Counts are the executed writes of managers by verb and resource; Refused those that were rejected, by code.
	Counts  map[string]int
	Refused map[int32]int
	// Turns is how often another manager took over.
	Turns int
	// Gaps are, for each killed manager that was active, the times until the next write of a manager.
	Gaps []time.Duration
	// Unlogged are the pods that ended while the API server was killed, without a line in its log.
	Unlogged   int
	Violations []string
}

// JudgeWrites checks the writes of managers to the sets, revisions and pods of a namespace, in the order in which they
// were sent.
func JudgeWrites(writes []Write, rules WriteRules) WriteReport {
	j := writeJudge{rules: rules, report: WriteReport{Counts: map[string]int{}, Refused: map[int32]int{}}, deletes: map[types.UID]Write{}}
	for _, w := range writes {
		if w.Namespace != rules.Namespace || w.Resource == "leases" {
			continue
		}
		j.judge(w)
	}
	j.findGaps(writes)
	j.judgeEndings(writes)
	return j.report
}

type writeJudge struct {
	rules   WriteRules
	report  WriteReport
	last    *Write // the last answered write of a manager
	deletes map[types.UID]Write
}

func (j *writeJudge) violate(invariant Invariant, w Write, format string, args ...any) {
	j.report.Violations = append(j.report.Violations, fmt.Sprintf("%s: %s: %s", invariant, w, fmt.Sprintf(format, args...)))
}

func (j *writeJudge) judge(w Write) {
	deletes := w.Verb == "delete" && w.Resource == "pods"
	if w.Manager == "" {
		if deletes && w.done() && !slices.Contains(j.rules.Users, w.User) && !j.collects(w) {
			j.violate(Known, w, "nobody knows why")
		}
		return
	}
	if w.done() {
		j.report.Counts[w.Verb+" "+w.Resource]++
	} else {
		j.report.Refused[w.Code]++
	}
	j.judgeWriter(w)
	if !deletes {
		return
	}
	if w.UID == "" && w.read() {
		j.violate(Precondition, w, "it names no UID")
	}
	if before, twice := j.deletes[w.UID]; twice && w.UID != "" && w.done() && !j.lost(before) {
		j.violate(Once, w, "that pod was deleted before: %s", before)
	}
	if w.done() {
		j.deletes[w.UID] = w
	}
}

// garbageCollector is the user of the garbage collector.
const garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"

// collects reports whether the garbage collector has sent a write when it may.
func (j *writeJudge) collects(w Write) bool {
	return w.User == garbageCollector && slices.ContainsFunc(j.rules.Collecting, func(s Span) bool { return !w.Sent.Before(s.From) && w.Sent.Before(s.To) })
}

// lost reports whether the response to a write may have been lost.
func (j *writeJudge) lost(w Write) bool {
	return slices.ContainsFunc(j.rules.Outages, func(at time.Time) bool { return at.After(w.Sent) && at.Sub(w.Done) < inFlight })
}

// judgeWriter tracks the writer.
func (j *writeJudge) judgeWriter(w Write) {
	for _, death := range j.rules.Deaths {
		// Writes that the killed manager had sent may still arrive; those of its successor come after the fence.
		if after := w.Sent.Sub(death.At); death.Manager == w.Manager && after > inFlight && after < j.rules.Fence {
			j.violate(OneWriter, w, "that manager was killed %s before", after)
		}
	}
	if j.last != nil && j.last.Manager != w.Manager {
		j.report.Turns++
		if between := w.Sent.Sub(j.last.Done); between < j.rules.Fence {
			j.violate(OneWriter, w, "%s after this: %s", between, j.last)
		}
	}
	if j.last == nil || j.last.Manager != w.Manager || w.Done.After(j.last.Done) {
		j.last = &w
	}
}

// inFlight is how long writes of a killed manager may still arrive at the API server.
const inFlight = 2 * time.Second

// findGaps finds, for each killed manager that wrote last, when the next write came.
func (j *writeJudge) findGaps(writes []Write) {
	for _, death := range j.rules.Deaths {
		var before, after *Write
		for i := range writes {
			w := &writes[i]
			switch {
			case w.Manager == "" || w.Namespace != j.rules.Namespace || !w.done():
			case w.Sent.Before(death.At):
				before = w
			case after == nil && (w.Manager != death.Manager || w.Sent.Sub(death.At) > inFlight):
				after = w
			}
		}
		if before != nil && before.Manager == death.Manager && after != nil {
			j.report.Gaps = append(j.report.Gaps, after.Sent.Sub(death.At))
		}
	}
}
