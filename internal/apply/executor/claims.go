// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/fleet"
)

// Claims brings the ownership of pods in order before a decision: it sends again every delete that has no definite answer yet,
// adopts the orphans that the set selects, and releases pods that it selects no longer. mayAdopt is asked once, before the
// first adoption, whether the set still exists and is not being deleted; it has to ask the API server itself.
func (e *Executor) Claims(ctx context.Context, key fleet.Key, owner metav1.OwnerReference, mayAdopt func(context.Context) error) error {
	claims := e.Index.Claims(key)
	var errs []error
	for _, p := range claims.Unsettled {
		errs = append(errs, e.settle(ctx, p))
	}
	for _, p := range claims.Release {
		errs = append(errs, e.release(ctx, p, owner.UID))
	}
	if len(claims.Adopt) > 0 {
		if err := mayAdopt(ctx); err != nil {
			return errors.Join(append(errs, fmt.Errorf("checking that pods may be adopted: %w", err))...)
		}
	}
	for _, p := range claims.Adopt {
		errs = append(errs, e.adopt(ctx, p, owner))
	}
	return errors.Join(errs...)
}

// settle repeats a delete whose answer was unclear. The UID makes that safe; not to repeat it would leave open whether the
// pod is about to go.
func (e *Executor) settle(ctx context.Context, p fleet.Pod) error {
	err := e.Pods.Delete(ctx, p.Namespace, p.Name, p.UID)
	answer := apply.OfDelete(err)
	e.Count("delete", answer)
	switch answer {
	case apply.Done:
		e.Index.Settle(p.UID)
	case apply.Gone:
		e.Index.ForgetPod(p.UID)
	case apply.Refused:
		e.Index.Settle(p.UID)
		e.Index.Spare(p.UID)
		return fmt.Errorf("deleting pod %s again: %w", p.Name, err)
	default:
		return fmt.Errorf("deleting pod %s again: %w", p.Name, err)
	}
	return nil
}

func (e *Executor) adopt(ctx context.Context, p fleet.Pod, owner metav1.OwnerReference) error {
	return e.patchOwner(ctx, p, AdoptionPatch(p.UID, owner), "adopt")
}

func (e *Executor) release(ctx context.Context, p fleet.Pod, owner types.UID) error {
	return e.patchOwner(ctx, p, ReleasePatch(p.UID, owner), "release")
}

func (e *Executor) patchOwner(ctx context.Context, p fleet.Pod, patch []byte, verb string) error {
	pod, err := e.Pods.Patch(ctx, p.Namespace, p.Name, patch)
	answer := apply.OfDelete(err) // not found and conflict mean the same here: this pod is no more
	e.Count(verb, answer)
	switch {
	case err == nil:
		if rec, ours := e.Index.PodFrom(pod); ours {
			e.Index.FoldPod(rec)
		} else {
			e.Index.ForgetPod(p.UID)
		}
		return nil
	case apierrors.IsNotFound(err):
		e.Index.ForgetPod(p.UID)
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
