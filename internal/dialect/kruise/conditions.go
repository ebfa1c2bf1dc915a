// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// The types of conditions. OpenKruise has the field, but never sets one.
const (
	Progressing appsv1.DaemonSetConditionType = "Progressing" // pods are being created, updated or removed
	Available   appsv1.DaemonSetConditionType = "Available"   // the nodes without an available pod do not exceed the budget of the update
	Paused      appsv1.DaemonSetConditionType = "Paused"      // updates are paused by the specification
	Degraded    appsv1.DaemonSetConditionType = "Degraded"    // something is wrong, and a user must fix it
	Ready       appsv1.DaemonSetConditionType = "Ready"       // the set matches its specification; nodes held by paused, partition, selector or OnDelete count as done
	Reconciling appsv1.DaemonSetConditionType = "Reconciling" // the set is not Ready, and the manager works on it
	Stalled     appsv1.DaemonSetConditionType = "Stalled"     // the set is not Ready, and will not become Ready without intervention: its specification cannot be honoured, there was no progress for ten minutes, or the rollout policy has stopped the rollout
)

// OwnCondition reports whether a condition of that type is one of Everynode's.
func OwnCondition(kind string) bool {
	return slices.Contains([]appsv1.DaemonSetConditionType{Progressing, Available, Paused, Degraded, Ready, Reconciling, Stalled}, appsv1.DaemonSetConditionType(kind))
}

// The reasons of conditions. Degraded, and with it Progressing, can also have the reason of a dialect.Problem, above all InvalidSpec. Ready, Reconciling and
// Stalled have one reason together, which may also be one of Progressing.
const (
	ReasonComplete    = "Complete"    // Progressing False: every node has what it should have
	ReasonInProgress  = "InProgress"  // Progressing True
	ReasonHeld        = "Held"        // Progressing False: what is left is kept back by the specification
	ReasonBlocked     = "Blocked"     // Progressing False, Degraded True: the rest cannot continue; a write was refused or got no clear answer
	ReasonPodsFailing = "PodsFailing" // Progressing False, Degraded True: the rest cannot continue; pods fail repeatedly, or their status shows why they do not start
	ReasonNodes       = "Nodes"       // Available
	ReasonPaused      = "Paused"      // Paused True
	ReasonNotPaused   = "NotPaused"   // Paused False
	ReasonAsExpected  = "AsExpected"  // Degraded False

	ReasonUnavailable    = "Unavailable"    // Reconciling True: a node that is kept back has no available pod
	ReasonPolicy         = "Policy"         // Reconciling True, or Ready True with readyWhen: WaveHealthy: a rollout policy keeps nodes back
	ReasonPolicyFailed   = "PolicyFailed"   // Stalled True: the newest revision has failed under a rollout policy
	ReasonPolicyRejected = "PolicyRejected" // Stalled True: the newest revision was rejected
	ReasonPolicyStalled  = "PolicyStalled"  // Stalled True: the rollout policy that keeps nodes back cannot be followed, or was deleted
)

// mostInCondition is how many characters the message of a condition has at most. It may contain the answer of a webhook of others or the value of an annotation, and
// the API server refuses a status that is too long as a whole.
const mostInCondition = 8 * 1024

// namedNodes is how many nodes a message names.
const namedNodes = 3

// Observation is what conditions are made from.
type Observation struct {
	Now metav1.Time
	// Snapshot and Plan are those of one decision; nil if none could be made.
	Snapshot *rollout.Snapshot
	Plan     *rollout.Plan
	// Paused reports whether the specification pauses updates.
	Paused   bool
	Problems []dialect.Problem
	// Failure is the reason why nothing was done about the plan; nil if it was.
	Failure error
	// Governed is the effect of a rollout policy on the set; nil without a policy.
	Governed *dialect.Governed
}

// Conditions returns the conditions after o; previous are those before. The time of a condition changes only with its
// status. Conditions of other controllers stay unchanged, and without a decision so do the conditions that only a
// decision can set. But if the specification prevents a decision, nothing is progressing.
func Conditions(previous []appsv1.DaemonSetCondition, o Observation) []appsv1.DaemonSetCondition {
	conditions := slices.Clone(previous)
	set := func(kind appsv1.DaemonSetConditionType, v verdict) { conditions = merged(conditions, kind, v, o.Now) }
	var h *health
	decided := o.Plan != nil && o.Snapshot != nil
	if decided {
		s := survey(o.Snapshot, o.Plan)
		progressing, degraded := s.progressing(o.Plan.Status), s.degraded(o.Problems)
		if o.Failure != nil {
			progressing = verdict{corev1.ConditionFalse, ReasonBlocked, o.Failure.Error()}
			degraded = verdict{corev1.ConditionTrue, ReasonBlocked, o.Failure.Error()}
		}
		set(Progressing, progressing)
		set(Available, s.available(o))
		set(Degraded, degraded)
		h = s.health(o, progressing, troubled(o, conditions))
	}
	if i := fatal(o.Problems); i >= 0 {
		v := verdict{corev1.ConditionFalse, o.Problems[i].Reason, "nothing is done before this is fixed: " + o.Problems[i].Message}
		h = &health{Stalled, v.reason, v.message}
		if !decided {
			set(Progressing, v)
		}
	}
	if !decided {
		set(Degraded, stages{}.degraded(o.Problems))
	}
	set(Paused, paused(o.Paused))
	if h != nil {
		h.report(set)
	}
	return conditions
}

