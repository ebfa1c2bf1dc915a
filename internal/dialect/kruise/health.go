// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// health is which of the conditions Ready, Reconciling and Stalled is True, and why. Tools for GitOps read them (kstatus); one of them alone is True.
//
// Ready is True when the set is as its own specification asks: every node that must run a pod has an available one, and it is of the newest revision, unless a
// field of the set keeps the node back (paused, partition, selector, OnDelete). Nodes held by a rollout policy belong to an update that has not ended, because
// the policy will continue it.
type health struct {
	is              appsv1.DaemonSetConditionType
	reason, message string
}

// report sets the three conditions. They have the message of the condition Progressing, so that they cause no additional writes.
func (h health) report(set func(appsv1.DaemonSetConditionType, verdict)) {
	for _, kind := range []appsv1.DaemonSetConditionType{Ready, Reconciling, Stalled} {
		v := verdict{corev1.ConditionFalse, h.reason, ""}
		if kind == h.is {
			v.status = corev1.ConditionTrue
		}
		if kind == h.is || kind == Ready {
			v.message = h.message
		}
		set(kind, v)
	}
}

// since is when a condition got the status that it has; 0 if it has another.
func since(conditions []appsv1.DaemonSetCondition, kind appsv1.DaemonSetConditionType, status corev1.ConditionStatus) rollout.Time {
	i := slices.IndexFunc(conditions, func(c appsv1.DaemonSetCondition) bool { return c.Type == kind })
	if i < 0 || conditions[i].Status != status {
		return 0
	}
	return rollout.Time(conditions[i].LastTransitionTime.UnixNano())
}

// open is the remaining work that health needs to know in addition to the stages.
type open struct {
	// byPolicy is the nodes that a rollout policy holds, and unserved the held nodes that have no available pod.
	byPolicy, unserved int
	// overdue reports whether a pod has reported trouble, and has not been ready, for too long.
	overdue bool
}

func left(o Observation) (left open) {
	for i, v := range o.Plan.Verdicts {
		node := &o.Snapshot.Nodes[i]
		left.overdue = left.overdue || overdue(o.Snapshot, node, v.Kind)
		cause := v.Kind.Cause()
		switch {
		case cause == rollout.CausePolicy:
			left.byPolicy++
		case cause != rollout.CauseSpec && cause != rollout.CauseLimit:
			continue
		}
		// A node without a pod gets none because of the partition; otherwise it would be created.
		if node.Fit == rollout.MustRun && len(node.Pods) > 0 && !hasAvailable(o, node) {
			left.unserved++
		}
	}
	return left
}

// overdue reports whether the pod that a node waits for has been in trouble for too long.
func overdue(s *rollout.Snapshot, node *rollout.Node, kind rollout.VerdictKind) bool {
	if !kind.AwaitsPod() {
		return false
	}
	return slices.ContainsFunc(node.Pods, func(p rollout.Pod) bool {
		at, stalls := p.StallsAt()
		return stalls && !p.Deleting && at <= s.Now
	})
}

// troubled is since when nothing has continued because of trouble, from conditions whose Degraded and Progressing are those of o already; 0 if Degraded is False.
//
// Degraded alone has that time, unless the set has a problem that prevents nothing, such as an annotation without effect: then Degraded may be a day old, and
// the trouble began when the set ceased to be Ready or to progress, whichever came last.
func troubled(o Observation, conditions []appsv1.DaemonSetCondition) rollout.Time {
	began := since(conditions, Degraded, corev1.ConditionTrue)
	if began == 0 || len(o.Problems) == 0 {
		return began
	}
	ready := since(conditions, Ready, corev1.ConditionFalse)
	if ready == 0 {
		ready = rollout.Time(o.Now.UnixNano()) // it was Ready until now
	}
	return max(began, ready, since(conditions, Progressing, corev1.ConditionFalse))
}

// health returns which of the three conditions is True; troubled is the time of that name.
func (s stages) health(o Observation, progressing verdict, troubled rollout.Time) *health {
	g, left := o.Governed, left(o)
	late := left.overdue || troubled != 0 && troubled.Add(rollout.StallAfter) <= o.Snapshot.Now
	rest := s[working].count + s[away].count + s[queued].count + s[blocked].count + s[failing].count
	is := func(kind appsv1.DaemonSetConditionType, reason string) *health {
		return &health{kind, reason, progressing.message}
	}
	switch {
	case o.Failure != nil && late:
		return is(Stalled, ReasonBlocked)
	case o.Failure != nil:
		return is(Reconciling, ReasonBlocked)
	case g != nil && g.Phase == v1alpha1.PhaseFailed:
		return &health{Stalled, ReasonPolicyFailed, g.Message}
	case g != nil && g.Phase == v1alpha1.PhaseRejected:
		return &health{Stalled, ReasonPolicyRejected, g.Message}
	case g != nil && g.Phase == v1alpha1.PhaseUndoing:
		return is(Reconciling, ReasonPolicy)
	case g != nil && g.Phase == v1alpha1.PhaseStalled && left.byPolicy > 0 && s[working].count == 0:
		return &health{Stalled, ReasonPolicyStalled, g.Message}
	case progressing.status == corev1.ConditionFalse && late && s[blocked].count+s[failing].count > 0:
		return is(Stalled, progressing.reason)
	case rest > 0:
		return is(Reconciling, progressing.reason)
	case left.unserved > 0:
		return is(Reconciling, ReasonUnavailable)
	case left.byPolicy > 0 && (g == nil || !g.Settled):
		return is(Reconciling, ReasonPolicy)
	case left.byPolicy > 0:
		return is(Ready, ReasonPolicy)
	default:
		return is(Ready, progressing.reason)
	}
}
