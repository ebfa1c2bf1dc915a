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

// EdgeRules are the rules for a set with OpenYurt's annotation AdvancedRollingUpdate.
type EdgeRules struct {
	// Limit is the maximum number of charged nodes.
	Limit int
	// Blame is the failure attribution window: how long after an update changed a node its failure is attributed to the
	// update.
	Blame time.Duration
}

// EdgeReport is the result of JudgeEdge.
type EdgeReport struct {
	// Deleted is the number of pods whose deletion was checked.
	Deleted int
	// MostCharged is the highest number of charged nodes right after a deletion, MostBlamed the highest number of failed
	// nodes that were attributed to the update.
	MostCharged, MostBlamed int
	Violations              []Violation
}

// certain is the minimum time between two events whose order is certain for all observers: API times are whole seconds,
// and a controller cannot act on changes that it has not observed.
const certain = 2 * time.Second

// JudgeEdge checks the log of one rollout. At each deletion of a pod that charges one more node, at most Limit nodes
// may be charged. A node is charged if it is ready, must run the pod, and has no available one; or if it is not ready,
// and failed after this rollout changed it and within the window after its old pod was deleted or its new one created.
//
// Uncertain cases are not charged here: the controller may charge more.
func JudgeEdge(log []Event, rules Rules, edge EdgeRules) EdgeReport {
	j := edgeJudge{world: newWorld(rules), rules: edge, touched: map[string]time.Time{}, down: map[string]time.Time{}}
	for _, event := range log {
		j.play(event, event.Version > rules.From)
	}
	return j.report
}

// JudgeEdge checks the log so far.
func (r *Recorder) JudgeEdge(rules EdgeRules) EdgeReport { return JudgeEdge(r.Log(), r.rules, rules) }

type edgeJudge struct {
	*world
	rules EdgeRules
	// touched is when this rollout last changed a node, down since when a node has not been ready.
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

// deletes reports whether a pod of the set starts to terminate with this event.
func (j *edgeJudge) deletes(event Event) bool {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok || !j.ours(pod) {
		return false
	}
	old := j.pods[pod.UID]
	return old != nil && old.DeletionTimestamp == nil && (pod.DeletionTimestamp != nil || event.Type == watch.Deleted)
}

// follow records the times; touches reports whether the rollout changes a node with this event.
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

// charged returns the nodes that certainly count.
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

// waiting returns the nodes that are ready, must run the pod, and have no available one.
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

// Err returns nil if the limit was never exceeded.
func (r EdgeReport) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	v := r.Violations[0]
	return fmt.Errorf("%d violations; %s after %s\n  %s", len(r.Violations), v.Detail, v.Event, strings.Join(v.Trace, "\n  "))
}