// fatal returns the index of the first problem that prevents reconciliation; -1 if there is none.
func fatal(problems []dialect.Problem) int {
	return slices.IndexFunc(problems, func(p dialect.Problem) bool { return p.Fatal })
}

// verdict is a condition without its type and time.
type verdict struct {
	status          corev1.ConditionStatus
	reason, message string
}

func merged(conditions []appsv1.DaemonSetCondition, kind appsv1.DaemonSetConditionType, v verdict, now metav1.Time) []appsv1.DaemonSetCondition {
	next := appsv1.DaemonSetCondition{Type: kind, Status: v.status, Reason: v.reason, Message: rollout.Shortened(v.message, mostInCondition), LastTransitionTime: now}
	i := slices.IndexFunc(conditions, func(c appsv1.DaemonSetCondition) bool { return c.Type == kind })
	if i < 0 {
		return append(conditions, next)
	}
	if conditions[i].Status == next.Status {
		next.LastTransitionTime = conditions[i].LastTransitionTime
	}
	conditions[i] = next
	return conditions
}

// stage is how far a node is, as far as conditions care.
type stage uint8

const (
	done      stage = iota // nothing is left to do
	leftAlone              // the node need not run the pod, and keeps an old one
	working                // something is done, or waits for something that comes by itself
	queued                 // the node waits for its turn
	held                   // the specification keeps the node back
	failing                // the pod fails repeatedly, or its status shows why it does not start
	blocked                // a write was refused or got no clear answer
	away                   // what the node waits for can come only when the node is ready again, or has not come for ten minutes
	stageCount
)

func stageOf(kind rollout.VerdictKind) stage {
	switch kind.Cause() {
	case rollout.NoCause:
		if kind.Acts() || kind == rollout.NotEvaluated {
			return working
		}
		return done
	case rollout.CauseCollector:
		return done // the pod garbage collector removes the pods of a node that is gone
	case rollout.CauseTurn:
		return queued
	case rollout.CausePlacement:
		return leftAlone
	case rollout.CauseSpec, rollout.CauseLimit, rollout.CausePolicy:
		return held
	case rollout.CauseBackoff:
		return failing
	case rollout.CauseRefusal:
		return blocked
	default:
		return working
	}
}

// stages groups the nodes by stage, with the number of nodes and a description of the first ones.
type stages [stageCount]struct {
	count int
	named []string
}

func survey(snapshot *rollout.Snapshot, plan *rollout.Plan) stages {
	var s stages
	for i, v := range plan.Verdicts {
		reached, trouble := stageOf(v.Kind), troubleAt(snapshot, i, v.Kind)
		switch {
		case trouble != "":
			reached = failing
		case v.Kind.Cause() == rollout.CauseProgress && (!snapshot.Nodes[i].Ready || lateAt(snapshot, i, v.Kind)):
			reached = away
		}
		at := &s[reached]
		at.count++
		if reached == done || len(at.named) >= namedNodes {
			continue
		}
		sentence := v.Kind.Sentence()
		switch {
		case v.Kind.Cause() == rollout.CauseRefusal:
			sentence = plan.Obstacle(snapshot, i)
		case trouble != "":
			sentence += "; " + trouble
		case v.Detail != rollout.NoDetail:
			sentence += "; " + v.Detail.Sentence()
		}
		at.named = append(at.named, snapshot.Nodes[i].Name+": "+sentence)
	}
	return s
}

// troubleAt returns the reason in its status why the pod that a node waits for does not start.
func troubleAt(snapshot *rollout.Snapshot, node int, kind rollout.VerdictKind) string {
	if !kind.AwaitsPod() {
		return ""
	}
	for i := range snapshot.Nodes[node].Pods {
		p := &snapshot.Nodes[node].Pods[i]
		if awaited(snapshot, p) && p.Trouble != "" {
			return p.Trouble
		}
	}
	return ""
}

// awaited reports whether a pod is one that its node waits for.
func awaited(snapshot *rollout.Snapshot, p *rollout.Pod) bool {
	return !p.Deleting && (p.Revision == snapshot.Set.Update || p.InPlace == rollout.InPlacePatched)
}

