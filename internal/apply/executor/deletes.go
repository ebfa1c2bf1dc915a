// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// deletion is a delete of a pod. It needs nothing of the pass, for a delete that may be sent after it.
type deletion struct {
	e   sender
	pod string
	uid types.UID
	// unready is whether the pod was not ready when that was decided, so that the delete was free.
	unready bool
	// version is the resourceVersion that the last request named; empty for none.
	version string
	// outdated is whether the pod has become ready, so that the delete is not free any more. Then a conflict is no reason to name no version the next time.
	outdated bool
}

func (r *run) deletion(a rollout.Action) *deletion {
	uid := types.UID(a.UID)
	return &deletion{e: r.e.continuing(), pod: a.Pod, uid: uid, unready: r.unready(a) == uid}
}

var errReady = errors.New("the pod has become ready")

// send asks for the delete of the pod that was decided on. One that was not ready then is deleted only as it is known: it may get ready while the API server
// is slow with the delete, or with the news of the pod, and the budget may have no room for it any more. Where other clients change the pod all the time, it
// would never be deleted, so after mostDiffering answers only the UID counts; those that kept a pod which had become ready are not among them.
func (d *deletion) send(ctx context.Context, pods Pods) error {
	only := metav1.Preconditions{UID: &d.uid}
	d.version, d.outdated = "", false
	if d.unready && !d.e.keepsDiffering(d.uid, inflight.Delete) {
		d.version = d.e.Index.Version(d.uid)
		if d.outdated = d.e.Index.Ready(d.uid); d.outdated { // after the version, which may be newer than what the decision to send it was made from
			return apierrors.NewConflict(corev1.Resource("pods"), d.pod, errReady)
		}
	}
	if d.version != "" {
		only.ResourceVersion = &d.version
	}
	return pods.Delete(ctx, d.e.key.Namespace, d.pod, only)
}

// meaning returns what the answer means. If it reports that the pod is gone, was replaced, or has been changed, a read verifies this, because an admission webhook
// may refuse with any code.
func (d *deletion) meaning(ctx context.Context, err error) (apply.Answer, error) {
	if d.outdated { // it was not sent
		return apply.Differs, err
	}
	answer := apply.OfDelete(err)
	d.e.Count(verbDelete, answer)
	if answer != apply.Differs && answer != apply.Gone {
		return answer, err
	}
	pod, getErr := d.e.get(ctx, d.pod)
	switch {
	case apierrors.IsNotFound(getErr) || getErr == nil && pod.UID != d.uid:
		return apply.Gone, err
	case getErr != nil && answer == apply.Differs && d.version != "":
		return apply.Busy, errors.Join(err, getErr) // it took no effect, and what the pod is like is seen later
	case getErr != nil:
		return apply.Unclear, errors.Join(err, getErr)
	}
	rec, ours := d.e.observe(pod)
	switch {
	case answer != apply.Differs || d.version == "":
		return apply.Refused, err
	case !ours, rec.Ready && !d.e.Index.Ready(d.uid): // it has left the set, or the storage was restored: only the watch can correct the index
		return apply.Busy, err
	}
	d.outdated = rec.Ready
	return apply.Differs, err
}

// resolve records the answer to a delete.
func (d *deletion) resolve(answer apply.Answer) {
	w := inflight.Write{Verb: inflight.Delete, UID: d.uid}
	if d.outdated {
		d.e.Index.Resolve(w, inflight.NoEffect)
		return
	}
	d.e.resolve(w, answer)
}
