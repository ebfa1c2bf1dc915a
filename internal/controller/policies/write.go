// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// writeTimeout is how long a write of a status may take. One that takes longer than slowWrite is slow.
const (
	writeTimeout = 10 * time.Second
	slowWrite    = 2 * time.Second
)

// errNotStored is the error for a status of an approval that the API server accepted but stored with changes.
var errNotStored = errors.New("the API server has stored another status of a RolloutApproval than that which was written: update the CRD rolloutapprovals.everynode.dev, or remove the webhook that changes it")

// work writes the status of a policy and those of its approvals, and reports whether a write took long.
func (s *Store) work(ctx context.Context, name types.NamespacedName) (slow bool) {
	if ctx.Err() != nil {
		return false
	}
	notices := s.waitingNotices(name)
	// The status contains the states of approvals that could not be written, so it is written after them, whether or not their writes succeeded.
	slow, err := s.writeApprovals(ctx, name)
	if !slow {
		slow = s.writeNotes(ctx, name)
	}
	began := s.Clock.Now()
	written, statusErr := s.writeStatus(ctx, name)
	s.release(ctx, name, notices, written)
	if err = errors.Join(err, statusErr); err != nil {
		klog.FromContext(ctx).Error(err, "Could not write the status of a rollout policy; trying again", "rolloutPolicy", name.String())
		s.queue.AddRateLimited(name)
	} else {
		s.queue.Forget(name)
	}
	return slow || s.Clock.Since(began) > slowWrite
}

// unwritten returns the approvals of a policy whose state is not stored in the approval. Those with the fewest refusals come first.
func (s *Store) unwritten(of types.NamespacedName, which func(a *approval) bool) []v1alpha1.RolloutApproval {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*approval
	for _, a := range s.approvals[of.Namespace] {
		if a.policy() == of && a.object.Status.State == "" && a.judged.State != "" && which(a) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b *approval) int {
		return cmp.Or(cmp.Compare(a.refused, b.refused), cmp.Compare(a.object.Name, b.object.Name))
	})
	due := make([]v1alpha1.RolloutApproval, len(found))
	for i, a := range found {
		due[i] = a.object
		due[i].Status = a.judged
	}
	return due
}

// writeApprovals writes the statuses of approvals of a policy. A refused write does not prevent the others;
// after a slow write, the others are left for the next time, so that the status of the policy contains their
// states soon. slow is whether one took long.
func (s *Store) writeApprovals(ctx context.Context, of types.NamespacedName) (slow bool, err error) {
	due := s.unwritten(of, func(a *approval) bool { return !a.accepted })
	var refused []error
	for i := range due {
		a := &due[i]
		if slow {
			s.queue.AddAfter(of, time.Second)
			break
		}
		began := s.Clock.Now()
		err := s.patch(ctx, v1alpha1.ResourceApprovals, &a.ObjectMeta, approvalStatus{RolloutApprovalStatus: a.Status, Message: message(a.Status.Message)})
		slow = s.Clock.Since(began) > slowWrite
		if err != nil {
			refused = append(refused, err)
		}
		s.mu.Lock()
		if known := s.approvals[a.Namespace][a.Name]; known != nil && known.object.UID == a.UID {
			if known.accepted = err == nil; err != nil {
				known.refused++
			}
		}
		s.mu.Unlock()
	}
	return slow, errors.Join(refused...)
}

// mostDecisions is the maximum number of states in the status of a policy for approvals that could not be written.
const mostDecisions = 256

// decisions are the states of approvals of a policy that could not be written. A state that has been written
// stays until the watch shows it, and states that are already in the status take precedence over others.
func (s *Store) decisions(of types.NamespacedName, e *entry) []v1alpha1.DecisionState {
	due := s.unwritten(of, e.remembers)
	due = append(due, s.unwritten(of, func(a *approval) bool { return !a.accepted && !e.remembers(a) })...)
	var all []v1alpha1.DecisionState
	for i := range due[:min(len(due), mostDecisions)] {
		all = append(all, v1alpha1.DecisionState{UID: due[i].UID, RolloutApprovalStatus: due[i].Status})
	}
	slices.SortFunc(all, func(a, b v1alpha1.DecisionState) int { return cmp.Compare(a.UID, b.UID) })
	return all
}

// writeStatus writes the status of a policy if it has changed, and reports whether what has been reported is written.
func (s *Store) writeStatus(ctx context.Context, name types.NamespacedName) (written bool, err error) {
	s.mu.Lock()
	e := s.policies.get(name)
	if e == nil || !s.isRead() {
		s.mu.Unlock()
		return false, nil
	}
	object, read := e.object, e.read
	reported := map[setName]*v1alpha1.SetStatus{}
	for id, st := range e.sets {
		reported[id] = st.DeepCopy()
	}
	s.mu.Unlock()
	status, complete := s.statusOf(object, read, reported)
	status.Decisions = s.decisions(name, e)
	switch {
	case !complete && !slices.Equal(object.Status.Decisions, status.Decisions): // no decision waits for a set that has not been reported
		return false, s.patch(ctx, v1alpha1.ResourcePolicies, &object.ObjectMeta, map[string]any{"decisions": status.Decisions})
	case !complete:
		return false, nil
	}
	if at := policy.StalledFrom(status.Conditions); !at.IsZero() {
		s.queue.AddAfter(name, at.Sub(s.Clock.Now())) // no event announces that
	}
	if same(&object.Status, &status) {
		return true, nil
	}
	err = s.patch(ctx, v1alpha1.ResourcePolicies, &object.ObjectMeta, whole{
		RolloutPolicyStatus: status, Sets: status.Sets, Decisions: status.Decisions,
	})
	return err == nil, err
}