// lateAt reports whether the pod that a node waits for, or whose end it waits for, is late.
func lateAt(snapshot *rollout.Snapshot, node int, kind rollout.VerdictKind) bool {
	return slices.ContainsFunc(snapshot.Nodes[node].Pods, func(p rollout.Pod) bool {
		waitsFor := kind == rollout.WaitTerminating && p.Deleting || kind.AwaitsPod() && awaited(snapshot, &p)
		at := p.LateAt()
		return waitsFor && at != 0 && at <= snapshot.Now
	})
}

// first returns how many nodes are at a stage, and names the first of them.
func (s stages) first(at stage) string {
	text := strings.Join(s[at].named, "; ")
	if more := s[at].count - len(s[at].named); more > 0 {
		text += fmt.Sprintf("; and %s more", nodes(more))
	}
	return text
}

// waiting returns how many nodes wait for their turn.
func (s stages) waiting() string {
	if s[queued].count == 0 {
		return ""
	}
	return "; waiting for their turn: " + nodes(s[queued].count)
}

// progressing lists the nodes that block the others before the nodes that wait.
func (s stages) progressing(status rollout.Status) verdict {
	updated := fmt.Sprintf("%d of %s have a pod of the newest revision", status.Updated, nodes(status.Desired))
	switch {
	case s[working].count > 0:
		return verdict{corev1.ConditionTrue, ReasonInProgress, updated + "; in progress: " + s.first(working) + s.waiting()}
	case s[blocked].count > 0:
		return verdict{corev1.ConditionFalse, ReasonBlocked, updated + "; blocked: " + s.first(blocked) + s.waiting()}
	case s[failing].count > 0:
		return verdict{corev1.ConditionFalse, ReasonPodsFailing, updated + "; failing: " + s.first(failing) + s.waiting()}
	case s[away].count > 0:
		return verdict{corev1.ConditionTrue, ReasonInProgress, updated + "; in progress: " + s.first(away) + s.waiting()}
	case s[queued].count > 0:
		return verdict{corev1.ConditionTrue, ReasonInProgress, updated + "; next: " + s.first(queued)}
	case s[held].count > 0:
		return verdict{corev1.ConditionFalse, ReasonHeld, updated + "; held back: " + s.first(held)}
	case s[leftAlone].count > 0:
		return verdict{corev1.ConditionFalse, ReasonComplete, updated + "; not updated: " + s.first(leftAlone)}
	default:
		return verdict{corev1.ConditionFalse, ReasonComplete, updated}
	}
}

// available compares the number of nodes without an available pod with the budget of the update.
func (s stages) available(o Observation) verdict {
	status, limit := o.Plan.Status, 0
	if o.Snapshot.Set.Strategy == rollout.RollingUpdate && !o.Plan.Budget.Surge {
		limit = o.Plan.Budget.Limit
	}
	v := verdict{corev1.ConditionTrue, ReasonNodes, fmt.Sprintf("%d of %s have an available pod, at least %d must",
		status.Available, nodes(status.Desired), max(0, status.Desired-limit))}
	if status.Unavailable > limit {
		v.status = corev1.ConditionFalse
		v.message += "; without: " + without(o)
	}
	return v
}

// without lists the first nodes that should have an available pod and have none.
func without(o Observation) string {
	var names []string
	for i := range o.Snapshot.Nodes {
		node := &o.Snapshot.Nodes[i]
		if node.Fit != rollout.MustRun || hasAvailable(o, node) {
			continue
		}
		if len(names) == namedNodes {
			names = append(names, "and others")
			break
		}
		names = append(names, node.Name)
	}
	return strings.Join(names, ", ")
}

func hasAvailable(o Observation, node *rollout.Node) bool {
	minReady := o.Snapshot.Set.MinReady
	return slices.ContainsFunc(node.Pods, func(p rollout.Pod) bool {
		return p.Ready && (minReady <= 0 || p.ReadySince != 0 && p.ReadySince.Add(minReady) <= o.Snapshot.Now)
	})
}

func (s stages) degraded(problems []dialect.Problem) verdict {
	if len(problems) > 0 {
		// The worst comes first: with a fatal problem, nothing is done.
		i := max(0, fatal(problems))
		return verdict{corev1.ConditionTrue, problems[i].Reason, problems[i].Message}
	}
	switch {
	case s[blocked].count > 0:
		return verdict{corev1.ConditionTrue, ReasonBlocked, s.first(blocked)}
	case s[failing].count > 0:
		return verdict{corev1.ConditionTrue, ReasonPodsFailing, s.first(failing)}
	default:
		return verdict{corev1.ConditionFalse, ReasonAsExpected, ""}
	}
}

func paused(on bool) verdict {
	if on {
		return verdict{corev1.ConditionTrue, ReasonPaused, "Updates are paused by spec.updateStrategy.rollingUpdate.paused; missing pods are created all the same."}
	}
	return verdict{corev1.ConditionFalse, ReasonNotPaused, ""}
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
