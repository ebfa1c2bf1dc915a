// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// editAll carries out the actions that patch pods: those of one pod in their order, different pods at once.
func (r *run) editAll(ctx context.Context, wg *sync.WaitGroup) {
	if r.job.Edits == nil {
		return
	}
	byPod := map[string][]int{}
	var order []string
	for i, a := range r.job.Plan.Actions {
		if a.Kind == rollout.Create || a.Kind == rollout.Delete {
			continue
		}
		if byPod[a.UID] == nil {
			order = append(order, a.UID)
		}
		byPod[a.UID] = append(byPod[a.UID], i)
	}
	for _, uid := range order {
		r.e.inTurn(wg, func(e sender) { r.editPod(ctx, e, byPod[uid]) })
	}
}

// editPod sends the edits of one pod. The pod is read first: an edit may depend on more than the cache keeps
// of a pod. Opening a gate needs the least data, but even this needs the gates of the pod, and the entries of
// others in the message of KruisePodReady, which must be kept. Storing this for every pod would cost memory
// for the few pods that change. A patch with the version that the cache knows would be refused whenever the
// kubelet has written in the meantime, which is likely at that moment, and the next pass would be delayed.
// The API server reads from its cache (Pods.GetSince).
//
// Only Everynode makes these edits, so a version that is not older than its last write is enough; data that
// others also write is guarded by the resourceVersion. This requires that the outcome of the last write is
// known: while it is in doubt, the read may return an older version, and the write may take effect after a
// new one. So nothing is sent then.
func (r *run) editPod(ctx context.Context, e sender, actions []int) {
	first := r.job.Plan.Actions[actions[0]]
	if e.Index.InDoubt(types.UID(first.UID)) {
		return // the index asks for another pass as long as there is a doubt
	}
	pod := r.readPod(ctx, e, first)
	if pod == nil {
		return
	}
	e = e.continuing()
	e.void = r.overtaken(first)
	for _, i := range actions {
		if !r.job.MayWrite() {
			return
		}
		a := r.job.Plan.Actions[i]
		kind, node := slowKind{r.job.Key, verbPatch}, r.job.Snapshot.Nodes[a.Node].Name
		edits := r.edits(a, pod)
		for k, edit := range edits {
			if edit.Of != dialect.Resize && e.Slow.takes(kind, node) {
				r.patchSlowly(ctx, a, tried{Edit: edit, before: pod, more: k+1 < len(edits)}, e.void)
				return
			}
			if edit.Of == dialect.Resize && k+1 < len(edits) && !e.Slow.takes(kind, node) && !r.tries(ctx, e, i, edits[k+1]) {
				return
			}
			w := inflight.Write{Verb: inflight.Edit, UID: types.UID(a.UID), Takes: takesAway(a, edit)}
			e.begin(&w)
			var patched *corev1.Pod
			err := e.send(ctx, verbPatch, func() (err error) {
				patched, err = e.Pods.Patch(ctx, PodPatch{Namespace: e.key.Namespace, Pod: a.Pod, Of: edit.Of, Body: edit.Patch})
				return err
			})
			if errors.Is(err, errLate) {
				e.Index.Resolve(w, inflight.NoEffect)
				r.leaveForNextPass()
				return
			}
			e.Slow.heard(kind, node, err)
			if !r.edited(ctx, i, tried{Edit: edit, before: pod, after: patched, write: w}, err) {
				return
			}
			if pod = patched; takesAway(a, edit) {
				e.void = nil // what has been begun goes on
			}
		}
		if a.Kind == rollout.Patch {
			if err := keptOld(pod, r.hash(a)); err != nil {
				r.editTeller(a)(err)
				r.refuse(i, apply.Refused, &Refusal{what: fmt.Sprintf("%s of pod %s", a.Kind, a.Pod), err: err})
				return
			}
		}
		r.finish(i)
		if a.Kind == rollout.Patch || a.Kind == rollout.Resume {
			e.Events.Eventf(r.job.Object, corev1.EventTypeNormal, r.job.Texts.Patched, r.job.Texts.PatchedText, a.Pod)
		}
	}
}

