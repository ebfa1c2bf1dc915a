// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// noteAfter is how long a decision may have no state before its message says why: a user may create it before what it names.
const noteAfter = 10 * time.Second

// mostNotes is how many messages the decisions of a namespace get within noteInterval. Who creates very many decisions, and creates and deletes their policy again and again, would cause a write for each of them each time
// otherwise.
const (
	mostNotes    = 50
	noteInterval = time.Minute
)

// noteCount is how many messages were written in a namespace since some time.
type noteCount struct {
	since time.Time
	notes int
}

// note is the message of a decision that has no state. It is written only into the version that was read: a state that another manager has written stays as it is.
type note struct {
	Message *string `json:"message"`
}

// approvalStatus is a status with a state. A merge patch keeps what is absent, so an empty message is null.
type approvalStatus struct {
	v1alpha1.RolloutApprovalStatus
	Message *string `json:"message"`
}

// message is a message for a merge patch.
func message(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// effect is the status of a decision without the message, which changes nothing for a daemon set.
func effect(a *v1alpha1.RolloutApproval) v1alpha1.RolloutApprovalStatus {
	status := a.Status
	status.Message = ""
	return status
}

// waits reports whether a decision has no state, and is to get a message if that remains so.
func (a *approval) waits() bool {
	return a.object.Status.State == "" && a.judged.State == "" && a.object.DeletionTimestamp == nil
}

// noteLater lets decisions get their message whose policy does not exist: it is known only now which policies exist.
func (s *Store) noteLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.approvals.all() {
		if a.waits() && s.policyOf(a) == nil {
			s.queue.AddAfter(a.policy(), noteAfter)
		}
	}
}

// writeNotes writes why decisions that name a policy have no effect, until they have one. A process writes each message once: an API server or a webhook that stores another one causes no further writes. One that is
// refused is not tried again until something changes, because no decision depends on it. slow is whether one took long. The status of the policy waits for these writes, so if they take long together, or there are
// too many, the others are left for later.
func (s *Store) writeNotes(ctx context.Context, name types.NamespacedName) (slow bool) {
	due, read := s.waiting(name)
	if len(due) == 0 {
		return false
	}
	var sets []policy.Set
	if read != nil {
		known := false
		if sets, known = s.Selected(read); !known {
			return false
		}
	}
	for start, i := s.Clock.Now(), 0; i < len(due); i++ {
		a := &due[i]
		text, is, wait := s.noteOf(a, read, sets)
		switch {
		case wait > 0:
			s.queue.AddAfter(name, wait)
			return false
		case !is:
			continue
		}
		began := s.Clock.Now()
		if err := s.patch(ctx, v1alpha1.ResourceApprovals, &a.ObjectMeta, note{message(text)}); err != nil {
			klog.FromContext(ctx).V(1).Info("Could not write why a RolloutApproval has no effect", "rolloutApproval", klog.KObj(a), "reason", err.Error())
		}
		if s.Clock.Since(start) > slowWrite {
			s.queue.AddAfter(name, time.Second)
			return s.Clock.Since(began) > slowWrite
		}
	}
	return false
}

// waiting returns the decisions that name a policy and have had no state for long, and the policy; nil if it does not exist.
func (s *Store) waiting(of types.NamespacedName) (due []v1alpha1.RolloutApproval, read *policy.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isRead() {
		return nil, nil
	}
	if e := s.policies.get(of); e != nil {
		read = e.read
	}
	for _, a := range s.approvals[of.Namespace] {
		if a.policy() == of && a.waits() && s.Clock.Since(a.seen) >= noteAfter {
			due = append(due, a.object)
		}
	}
	return due, read
}

// noteOf returns the message of a decision, and whether it is to be written. It is recorded as written. wait is how long it must wait because too many were written.
func (s *Store) noteOf(a *v1alpha1.RolloutApproval, read *policy.Policy, sets []policy.Set) (text string, is bool, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, now := s.policies.get(types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.Policy}), s.approvals[a.Namespace][a.Name]
	if now == nil || now.object.UID != a.UID || !now.waits() || (e == nil) != (read == nil) {
		return "", false, 0 // what has changed causes another look
	}
	text, known := policy.NoEffect(a, read, sets, func(set policy.Set) *v1alpha1.SetStatus { return e.last(set) })
	if !known || text == a.Status.Message || text == now.noted && text != "" {
		return "", false, 0
	}
	if wait := s.countNote(a.Namespace); wait > 0 {
		return "", false, wait
	}
	now.noted = text
	return text, true, 0
}

// countNote counts a message in a namespace, or returns how long it must wait because there are too many. The lock is held.
func (s *Store) countNote(namespace string) (wait time.Duration) {
	now := s.Clock.Now()
	maps.DeleteFunc(s.notes, func(_ string, c noteCount) bool { return now.Sub(c.since) >= noteInterval })
	c, known := s.notes[namespace]
	if !known {
		c.since = now
	}
	if c.notes >= mostNotes {
		return c.since.Add(noteInterval).Sub(now)
	}
	c.notes++
	s.notes[namespace] = c
	return 0
}
