// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/rollout"
)

// PodFacts is what one dialect needs to know of a pod and the others do not. It is read once for each version of the pod
// and knows nothing of the set; what depends on the set is resolved when a Snapshot is made.
type PodFacts struct {
	// Gate reports whether the pod has the readiness gate for changes in place, InPlace how far such a change has come, and
	// MarkedAt when the pod was marked for it, or when its grace period began, if another controller has announced the change.
	Gate     bool
	InPlace  rollout.InPlace
	MarkedAt rollout.Time
	// Open reports whether the change was made without closing a gate, and none is closed. ReadyAfter is the earliest time from which the pod can have been
	// ready as it is now; 0 for no such bound. A kubelet that restarts a container between two status updates never reports that it was not ready.
	Open       bool
	ReadyAfter rollout.Time
	// Due is when a change that another controller has announced may be made, and Stuck why a change can never come to its end.
	Due   rollout.Time
	Stuck rollout.Detail
	// PatchedAt is when the pod was changed, and Patience is how long the change does not count as stuck after that, although Stuck is set.
	PatchedAt rollout.Time
	Patience  time.Duration
	// Recreates is how many containers a change that was made still restarts.
	Recreates uint8
	// ArrivesBy is when a change counts as arrived although the reports of the node do not prove it; 0 if they are conclusive.
	ArrivesBy rollout.Time
	// Interrupted reports whether the pod was being prepared to be deleted, and that ended before it was: see rollout.Pod.
	Interrupted bool
	// Starting reports whether a container that reads labels or annotations in its environment does not run.
	Starting bool
	// Preparing reports whether the pod has been prepared to be deleted.
	Preparing bool
	// Evicted reports whether it was because its node must not run it.
	Evicted bool
	// Finalizers of the pod; a preDelete hook may wait for one of them to be removed.
	Finalizers []string
	// Trouble is the reason in its status why the pod does not start; empty if there is none.
	Trouble string
	// Announced is what the pod announces about a newer revision.
	Announced Announced
	// PullSecrets are the names of the pull secrets of the pod, with commas. A pod of a template without any has those of its service account.
	PullSecrets unique.Handle[string]
}

// SecretNames returns the names of the pull secrets of the pod.
func (f *PodFacts) SecretNames() []string {
	if f == nil || f.PullSecrets == (unique.Handle[string]{}) {
		return nil
	}
	return strings.Split(f.PullSecrets.Value(), ",")
}

// Announced is what a pod announces about a newer revision.
type Announced struct {
	// Said reports whether it says anything, and Old that there is one.
	Said, Old bool
	// Hash is the newest revision, as in the label controller-revision-hash; empty if the pod names none.
	Hash string
}

// FactsFunc reads the facts of a pod; nil if there are none, which should be the case for a pod of another dialect.
// It is called with whole pods, of which nothing else is kept; so it must keep neither the pod nor large parts of it.
type FactsFunc func(p *corev1.Pod) *PodFacts

// PreDelete is the preDelete hook of a set: before a pod that it matches is deleted, the pod is prepared, and
// deleted only when the hook no longer matches. It matches a pod with any of the labels or any of the
// finalizers.
type PreDelete struct {
	Labels     map[string]string
	Finalizers []string
	// MarkNotReady reports whether a prepared pod is not ready.
	MarkNotReady bool
}

// State is how far the hook of a pod is. A set without one has a nil hook; it releases what has been prepared.
func (h *PreDelete) State(labels map[string]string, f *PodFacts) rollout.Hook {
	matches := h != nil && h.matches(labels, f)
	switch {
	case f != nil && f.Preparing && matches:
		return rollout.HookWaiting
	case f != nil && f.Preparing:
		return rollout.HookReleased
	case matches:
		return rollout.HookArmed
	default:
		return rollout.HookNone
	}
}

func (h *PreDelete) matches(labels map[string]string, f *PodFacts) bool {
	for key, value := range h.Labels {
		if have, ok := labels[key]; ok && have == value {
			return true
		}
	}
	return f != nil && slices.ContainsFunc(h.Finalizers, func(name string) bool { return slices.Contains(f.Finalizers, name) })
}