// whole is a status whose lists are null where they are empty: a merge patch keeps what is absent.
type whole struct {
	v1alpha1.RolloutPolicyStatus
	Sets      []v1alpha1.SetStatus     `json:"sets"`
	Decisions []v1alpha1.DecisionState `json:"decisions"`
}

// unreported is the phase in the conditions of a set of which nothing has ever been reported.
const unreported v1alpha1.Phase = "nothing is known of it yet"

// statusOf is the status of a policy. It is not complete while no pass has been made for a set since this
// process began, because the loop starts from the stored entry of the set. A set of which its passes have
// nothing to report keeps that entry; without one, the policy is not ready.
func (s *Store) statusOf(object *v1alpha1.RolloutPolicy, read *policy.Policy, reported map[setName]*v1alpha1.SetStatus) (status v1alpha1.RolloutPolicyStatus, complete bool) {
	status.ObservedGeneration = object.Generation
	sets, known := s.Selected(read)
	if !known {
		return status, false
	}
	var silent []v1alpha1.SetStatus
	for _, set := range sets {
		st, passed := reported[setName{set.Advanced, set.Name}]
		if !passed {
			return status, false
		}
		if st == nil {
			st = stored(object, set)
		}
		if st == nil {
			silent = append(silent, v1alpha1.SetStatus{APIVersion: set.APIVersion(), Name: set.Name, Phase: unreported})
			continue
		}
		status.Sets = append(status.Sets, *st)
	}
	slices.SortFunc(status.Sets, func(a, b v1alpha1.SetStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	status.Conditions = read.Conditions(sets, slices.Concat(status.Sets, silent), object.Status.Conditions, metav1.NewTime(s.Clock.Now()))
	status.Summary = policy.Summary(status.Sets, status.Conditions)
	status.Sets = policy.Bounded(status.Sets)
	return status, true
}

// same reports whether two statuses differ in nothing that is worth a write: times that are computed again may differ by a second, and a duration that grows
// with each decision is written now and then.
func same(written, is *v1alpha1.RolloutPolicyStatus) bool {
	a, b := written.DeepCopy(), is.DeepCopy()
	if len(a.Sets) != len(b.Sets) {
		return false
	}
	for i := range a.Sets {
		if !sameTimes(&a.Sets[i], &b.Sets[i]) {
			return false
		}
	}
	return reflect.DeepEqual(shown(a), shown(b))
}

// sameTimes makes times equal that differ by too little.
func sameTimes(a, b *v1alpha1.SetStatus) bool {
	near := func(x, y *metav1.Time) bool { return x != nil && y != nil && x.Sub(y.Time).Abs() <= 2*time.Second }
	if a.Next != nil && b.Next != nil && near(a.Next.At, b.Next.At) {
		b.Next.At = a.Next.At
	}
	if len(a.Waves) != len(b.Waves) || len(a.Analyses) != len(b.Analyses) {
		return false
	}
	for k := range a.Analyses {
		sameLength(a.Analyses[k].UnknownFor, &b.Analyses[k].UnknownFor)
	}
	for k := range a.Waves {
		x, y := &a.Waves[k], &b.Waves[k]
		if x.Phase == y.Phase {
			sameLength(x.Soaked, &y.Soaked)
		}
		sameLength(x.Rolled, &y.Rolled)
	}
	return true
}

// sameLength makes a duration equal to another one that differs by too little.
func sameLength(a *metav1.Duration, b **metav1.Duration) {
	if a != nil && *b != nil && ((*b).Duration-a.Duration).Abs() < 30*time.Second {
		*b = a
	}
}

// shown is a status as the API server would return it.
func shown(s *v1alpha1.RolloutPolicyStatus) map[string]any {
	data, _ := json.Marshal(s)
	var out map[string]any
	_ = json.Unmarshal(data, &out)
	return out
}

func (s *Store) patch(ctx context.Context, resource string, object *metav1.ObjectMeta, status any) error {
	identity := map[string]any{"uid": object.UID}
	if _, is := status.(note); is {
		identity["resourceVersion"] = object.ResourceVersion
	}
	body, err := json.Marshal(map[string]any{"metadata": identity, "status": status})
	if err != nil {
		return fmt.Errorf("encoding the status of %s/%s: %w", object.Namespace, object.Name, err)
	}
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answer, err := s.Client.Resource(v1alpha1.GroupVersion().WithResource(resource)).Namespace(object.Namespace).
		Patch(limited, object.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && s.isGone(limited, resource, object) {
		return nil // the watch shows that
	}
	if err != nil {
		return fmt.Errorf("writing the status of %s %s/%s: %w", resource, object.Namespace, object.Name, err)
	}
	if asked, is := status.(approvalStatus); is {
		state, _, _ := unstructured.NestedString(answer.Object, "status", "state")
		attempt, _, _ := unstructured.NestedInt64(answer.Object, "status", "attempt")
		step, _, _ := unstructured.NestedInt64(answer.Object, "status", "step")
		domain, _, _ := unstructured.NestedString(answer.Object, "status", "domain")
		if state != string(asked.State) || attempt != asked.Attempt || step != int64(asked.Step) || domain != asked.Domain {
			return fmt.Errorf("%w: %s/%s", errNotStored, object.Namespace, object.Name)
		}
	}
	return nil
}

// isGone reports whether an object is gone, or another one by now. A webhook can deny a write with the same codes. The manager has no right to get single objects.
func (s *Store) isGone(ctx context.Context, resource string, object *metav1.ObjectMeta) bool {
	list, err := s.Client.Resource(v1alpha1.GroupVersion().WithResource(resource)).Namespace(object.Namespace).
		List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, object.Name).String()})
	return err == nil && !slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetUID() == object.UID })
}
