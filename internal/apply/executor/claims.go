// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/rollout"
)

// Claim names a set, and what is needed to adopt, release and reread its pods.
type Claim struct {
	Key   clustercache.Key
	Owner metav1.OwnerReference
	// MayAdopt is asked once, before the first adoption, whether the set still exists and is not being deleted; it must ask the API server
	// itself. If it is nil, another controller manages the ownership of pods.
	MayAdopt func(context.Context) error
	// Others reports whether other sets wait for a pass.
	Others func() bool
	// Failed sends the event of an adoption or a release that no pass waits for and that failed; nil for none.
	Failed func(err error)
}

// Claims brings in order, before a decision, what belongs to the set: it reads the pod of every delete and every edit that has no definite answer, and
// that of every create, adopts the orphans that the set selects, and releases pods that it selects no longer. It does a limited number of these at a time,
// and begins none after a while where other sets wait. done is false when some were not tried yet, or the set may adopt nothing.
//
// Refused ones are repeated from time to time, and hold back their node until then. Those on which the API server may still be at work are not among them:
// the index holds back what depends on them. A failure of the rest, which err reports, holds back the node that it is about, and not the set.
func (e *Executor) Claims(ctx context.Context, c *Claim) (done bool, err error) {
	claims := e.Index.Ownership(c.Key, rollout.Time(e.Clock.Now().UnixNano()))
	slice, now := e.newSlice(c.Others), e.Pace.now()
	s := sender{Executor: e, key: c.Key, late: slice.late}
	ahead := sender{Executor: e, key: c.Key, late: slice.over} // nothing here must be done in this pass
	var todo, again, early []task
	for _, p := range claims.Unsettled {
		if p.Until <= now {
			todo = append(todo, task{s, func(e sender) error { return e.settleDelete(ctx, p) }})
		}
	}
	for _, p := range claims.Pending {
		switch {
		case p.Until <= now:
			todo = append(todo, task{s, func(e sender) error { return e.settleCreate(ctx, p) }})
		case !p.Slow: // the pod may be there already
			early = append(early, task{ahead, func(e sender) error { return unlessLate(e.settleCreate(ctx, p)) }})
		}
	}
	for _, d := range claims.Doubts {
		if d.Until <= now {
			todo = append(todo, task{s, func(e sender) error { return e.settleEdit(ctx, d) }})
		}
	}
	for _, p := range claims.Uncertain {
		todo = append(todo, task{s, func(e sender) error { return e.confirmOwner(ctx, p) }})
	}
	if c.MayAdopt == nil {
		claims.Adopt, claims.Release, claims.More, claims.AdoptAgain, claims.ReleaseAgain = nil, nil, false, nil, nil
	}
	if len(claims.Adopt)+len(claims.AdoptAgain) > 0 {
		if err := c.MayAdopt(ctx); err != nil {
			return false, fmt.Errorf("checking that pods may be adopted: %w", err)
		}
	}
	for _, p := range claims.Release {
		todo = append(todo, task{s, func(e sender) error { return e.patchOwner(ctx, c.release(p)) }})
	}
	for _, p := range claims.Adopt {
		todo = append(todo, task{s, func(e sender) error { return e.patchOwner(ctx, c.adopt(p)) }})
	}
	for _, p := range claims.ReleaseAgain { // what depends on these is held back already
		again = append(again, task{s, func(e sender) error { return unlessLate(e.patchOwner(ctx, c.release(p))) }})
	}
	for _, p := range claims.AdoptAgain {
		again = append(again, task{s, func(e sender) error { return unlessLate(e.patchOwner(ctx, c.adopt(p))) }})
	}
	first := min(len(todo), rollout.DefaultBurst)
	rest := slices.Concat(again, early)
	late, err := together(slices.Concat(todo[:first], rest[:min(len(rest), rollout.DefaultBurst-first)]))
	return first == len(todo) && !claims.More && !late, err
}

// task is a part of the claims, with the sender of its requests.
type task struct {
	sender
	do func(e sender) error
}

// unlessLate returns the error of an optional task: nil if it was skipped because the time of the pass had ended.
func unlessLate(err error) error {
	if errors.Is(err, errLate) {
		return nil
	}
	return err
}

