// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// announceAll writes to pods whether there is a newer revision. Each announcement is a separate write, so a
// failure does not stop the others. The next decision requests a missing announcement again; if it was
// refused or has no clear answer, after a delay.
func (r *run) announceAll(ctx context.Context, wg *sync.WaitGroup) {
	if r.job.Announce == nil {
		return
	}
	for _, a := range r.job.Plan.Announcements {
		r.e.inTurn(wg, func(e sender) { r.announce(ctx, e, a) })
	}
}

func (r *run) announce(ctx context.Context, e sender, a rollout.Announcement) {
	uid := types.UID(a.UID)
	if !r.job.MayWrite() || e.Index.InDoubt(uid) {
		return
	}
	edit := r.job.Announce(r.words(a), e.Clock.Now())
	patch := PodPatch{Namespace: r.job.Key.Namespace, Pod: a.Pod, Of: edit.Of, Body: edit.Patch}
	kind, node := slowKind{r.job.Key, verbAnnounce}, &r.job.Snapshot.Nodes[a.Node]
	if e.Slow.takes(kind, node.Name) {
		r.announceSlowly(ctx, a, patch)
		return
	}
	w := inflight.Write{Verb: inflight.Edit, UID: uid}
	e.begin(&w)
	var pod *corev1.Pod
	err := e.send(ctx, verbPatch, func() (err error) {
		pod, err = e.Pods.Patch(ctx, patch)
		return err
	})
	if errors.Is(err, errLate) {
		e.Index.Resolve(w, inflight.NoEffect)
		r.leaveForNextPass()
		return
	}
	answer := apply.OfDelete(err)
	e.Count(verbAnnounce, answer)
	e.Slow.heard(kind, node.Name, err)
	refusal := &Refusal{what: announcing(a), node: node.Name, pod: a.Pod, err: err}
	if answer == apply.Done {
		e.observe(pod)
	}
	e.resolve(w, answer)
	switch {
	case answer == apply.Done:
		if node.Refusal != nil {
			e.Index.Accept(r.job.Key, node.Name, 0)
		}
	case answer == apply.Gone && e.gone(ctx, a.Pod, uid):
	case answer == apply.Busy, answer == apply.Differs:
		r.fail(fmt.Errorf("%s: %w", refusal.what, err))
	case answer == apply.Unclear:
		r.retryAt(e.remember(uid, refusal))
		r.announceWarner(a)(err)
		r.fail(fmt.Errorf("%s: %w", refusal.what, err))
	default:
		r.retryAt(e.remember(uid, refusal))
		r.announceWarner(a)(err)
		r.fail(refusal)
	}
}

func announcing(a rollout.Announcement) string { return "writing the condition of pod " + a.Pod }

// announceSlowly is an announcement that no pass waits for. Until it is answered the pod gets no other.
func (r *run) announceSlowly(ctx context.Context, a rollout.Announcement, patch PodPatch) {
	e, uid := r.e.continuing(), types.UID(a.UID)
	w := e.newSlowPatch(verbAnnounce, patch, uid)
	w.what, w.node, w.void, w.failed = announcing(a), r.job.Snapshot.Nodes[a.Node].Name, r.unlessChanged(nil), r.announceWarner(a)
	w.begun = func(until rollout.Time) { e.Index.Begin(inflight.Write{Verb: inflight.Edit, UID: uid, Until: until}) }
	if !e.sendSlowly(ctx, w) {
		r.laneFull()
	}
}

// announceWarner sends the event of an announcement that failed.
func (r *run) announceWarner(a rollout.Announcement) func(err error) {
	warn, t := r.warner(a.Node), r.job.Texts
	return func(err error) {
		if t != nil && t.AnnounceFailed != "" {
			warn(t.AnnounceFailed, t.AnnounceFailedText, a.Pod, err)
		}
	}
}

// words are an announcement with the name of the revision, and with whether the pod has said otherwise before.
func (r *run) words(a rollout.Announcement) dialect.Announcement {
	words := dialect.Announcement{UID: a.UID, Old: a.Old, Turned: true, Withdraw: a.Withdraw}
	if !a.Withdraw {
		words.Hash = r.job.Snapshot.Revisions[a.Revision].Name
	}
	for i := range r.job.Snapshot.Nodes[a.Node].Pods {
		if p := &r.job.Snapshot.Nodes[a.Node].Pods[i]; p.UID == a.UID {
			words.Turned = !p.Announced.Said || p.Announced.Old != a.Old
		}
	}
	return words
}
