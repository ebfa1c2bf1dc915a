// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// Refusal is a definite refusal to a write for a node, or an answer that leaves open whether the write took
// effect. It is remembered, and the node is retried separately, so a definite refusal does not require
// another pass.
type Refusal struct {
	// what names the write for users: "creating a pod", or "deleting pod ds-abc".
	what, node, pod string
	err             error
	of              rollout.ActionKind // as in rollout.Refusal.Of
	// before is the pod before an edit whose outcome is unknown; nil for another write.
	before *inflight.Content
}

// Error implements error.
func (r *Refusal) Error() string { return r.write() + ": " + r.err.Error() }

// write is which write it was, with the pod or the node.
func (r *Refusal) write() string {
	if r.pod == "" || !strings.Contains(r.what, r.pod) {
		return r.what + " for node " + r.node
	}
	return r.what
}

// Unwrap is the answer of the API server.
func (r *Refusal) Unwrap() error { return r.err }

// mostInReason is how many characters of an answer are kept for each node: a webhook of others may refuse pods with a text of any length.
const mostInReason = 1024

// Reason is the same for all pods of a set that are refused for one cause, such as a quota.
func (r *Refusal) Reason() string {
	var names []string
	if r.pod != "" {
		names = append(names, r.pod, "<pod>")
	}
	if r.node != "" {
		names = append(names, r.node, "<node>")
	}
	// It is shortened last: names of different lengths would end it at different places.
	return rollout.Shortened(strings.NewReplacer(names...).Replace(r.what+": "+r.err.Error()), mostInReason)
}

// refusedAs is rollout.Refusal.Of for a refusal of the action.
func refusedAs(a rollout.Action) rollout.ActionKind {
	if a.Kind == rollout.Patch || a.Kind == rollout.Delete || a.TakesBack {
		return a.Kind
	}
	return 0
}

// refuse records a definite refusal of an action, or an answer that leaves open whether it took effect. If it
// did not take effect, the write is retried like a refused one: after all other nodes, and later each time.
// Otherwise one pod whose write never gets a definite answer would be the first in each pass, and occupy a
// slot of the budget nearly all of the time.
func (r *run) refuse(action int, answer apply.Answer, refusal *Refusal) {
	a := r.job.Plan.Actions[action]
	refusal.node = r.job.Snapshot.Nodes[a.Node].Name
	uid := types.UID("") // a create is about no pod
	if a.Kind != rollout.Create {
		uid, refusal.pod, refusal.of = types.UID(a.UID), a.Pod, refusedAs(a)
	}
	r.blocked(action, refusal.Reason(), r.e.remember(uid, refusal))
	if answer == apply.Unclear {
		r.fail(fmt.Errorf("%s: %w", refusal.write(), refusal.err))
		return
	}
	r.fail(refusal)
}

// remember records an answer for a node, and returns when that may be tried again.
func (e sender) remember(uid types.UID, refusal *Refusal) (retryAt rollout.Time) {
	return e.Index.Refuse(e.key, inflight.Refusal{
		Node: refusal.node, Pod: uid, Of: refusal.of, Before: refusal.before, Message: refusal.Reason(), Denied: apply.Denied(refusal.err), Quota: apply.QuotaUsedUp(refusal.err), At: rollout.Time(e.Clock.Now().UnixNano()),
	})
}

// blocked notes why an action could not be carried out, and when its node may be tried again.
func (r *run) blocked(action int, why string, retryAt rollout.Time) {
	r.note(func(result *Result) { result.Outcomes[action].Obstacle = why })
	r.retryAt(retryAt)
}

// retryAt notes when a node may be tried again; the first of them counts.
func (r *run) retryAt(at rollout.Time) {
	r.note(func(result *Result) {
		if at != 0 && (result.Unblock == 0 || at < result.Unblock) {
			result.Unblock = at
		}
	})
}

// warner sends the events of writes for a node that failed, also when the pass has ended.
func (r *run) warner(node int) func(reason, format string, args ...any) {
	of, events, object := map[string]string{everynode.EventNode: r.job.Snapshot.Nodes[node].Name}, r.e.Events, r.job.Object
	return func(reason, format string, args ...any) {
		events.AnnotatedEventf(object, of, corev1.EventTypeWarning, reason, format, args...)
	}
}

// closeRefusals forgets the refusals of nodes where what was planned took effect.
func (r *run) closeRefusals() {
	for i, a := range r.job.Plan.Actions {
		n := &r.job.Snapshot.Nodes[a.Node]
		switch {
		case n.Refusal == nil || a.Kind.Preliminary() || !r.result.Outcomes[i].Done:
		case a.TakesBack: // what it takes back is still refused
			r.e.Index.Accept(r.job.Key, n.Name, a.Kind)
		default:
			r.e.Index.Accept(r.job.Key, n.Name, 0)
		}
	}
}

// OnlyRefusals reports whether err, which may join several errors, consists only of refusals that are remembered for their nodes.
func OnlyRefusals(err error) bool {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			if !OnlyRefusals(one) {
				return false
			}
		}
		return true
	}
	var refusal *Refusal
	return errors.As(err, &refusal)
}