// together runs tasks concurrently, and joins the first few of their errors. late reports whether a task was skipped because the time of the pass had ended.
func together(todo []task) (late bool, err error) {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for _, t := range todo {
		t.inTurn(&wg, func(e sender) {
			err := t.do(e)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, errLate) {
				late = true
			} else if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return late, errors.Join(firstOf(errs)...)
}

// reread reads a pod after a write without a clear answer, and records its state; it returns nil if the pod is gone.
func (e sender) reread(ctx context.Context, name string, uid types.UID) (*corev1.Pod, error) {
	pod, err := e.get(ctx, name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != uid:
		e.Index.ConfirmDeleted(uid)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading pod %s after a write without a clear answer: %w", name, err)
	}
	e.observe(pod)
	return pod, nil
}

// settleDelete determines whether a delete without a clear answer took effect, when the API server can no
// longer be processing it. A pod that exists and is not being deleted counts again; a pod that is being
// deleted proves that the delete took effect.
func (e sender) settleDelete(ctx context.Context, p clustercache.UnsettledPod) error {
	pod, err := e.reread(ctx, p.Name, p.UID)
	if pod != nil && pod.DeletionTimestamp == nil {
		e.Index.Resolve(inflight.Write{Verb: inflight.Delete, UID: p.UID}, inflight.NoEffect)
	}
	return err
}

// settleCreate determines whether a create without a clear answer took effect. "Not found" means that it did
// not only when the API server can no longer be processing it; until then the node waits.
func (e sender) settleCreate(ctx context.Context, c inflight.Write) error {
	over := e.Pace.now() >= c.Until
	pod, err := e.find(ctx, c.Node, c.Pod)
	switch {
	case err != nil:
		return fmt.Errorf("looking for pod %s: %w", c.Pod, err)
	case pod != nil:
		e.observe(pod)
		if e.Index.Holder(e.key, c.Node, c.Pod) != "" {
			e.Index.Accept(e.key, c.Node, 0)
		}
		e.Index.Resolve(c, inflight.TookEffect)
	case over:
		e.Index.Resolve(c, inflight.NoEffect)
	}
	return nil
}

// settleEdit reads a pod of which it is not known whether an edit took effect. The API server cannot be at work on that any more.
func (e sender) settleEdit(ctx context.Context, d clustercache.Doubt) error {
	pod, err := e.reread(ctx, d.Pod.Name, d.Pod.UID)
	if pod != nil {
		e.Index.Resolve(inflight.Write{Verb: inflight.Edit, UID: d.Pod.UID}, inflight.Seen)
	}
	return err
}

// ownership is an adoption or a release, as verb says.
type ownership struct {
	set   *Claim
	pod   clustercache.Pod
	verb  string
	patch PodPatch
}

func (c *Claim) adopt(p clustercache.Pod) *ownership {
	return &ownership{set: c, pod: p, verb: "adopt", patch: PodPatch{Namespace: p.Namespace, Pod: p.Name, Body: AdoptionPatch(p.UID, c.Owner)}}
}

func (c *Claim) release(p clustercache.Pod) *ownership {
	return &ownership{set: c, pod: p, verb: "release", patch: PodPatch{Namespace: p.Namespace, Pod: p.Name, Body: ReleasePatch(p.UID, c.Owner.UID)}}
}

// refusal is an answer that is not a success.
func (o *ownership) refusal(err error) *Refusal {
	return &Refusal{what: o.verb + " of pod " + o.pod.Name, node: o.pod.Node, pod: o.pod.Name, err: err}
}

func (e sender) patchOwner(ctx context.Context, o *ownership) error {
	p, verb := o.pod, o.verb
	if e.Slow.takes(slowKind{e.key, verb}, p.Node) {
		e.claimSlowly(ctx, o)
		return nil
	}
	var pod *corev1.Pod
	err := e.send(ctx, verbPatch, func() (err error) {
		pod, err = e.Pods.Patch(ctx, o.patch)
		return err
	})
	if errors.Is(err, errLate) {
		return err
	}
	answer := apply.OfDelete(err)
	e.Count(verb, answer)
	e.Slow.heard(slowKind{e.key, verb}, p.Node, err)
	refusal := o.refusal(err)
	switch {
	case answer == apply.Done:
		e.claimed(p, pod)
		return nil
	case answer == apply.Gone && e.gone(ctx, p.Name, p.UID):
		e.Index.Resolve(e.claimOf(p), inflight.TookEffect)
		return nil
	case answer == apply.Busy:
		return fmt.Errorf("%s of pod %s: %w", verb, p.Name, err)
	case answer == apply.Unclear: // it may still take effect, and does no harm twice
		e.holdClaim(p, refusal.Reason(), writeTimeout, true)
		return fmt.Errorf("%s of pod %s: %w", verb, p.Name, err)
	default:
		e.holdClaim(p, refusal.Reason(), blockFor, false)
		return refusal
	}
}

// claimSlowly is an adoption or a release that no pass waits for. It holds the node of its pod from the start.
func (e sender) claimSlowly(ctx context.Context, o *ownership) {
	e = e.continuing()
	p, verb := o.pod, o.verb
	why := "the API server has not answered the " + verb + " of pod " + p.Name + " yet"
	w := e.newSlowPatch(verb, o.patch, p.UID)
	w.what, w.node, w.claim = verb+" of pod "+p.Name, p.Node, true
	w.begun = func(rollout.Time) { e.holdClaim(p, why, SlowWriteTimeout+writeTimeout, true) }
	w.answered = func(_ context.Context, answer apply.Answer, err error, patched *corev1.Pod) bool {
		switch answer {
		case apply.Done:
			e.claimed(p, patched)
		case apply.Gone:
			e.Index.Resolve(e.claimOf(p), inflight.TookEffect)
		case apply.Busy:
			e.holdClaim(p, why, busyPause, false)
		default:
			e.holdClaim(p, o.refusal(err).Reason(), blockFor, answer == apply.Unclear)
		}
		return false
	}
	w.failed = func(err error) {
		if o.set.Failed != nil {
			o.set.Failed(o.refusal(err))
		}
	}
	if !e.sendSlowly(ctx, w) {
		e.holdClaim(p, why, busyPause, false)
	}
}

// claimed takes in a pod that was adopted or released.
func (e sender) claimed(p clustercache.Pod, patched *corev1.Pod) {
	if rec, ours := e.Index.PodFrom(patched); ours {
		e.Index.ObservePod(rec)
	} else {
		e.Index.ForgetPod(p.UID)
	}
	e.Index.Resolve(e.claimOf(p), inflight.TookEffect)
}

// claimOf is an adoption or a release as it is under way.
func (e sender) claimOf(p clustercache.Pod) inflight.Write {
	return inflight.Write{Verb: inflight.Claim, Set: e.key, Node: p.Node, UID: p.UID}
}

// holdClaim keeps the node of a pod as it is that was not adopted or released, and has that tried again after a while. If the write may have taken effect
// (unclear), and the pod must not be adopted any more, for example because it is being deleted, the node waits until the pod has been read: if it was
// adopted, it is a pod of the set, and another one must not be created next to it.
func (e sender) holdClaim(p clustercache.Pod, why string, pause time.Duration, unclear bool) {
	now := rollout.Time(e.Clock.Now().UnixNano())
	e.Index.Block(e.claimOf(p), inflight.Block{Reason: why, From: now, Until: now.Add(pause), Unclear: unclear})
}

// confirmOwner reads a pod after an adoption without a clear answer that is not tried again. The API server cannot be at work on that any more.
func (e sender) confirmOwner(ctx context.Context, p clustercache.Pod) error {
	_, err := e.reread(ctx, p.Name, p.UID)
	if err == nil {
		e.Index.Resolve(e.claimOf(p), inflight.TookEffect)
	}
	return err
}

// AdoptionPatch is a strategic merge patch that makes owner the controller of the object with that UID.
func AdoptionPatch(uid types.UID, owner metav1.OwnerReference) []byte { return ownerPatch(uid, owner) }

// ReleasePatch is a strategic merge patch that removes the reference to owner from the object with that UID.
func ReleasePatch(uid, owner types.UID) []byte {
	return ownerPatch(uid, map[string]any{"$patch": "delete", "uid": owner})
}

func ownerPatch(uid types.UID, reference any) []byte {
	// Strings and booleans can always be encoded.
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "ownerReferences": []any{reference}}})
	return patch
}
