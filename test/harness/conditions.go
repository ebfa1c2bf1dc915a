// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Condition returns nil if it is met, otherwise an error with what is missing.
type Condition func(v View) error

// RolledOut is met when a controller has observed that generation of the set, and each of the nodes has exactly one pod
// of the set, which is available and has the newest revision.
func RolledOut(set string, generation int64, nodes int) Condition {
	return func(v View) error {
		ds := v.Set(set)
		if ds == nil {
			return fmt.Errorf("set %s does not exist", set)
		}
		s := ds.Status
		if s.ObservedGeneration < generation {
			return fmt.Errorf("generation %d of set %s is not observed yet (at %d)", generation, set, s.ObservedGeneration)
		}
		want := int32(nodes)
		if s.DesiredNumberScheduled != want || s.CurrentNumberScheduled != want || s.UpdatedNumberScheduled != want ||
			s.NumberReady != want || s.NumberAvailable != want || s.NumberUnavailable != 0 || s.NumberMisscheduled != 0 {
			return fmt.Errorf("set %s is not rolled out on %d nodes: status %+v", set, nodes, s)
		}
		return onePodPerNode(v, set, nodes)
	}
}

func onePodPerNode(v View, set string, nodes int) error {
	pods := v.Pods(set)
	if len(pods) != nodes {
		return fmt.Errorf("set %s has %d pods, want %d", set, len(pods), nodes)
	}
	seen := map[string]bool{}
	for _, pod := range pods {
		if seen[pod.Spec.NodeName] || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || !Ready(pod) {
			return fmt.Errorf("pod %s on node %q is not the one ready pod of its node", pod.Name, pod.Spec.NodeName)
		}
		seen[pod.Spec.NodeName] = true
	}
	return nil
}

// RunsOn is met when the pods of the set that are not terminating are ready and on exactly these nodes.
func RunsOn(set string, nodes ...string) Condition {
	return func(v View) error {
		want := map[string]bool{}
		for _, node := range nodes {
			want[node] = true
		}
		found := 0
		for _, pod := range v.Pods(set) {
			switch {
			case pod.DeletionTimestamp != nil:
				return fmt.Errorf("pod %s is still terminating", pod.Name)
			case !want[pod.Spec.NodeName]:
				return fmt.Errorf("pod %s is on node %q, wanted only on %v", pod.Name, pod.Spec.NodeName, nodes)
			case !Ready(pod):
				return fmt.Errorf("pod %s is not ready", pod.Name)
			}
			found++
		}
		if found != len(nodes) {
			return fmt.Errorf("set %s has %d pods, want one on each of %v", set, found, nodes)
		}
		return nil
	}
}

// Observed is met when a controller has written a status for that generation.
func Observed(set string, generation int64) Condition {
	return func(v View) error {
		ds := v.Set(set)
		if ds == nil || ds.Status.ObservedGeneration < generation {
			return fmt.Errorf("generation %d of set %s is not observed yet", generation, set)
		}
		return nil
	}
}

// StatusIs is met when the status of the set passes the check.
func StatusIs(set, what string, check func(s appsv1.DaemonSetStatus) bool) Condition {
	return func(v View) error {
		ds := v.Set(set)
		if ds == nil {
			return fmt.Errorf("set %s does not exist", set)
		}
		if !check(ds.Status) {
			return fmt.Errorf("set %s: not %s: status %+v", set, what, ds.Status)
		}
		return nil
	}
}

// HasEvent is met when there is an event with that type and reason about the set.
func HasEvent(set, kind, reason string) Condition {
	return func(v View) error {
		event := v.Event(set, reason)
		if event == nil || event.Type != kind {
			return fmt.Errorf("set %s has no event %s of type %s", set, reason, kind)
		}
		return nil
	}
}

// NoPods is met when the namespace has no pods.
func NoPods(v View) error {
	if pods := v.AllPods(); len(pods) > 0 {
		return fmt.Errorf("%d pods are left, among them %s", len(pods), pods[0].Name)
	}
	return nil
}

// All is met when all conditions are met.
func All(conditions ...Condition) Condition {
	return func(v View) error {
		for _, condition := range conditions {
			if err := condition(v); err != nil {
				return err
			}
		}
		return nil
	}
}

// EachPod is met when the set has pods, and all of them pass the check.
func EachPod(set, what string, check func(pod *corev1.Pod) bool) Condition {
	return func(v View) error {
		pods := v.Pods(set)
		if len(pods) == 0 {
			return fmt.Errorf("set %s has no pods", set)
		}
		for _, pod := range pods {
			if !check(pod) {
				return fmt.Errorf("pod %s: not %s", pod.Name, what)
			}
		}
		return nil
	}
}
