// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/fleet"
	"everynode.dev/everynode/internal/rollout"
)

// Claims brings in order, before a decision, what belongs to the set: it sends again every delete that has no definite answer yet, looks
// for the pod of every create that has none and at the pod of every edit, adopts the orphans that the set selects, and releases pods that it selects no longer. It
// does a limited number of these at a time; done is false when there are more. mayAdopt is asked once, before the first
// adoption, whether the set still exists and is not being deleted; it has to ask the API server itself. Without mayAdopt whose pods are whose
// is left to another controller.
func (e *Executor) Claims(ctx context.Context, key fleet.Key, owner metav1.OwnerReference, mayAdopt func(context.Context) error) (done bool, err error) {
	claims, s := e.Index.Claims(key), e.sender(key)
	var todo []func() error
	for _, p := range claims.Unsettled {
		todo = append(todo, func() error { return s.settle(ctx, p) })
	}
	for _, c := range claims.Pending {
		todo = append(todo, func() error { return s.lookFor(ctx, c) })
	}
	for _, d := range claims.Doubts {
		todo = append(todo, func() error { return s.dispel(ctx, d) })
	}
	if mayAdopt == nil {
		claims.Adopt, claims.Release = nil, nil
	}
	for _, p := range claims.Release {
		todo = append(todo, func() error { return s.release(ctx, p, owner.UID) })
	}
	if len(claims.Adopt) > 0 {
		if err := mayAdopt(ctx); err != nil {
			return false, fmt.Errorf("checking that pods may be adopted: %w", err)
		}
	}
	for _, p := range claims.Adopt {
		todo = append(todo, func() error { return s.adopt(ctx, p, owner) })
	}
	now := min(len(todo), rollout.DefaultBurst)
	return now == len(todo), together(todo[:now])
}

// together calls functions, all at once, and joins the first few of their errors.
func together(todo []func() error) error {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for _, do := range todo {
		wg.Go(func() {
			if err := do(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(firstOf(errs)...)
}

// settle repeats a delete whose answer was unclear. The UID makes that safe; not to repeat it would leave open whether the
// pod is about to go.
func (e sender) settle(ctx context.Context, p fleet.UnsettledPod) error {
	answer, err := e.delete(ctx, p.Name, p.UID)
	switch answer {
	case apply.Done:
		e.Index.Settle(p.UID)
	case apply.Gone:
		e.Index.BuryPod(p.UID)
	case apply.Refused, apply.Busy:
		e.spare(ctx, p)
		return fmt.Errorf("deleting pod %s again: %w", p.Name, err)
	default:
		e.Index.Unsettle(p.UID, e.Pace.now().Add(writeTimeout))
		return fmt.Errorf("deleting pod %s again: %w", p.Name, err)
	}
	return nil
}

// spare lets a pod count again whose delete is refused, if that is so: the first one, which had no clear answer, may have taken effect, or may
// do so as long as the API server can be at work on it.
func (e sender) spare(ctx context.Context, p fleet.UnsettledPod) {
	over := e.Pace.now() >= p.Until
	pod, err := e.get(ctx, p.Name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != p.UID:
		e.Index.BuryPod(p.UID)
	case err != nil: // the next pass asks again
	default:
		if rec, ours := e.Index.PodFrom(pod); ours {
			e.Index.FoldPod(rec) // one that is being deleted is settled by that
		}
		if over && pod.DeletionTimestamp == nil {
			e.Index.Settle(p.UID)
			e.Index.Spare(p.UID)
		}
	}
}

// lookFor finds out whether a create took effect whose answer was unclear. Only when the API server cannot be at work on it any more
// does "not found" mean that it did not; until then the node waits.
func (e sender) lookFor(ctx context.Context, c fleet.PendingCreate) error {
	over := e.Pace.now() >= c.Until
	pod, err := e.get(ctx, c.Pod)
	switch {
	case err == nil:
		if rec, ours := e.Index.PodFrom(pod); ours {
			e.Index.FoldPod(rec)
		}
		e.Index.Unpend(e.key, c.Node)
		return nil
	case apierrors.IsNotFound(err):
		if over {
			e.Index.Unpend(e.key, c.Node)
		}
		return nil
	default:
		return fmt.Errorf("looking for pod %s: %w", c.Pod, err)
	}
}

// dispel reads a pod of which it is not known whether an edit took effect, as soon as the API server cannot be at work on that any more.
func (e sender) dispel(ctx context.Context, d fleet.Doubt) error {
	if e.Pace.now() < d.Until {
		return nil
	}
	pod, err := e.get(ctx, d.Pod.Name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != d.Pod.UID:
		e.Index.BuryPod(d.Pod.UID)
	case err != nil:
		return fmt.Errorf("reading pod %s again: %w", d.Pod.Name, err)
	default:
		if rec, ours := e.Index.PodFrom(pod); ours {
			e.Index.FoldPod(rec)
		}
		e.Index.Dispel(d.Pod.UID)
	}
	return nil
}

func (e sender) adopt(ctx context.Context, p fleet.Pod, owner metav1.OwnerReference) error {
	return e.patchOwner(ctx, p, AdoptionPatch(p.UID, owner), "adopt")
}

func (e sender) release(ctx context.Context, p fleet.Pod, owner types.UID) error {
	return e.patchOwner(ctx, p, ReleasePatch(p.UID, owner), "release")
}

func (e sender) patchOwner(ctx context.Context, p fleet.Pod, patch []byte, verb string) error {
	pod, err := e.patch(ctx, PodPatch{Namespace: p.Namespace, Pod: p.Name, Body: patch})
	e.Count(verb, apply.OfDelete(err))
	switch {
	case err == nil:
		if rec, ours := e.Index.PodFrom(pod); ours {
			e.Index.FoldPod(rec)
		} else {
			e.Index.ForgetPod(p.UID)
		}
		return nil
	case apierrors.IsNotFound(err) && e.gone(ctx, p.Name, p.UID):
		return nil
	default:
		return fmt.Errorf("%s of pod %s: %w", verb, p.Name, err)
	}
}

// AdoptionPatch is a strategic merge patch that makes owner the controller of the object with that UID.
func AdoptionPatch(uid types.UID, owner metav1.OwnerReference) []byte {
	return ownerPatch(uid, owner)
}

// ReleasePatch is a strategic merge patch that removes the reference to owner from the object with that UID.
func ReleasePatch(uid, owner types.UID) []byte {
	return ownerPatch(uid, map[string]any{"$patch": "delete", "uid": owner})
}

func ownerPatch(uid types.UID, reference any) []byte {
	// Strings and booleans can always be encoded.
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "ownerReferences": []any{reference}}})
	return patch
}
