// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// announceAll lets pods say whether there is a newer revision. Each is a write of its own, so one that fails stops no other; what was not
// said, or not clearly answered, the next decision asks for again.
func (r *run) announceAll(ctx context.Context, wg *sync.WaitGroup) {
	if r.job.Announce == nil {
		return
	}
	for _, a := range r.job.Plan.Announcements {
		inTurn(ctx, wg, func(ctx context.Context) { r.announce(ctx, a) })
	}
}

func (r *run) announce(ctx context.Context, a rollout.Announcement) {
	if !r.job.MayWrite() {
		return
	}
	edit := r.job.Announce(r.words(a), r.e.Clock.Now())
	pod, err := r.e.patch(ctx, PodPatch{Namespace: r.job.Key.Namespace, Pod: a.Pod, Of: edit.Of, Body: edit.Patch})
	if errors.Is(err, errLate) {
		r.leave()
		return
	}
	answer := apply.OfDelete(err)
	r.e.Count("announce", answer)
	switch {
	case answer == apply.Done:
		r.fold(pod)
	case answer == apply.Gone && r.e.gone(ctx, a.Pod, types.UID(a.UID)):
	default:
		r.fail(fmt.Errorf("condition of pod %s: %w", a.Pod, err))
	}
}

// words are an announcement with the name of the revision, and with whether the pod has said otherwise before.
func (r *run) words(a rollout.Announcement) dialect.Announcement {
	words := dialect.Announcement{UID: a.UID, Old: a.Old, Turned: true, Withdraw: a.Withdraw}
	if !a.Withdraw {
		words.Hash = r.job.Snapshot.Revisions[r.job.Snapshot.Set.Update].Name
	}
	for i := range r.job.Snapshot.Nodes[a.Node].Pods {
		if p := &r.job.Snapshot.Nodes[a.Node].Pods[i]; p.UID == a.UID {
			words.Turned = !p.Announced.Said || p.Announced.Old != a.Old
		}
	}
	return words
}
