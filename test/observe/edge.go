// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/watch"
)

// Charge is the invariant of JudgeEdge.
const Charge Invariant = "charge"

// EdgeRules say what is judged of a set that the annotation AdvancedRollingUpdate of OpenYurt updates.
type EdgeRules struct {
	// Limit is the number of nodes that may be charged at once.
	Limit int
	// Blame is how long after an update touched a node its going down is put down to the update.
	Blame time.Duration
}

// EdgeReport is what a log shows.
type EdgeReport struct {
	// Deleted is the number of pods whose deletion was judged.
	Deleted int
	// MostCharged is the largest number of nodes that were charged right after a deletion, MostBlamed the largest number of nodes that
	// were down and blamed on the update at any time.
	MostCharged, MostBlamed int
	Violations              []Violation
}

// certain is how far apart, or how long ago, two things have to be for everybody to agree on them: API times are whole seconds, and a
// controller cannot act on what it has not seen.
const certain = 2 * time.Second

// JudgeEdge plays the log of one roll. At each deletion of a pod by which one more node is charged, no more than Limit nodes may be charged
// then. Charged are nodes that are ready, have to run the pod, and have no available one; and nodes that are not ready, and went down after
// this roll touched them and within the window: when their old pod was deleted, or their new one created.
//
// What is not certain is not charged here: the controller may charge more.
func JudgeEdge(log []Event, rules Rules, edge EdgeRules) EdgeReport {
	j := edgeJudge{world: newWorld(rules), rules: edge, touched: map[string]time.Time{}, down: map[string]time.Time{}}
	for _, event := range log {
		j.play(event, event.Version > rules.From)
	}
	return j.report
}

// JudgeEdge judges what was recorded so far.
func (r *Recorder) JudgeEdge(rules EdgeRules) EdgeReport { return JudgeEdge(r.Log(), r.rules, rules) }

type edgeJudge struct {
	*world
	rules EdgeRules
	// touched is when this roll touched a node last, down since when a node has not been ready.
	touched, down map[string]time.Time
	template      *corev1.PodTemplateSpec
	report        EdgeReport
}

func (j *edgeJudge) play(event Event, judged bool) {
	j.remember(event)
	before := j.charged(event.At)
	deletes := j.deletes(event)
	j.apply(event, judged)
	j.settle(event.At, judged)
	j.follow(event, judged && (deletes || event.Type == watch.Added))
	if j.set != nil && (j.template == nil || !equality.Semantic.DeepEqual(j.template, &j.set.Spec.Template)) {
		j.template = &j.set.Spec.Template
		clear(j.touched)
	}
	now := j.charged(event.At)
	j.report.MostBlamed = max(j.report.MostBlamed, len(now)-len(j.waiting()))
	if !judged || !deletes {
		return
	}
	j.report.Deleted++
	j.report.MostCharged = max(j.report.MostCharged, len(now))
	if len(now) > j.rules.Limit && len(now) > len(before) && len(j.report.Violations) < maxViolations {
		j.report.Violations = append(j.report.Violations, Violation{
			Invariant: Charge, Event: event, Trace: slices.Clone(j.trace),
			Detail: fmt.Sprintf("%d nodes are charged (%s), at most %d allowed", len(now), strings.Join(now, ", "), j.rules.Limit),
		})
	}
}

// deletes is whether a pod of the set begins to go with this event.
func (j *edgeJudge) deletes(event Event) bool {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok || !j.ours(pod) {
		return false
	}
	old := j.pods[pod.UID]
	return old != nil && old.DeletionTimestamp == nil && (pod.DeletionTimestamp != nil || event.Type == watch.Deleted)
}

// follow keeps the times; touches is whether the event is one by which a roll touches a node.
func (j *edgeJudge) follow(event Event, touches bool) {
	switch object := event.Object.(type) {
	case *corev1.Node:
		if nodeIsReady(object) {
			delete(j.down, object.Name)
		} else if j.down[object.Name].IsZero() {
			j.down[object.Name] = event.At
		}
	case *corev1.Pod:
		if touches && j.ours(object) {
			j.touched[NodeOf(object)] = event.At
		}
	}
}

// charged are the nodes that count for certain.
func (j *edgeJudge) charged(now time.Time) []string {
	nodes := j.waiting()
	for _, name := range slices.Sorted(maps.Keys(j.down)) {
		touched, was := j.touched[name]
		after := j.down[name].Sub(touched)
		if was && after > certain && after < j.rules.Blame-certain && now.Sub(j.down[name]) > certain {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// waiting are the nodes that are ready, have to run the pod, and have no available one.
func (j *edgeJudge) waiting() []string {
	return slices.DeleteFunc(slices.Clone(j.unavailable), func(name string) bool { return !j.down[name].IsZero() })
}

func nodeIsReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Err is nil if the limit held.
func (r EdgeReport) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	v := r.Violations[0]
	return fmt.Errorf("%d violations; %s after %s\n  %s", len(r.Violations), v.Detail, v.Event, strings.Join(v.Trace, "\n  "))
}