// tries reports whether the rest of a change may follow the new resources of a pod: a policy that denies an image is not called for them. A pod with new resources that stays at
// its revision would keep them when the change is undone, because it counts as what is wanted then; and its containers may have been restarted for nothing. Any other answer is left
// to the edit itself.
func (r *run) tries(ctx context.Context, e sender, action int, edit dialect.Edit) bool {
	a := r.job.Plan.Actions[action]
	err := e.send(ctx, verbPatch, func() error {
		_, err := e.Pods.Patch(ctx, PodPatch{Namespace: e.key.Namespace, Pod: a.Pod, Of: edit.Of, Body: edit.Patch, DryRun: true})
		return err
	})
	if apply.OfDelete(err) != apply.Refused || apply.NoDryRun(err) {
		return true
	}
	r.editTeller(a)(err)
	r.refuse(action, apply.Refused, &Refusal{what: fmt.Sprintf("%s of pod %s", a.Kind, a.Pod), err: err})
	return false
}

// readPod is the pod of an action, at least as new as what is known of it; nil if nothing is to be edited.
func (r *run) readPod(ctx context.Context, e sender, a rollout.Action) *corev1.Pod {
	var pod *corev1.Pod
	err := e.send(ctx, verbSee, func() (err error) {
		pod, err = e.Pods.GetSince(ctx, e.key.Namespace, a.Pod, e.Index.Version(types.UID(a.UID)))
		return err
	})
	switch {
	case errors.Is(err, errLate):
		r.leaveForNextPass()
		return nil
	case apierrors.IsNotFound(err) || err == nil && pod.UID != types.UID(a.UID):
		e.Index.ConfirmDeleted(types.UID(a.UID))
		return nil
	case err != nil:
		r.fail(fmt.Errorf("reading pod %s: %w", a.Pod, err))
		return nil
	}
	e.observe(pod) // this detects an edit that is not needed, because the answer to an earlier one was lost
	if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || owner.UID != r.job.Owner.UID {
		return nil // a user or another controller has taken it away from the set, which has not been seen yet
	}
	if pod.DeletionTimestamp != nil {
		return nil
	}
	return pod
}

// keptOld is the error of a pod that is not of the revision with that hash, although the API server took the change to it. It counts as a refusal.
func keptOld(pod *corev1.Pod, hash string) error {
	if pod.Labels[appsv1.ControllerRevisionHashLabelKey] == hash {
		return nil
	}
	return fmt.Errorf("a webhook has changed the label %s back, so the pod is not of revision %s", appsv1.ControllerRevisionHashLabelKey, hash)
}

func (r *run) edits(a rollout.Action, pod *corev1.Pod) []dialect.Edit {
	now, e := r.e.Clock.Now(), r.job.Edits
	switch a.Kind {
	case rollout.Prepare:
		return e.Prepare(r.job.Workload, pod, a.Evict, now)
	case rollout.Restore:
		return e.Restore(r.job.Workload, pod, now)
	case rollout.Mark:
		return e.Mark(pod, now)
	case rollout.Unmark:
		return e.Unmark(pod, now)
	case rollout.Patch:
		return e.Patch(pod, r.job.Change(r.from(a, pod), a.Revision), now)
	case rollout.Resume:
		return e.Resume(pod, now)
	default:
		return nil
	}
}

// from returns the revision that the pod of a Patch has now. The pod itself is newer than the plan, but perhaps only the cache can map its hash to a revision.
func (r *run) from(a rollout.Action, pod *corev1.Pod) int {
	hash := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	known := func(v rollout.Revision) bool { return v.Name == hash }
	if i := slices.IndexFunc(r.job.Snapshot.Revisions, known); i >= 0 {
		return i
	}
	for _, p := range r.job.Snapshot.Nodes[a.Node].Pods {
		if p.UID == a.UID {
			return p.Revision
		}
	}
	return a.Revision
}

// tried is an edit that was sent, with the pod before and after it, and the record of the write in flight.
type tried struct {
	dialect.Edit
	before, after *corev1.Pod
	write         inflight.Write
	more          bool // other edits of the action follow it
}

