// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/rollout"
)

// values returns the values that the verdict is based on: first what holds an update back, then the budget.
func (s *subject) values() []Value {
	values := s.governed()
	if v, ok := s.limit(); ok {
		values = append(values, v)
	}
	if v, ok := s.timing(); ok {
		values = append(values, v)
	}
	if s.verdict().Kind == rollout.WaitImage {
		for _, report := range s.pulls {
			values = append(values, Value{"pull", report})
		}
	}
	return append(values, s.budget()...)
}

// limit returns the field of the set that excludes the node from the update.
func (s *subject) limit() (Value, bool) {
	set, desired := s.set(), s.m.Plan.Status.Desired
	switch s.verdict().Kind {
	case rollout.WaitPartition, rollout.WaitProgressive:
		keep := set.Partition.Down(desired)
		return Value{"partition", of("partition", set.Partition, desired, keep) + ": that many nodes keep their old pod"}, true
	case rollout.WaitSelector:
		return Value{"selector", fmt.Sprintf("the update is for nodes with %s only", s.m.Workload.NodeSelector)}, true
	case rollout.WaitPaused:
		return Value{"paused", "the set is paused: no old pod is replaced, and missing pods are created"}, true
	case rollout.WaitOnDelete, rollout.WaitNodeOwner:
		return Value{"strategy", "OnDelete: the update deletes no pod; the next pod on this node has the new revision"}, true
	case rollout.WaitReplacing:
		if set.MaxReplacing == nil {
			return Value{}, false
		}
		return Value{"replacing", of(everynode.MaxReplacing, *set.MaxReplacing, desired, set.MaxReplacing.Of(desired)) + ": at most that many nodes may be in progress"}, true
	case rollout.WaitUnreachable:
		return Value{"unreachable", "nodes that are not ready are left out; one that went down within " + set.Unreachable.AttributionWindow.String() +
			" after the update changed it uses the budget"}, true
	case rollout.WaitEligible:
		return Value{"eligible", "the set updates only nodes where a new pod may be placed"}, true
	default:
		return Value{}, false
	}
}

// timing returns a delay that must pass.
func (s *subject) timing() (Value, bool) {
	set, n := s.set(), s.seen()
	switch s.verdict().Kind {
	case rollout.WaitAvailable, rollout.WaitSurgeRemove:
		return s.availability(), true
	case rollout.WaitGrace:
		for i := range n.Pods {
			if until := n.Pods[i].GraceUntil; until != 0 {
				return Value{"grace", "the pod is changed " + s.until(until) + " (" + everynode.InPlaceGrace + ": " + seconds(set.Grace) + ")"}, true
			}
		}
	case rollout.WaitBackoff:
		return Value{"back-off", "only the controller knows the delay; it grows with each failure, up to 15 minutes"}, true
	case rollout.WaitImage:
		if n.ImageUntil != 0 {
			return Value{"image", "the update starts without it " + s.until(n.ImageUntil)}, true
		}
		return Value{"image", "no time limit applies yet: no node has been asked to pull the image"}, true
	}
	return Value{}, false
}

func (s *subject) availability() Value {
	set, n := s.set(), s.seen()
	if set.MinReady == 0 {
		return Value{"available", "a pod is available as soon as it is ready (minReadySeconds is 0)"}
	}
	text := "a pod is available when it has been ready for " + seconds(set.MinReady) + " (minReadySeconds)"
	for i := range n.Pods {
		if p := &n.Pods[i]; p.Ready && !p.Deleting && p.Revision == set.Update {
			text += ", which is " + s.until(p.ReadySince.Add(set.MinReady))
		}
	}
	return Value{"available", text}
}

// budget returns the budget of the update and its use; nothing if no update uses a budget.
func (s *subject) budget() []Value {
	set, b, desired := s.set(), s.m.Plan.Budget, s.m.Plan.Status.Desired
	if set.Strategy != rollout.RollingUpdate {
		return nil
	}
	name, q := "maxUnavailable", set.MaxUnavailable
	if b.Surge {
		name, q = "maxSurge", set.MaxSurge
	}
	takes := "this node uses none of it"
	if s.verdict().Charged {
		takes = "this node uses 1 of it"
	}
	used := b.UsedByUpdate + b.UsedByOthers + b.UsedByUnreachable
	text := fmt.Sprintf("%s; %d used: %d by the update, %d by other failures, %d by nodes that are not ready; %s",
		of(name, q, desired, b.Limit), used, b.UsedByUpdate, b.UsedByOthers, b.UsedByUnreachable, takes)
	return []Value{{"budget", text}}
}

// remedy returns what a user can do about the verdict, or "" if nothing.
func (s *subject) remedy() string {
	set, node := s.m.Set.String(), s.seen().Name
	switch s.verdict().Kind {
	case rollout.WaitPaused:
		return "kubectl everynode resume " + set
	case rollout.WaitPartition, rollout.WaitProgressive:
		return "kubectl everynode partition " + set + " 0"
	case rollout.WaitOnDelete:
		if s.m.Abandoned() { // deleting the pod bypasses the waves
			return s.remedyByPolicy()
		}
		return "delete the pod when convenient"
	case rollout.WaitHook:
		return "kubectl everynode pre-delete release " + node + " " + set + ", when the owner of the hook has finished"
	case rollout.WaitNodeOwner:
		return "kubectl everynode ota upgrade " + node + " " + set + ", when convenient for the owner of the node"
	case rollout.WaitBudget, rollout.WaitReplacing:
		return "wait, or run kubectl everynode status " + set + " to see which nodes use the budget"
	case rollout.WaitApproval, rollout.WaitAnalysis, rollout.WaitGroup, rollout.WaitSuspended, rollout.WaitRejected, rollout.WaitFailed, rollout.WaitConflict, rollout.WaitPolicy:
		return s.remedyByPolicy()
	case rollout.WaitSelector:
		return "widen the selector: kubectl everynode canary " + set + " SELECTOR"
	default:
		return ""
	}
}