// edited handles the answer to an edit of an action, and reports whether the edit took effect.
func (r *run) edited(ctx context.Context, i int, edit tried, err error) bool {
	a, answer, verb := r.job.Plan.Actions[i], apply.OfDelete(err), verbPatch
	if edit.Of != dialect.Whole {
		verb += "-" + string(edit.Of)
	}
	r.e.Count(verb, answer)
	uid, what := types.UID(a.UID), fmt.Sprintf("%s of pod %s", a.Kind, a.Pod)
	if answer == apply.Done {
		r.e.observe(edit.after)
	}
	r.e.resolve(edit.write, answer)
	switch {
	case answer == apply.Done:
		return true
	case edit.Of == dialect.Resize && refusesResize(err):
		r.e.Index.Resolve(edit.write, inflight.NoResize)
	case answer == apply.Gone && r.e.gone(ctx, a.Pod, uid):
		return false
	case answer == apply.Differs && r.e.keepsDiffering(uid, inflight.Edit):
	case answer == apply.Differs || answer == apply.Busy:
		// Where it differs, another client has changed the pod since it was read. The next pass starts from there, and no event reports it.
		r.fail(fmt.Errorf("%s: %w", what, err))
		return false
	}
	r.editTeller(a)(err)
	refusal := &Refusal{what: what, err: err}
	switch {
	case answer == apply.Unclear:
		refusal.before = r.e.record(edit.before)
		r.refuse(i, answer, refusal)
	case edit.Of == dialect.Resize && !apply.BeyondLimits(err):
		r.fail(fmt.Errorf("%s: %w", what, err))
	default:
		r.refuse(i, answer, refusal)
	}
	return false
}

// mostDiffering is how many edits or deletes of a pod another client may overtake. After that an edit counts as refused, so the node comes after all others, and
// a delete is sent whatever has changed.
const mostDiffering = 3

// keepsDiffering is whether another client overtakes the edits or deletes of a pod again and again.
func (e sender) keepsDiffering(uid types.UID, verb inflight.Verb) bool {
	return e.Index.Conflicts(uid, verb) >= mostDiffering
}

// record is what an edit changes of a version of a pod.
func (e sender) record(pod *corev1.Pod) *inflight.Content {
	return &inflight.Content{Labels: pod.Labels, Facts: e.Index.Facts(pod)}
}

// editTeller returns a function that sends the event of a failed edit: about a change in place, or about the deletion of which the edit is a part.
func (r *run) editTeller(a rollout.Action) func(err error) {
	t, warn, hash := r.job.Texts, r.warner(a.Node), r.hash(a)
	return func(err error) {
		switch a.Kind {
		case rollout.Prepare, rollout.Restore:
			warn(t.DeleteFailed, t.DeleteFailedText, fmt.Errorf("%s of pod %s: %w", a.Kind, a.Pod, err))
		default:
			warn(t.PatchFailed, t.PatchFailedText, a.Pod, hash, err)
		}
	}
}

// takesAway reports whether an edit takes a serving pod out of use. All other edits of a pod come after such an edit.
func takesAway(a rollout.Action, edit dialect.Edit) bool {
	switch a.Kind {
	case rollout.Prepare:
		return true
	case rollout.Mark:
		return edit.Of == dialect.Status
	case rollout.Patch, rollout.Resume:
		return edit.Of != dialect.Resize // until it is patched, a pod whose gate stays open serves
	default:
		return false
	}
}

// refusesResize reports whether an answer means that this pod's resources cannot be changed. "Not found"
// counts too, because the subresource may not exist; if the pod is gone, the next read shows it. What the limits of
// the namespace do not allow, they do not allow a new pod either: the old one serves until that has changed.
func refusesResize(err error) bool {
	if apply.BeyondLimits(err) {
		return false
	}
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err)
}

// hash returns the hash of the revision of an action; empty if the revision is not in the history.
func (r *run) hash(a rollout.Action) string {
	if a.Revision < 0 || a.Revision >= len(r.job.Snapshot.Revisions) {
		return ""
	}
	return r.job.Snapshot.Revisions[a.Revision].Name
}
