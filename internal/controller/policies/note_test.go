// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// decision is an approval of a wave.
func decision(name, policy, set, wave, revision string) *unstructured.Unstructured {
	return object(v1alpha1.KindApproval, name, map[string]any{"policy": policy, "set": set, "wave": wave, "revision": revision, "decision": "Approve"})
}

// later lets all decisions have been without a state for long, and looks at those that name a policy.
func (b *bench) later(policy string) {
	b.Store.mu.Lock()
	for _, a := range b.approvals.all() {
		a.seen = a.seen.Add(-noteAfter)
	}
	b.Store.mu.Unlock()
	b.work(b.t.Context(), types.NamespacedName{Namespace: "ns", Name: policy})
}

// message is the message of a decision, as stored.
func (b *bench) message(name string) string {
	text, _, _ := unstructured.NestedString(b.stored(v1alpha1.ResourceApprovals, name), "status", "message")
	return text
}

func (b *bench) wantMessage(name, want string) {
	b.t.Helper()
	if got := b.message(name); want == "" && got != "" || !strings.Contains(got, want) {
		b.t.Errorf("%s says %q, want %q", name, got, want)
	}
}

// TestADecisionAboutWhatDoesNotExist: its message says what it names that does not exist, once. When that exists, it has its effect, and the message is removed.
func TestADecisionAboutWhatDoesNotExist(t *testing.T) {
	b := newBench(t, nil, decision("a", "p", "agents", "canary", "agents-2"), decision("set", "p", "agnets", "canary", "agents-2"), decision("revision", "p", "agents", "canary", "agents-3"),
		decision("wave", "p", "agents", "canray", "agents-2"))
	b.until("all is read", func() bool { return !b.Of(agents).Unread })
	b.work(t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"})
	b.wantMessage("a", "") // a user may create the policy after it
	for range 3 {
		b.later("p")
	}
	b.wantMessage("a", "The decision has no effect yet. The namespace has no RolloutPolicy p (spec.policy).")
	if got := len(b.written()); got != 4 {
		t.Errorf("%d writes for 4 decisions: %q", got, b.written())
	}

	p := object(v1alpha1.KindPolicy, "p", map[string]any{
		"targets": []any{map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agents"}},
		"waves":   []any{map[string]any{"name": "canary", "nodes": map[string]any{"count": int64(1)}, "after": []any{map[string]any{"type": "Approval"}}}},
	})
	if err := b.client.Tracker().Add(p); err != nil {
		t.Fatal(err)
	}
	b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
	b.later("p")
	b.wantMessage("a", "has no RolloutPolicy p") // nothing is known of the daemon set yet
	of := b.Of(agents)
	b.Report(agents, of.Policies, &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Phase: v1alpha1.PhaseRolling, TargetRevision: "agents-2", CommittedRevision: "agents-1"}, nil)
	b.later("p")
	b.wantMessage("a", "")
	b.wantMessage("set", "The RolloutPolicy p applies to no daemon set agnets (spec.set).")
	b.wantMessage("revision", "The template of the daemon set agents does not describe a revision agents-3 (spec.revision).")
	b.wantMessage("wave", "The RolloutPolicy p has no wave canray (spec.wave).")

	for i := range of.Approvals {
		of.Approvals[i].Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: 2}
	}
	b.Report(agents, of.Policies, nil, of.Approvals)
	b.until("a state is written", func() bool {
		state, _, _ := unstructured.NestedString(b.stored(v1alpha1.ResourceApprovals, "wave"), "status", "state")
		return state == "Valid"
	})
	b.wantMessage("wave", "")
	b.until("the states are read", func() bool {
		for _, a := range b.Of(agents).Approvals {
			if a.Status.State == "" {
				return false
			}
		}
		return true
	})
	before := len(b.written())
	for range 3 {
		b.later("p")
	}
	if got := b.written()[before:]; len(got) > 0 {
		t.Errorf("more writes: %q", got)
	}
}

// TestAMessageThatIsRefusedIsNotTriedAgain: no decision depends on it.
func TestAMessageThatIsRefusedIsNotTriedAgain(t *testing.T) {
	b := newBench(t, nil, decision("a", "p", "agents", "canary", "agents-2"))
	b.refuse(map[string]error{"a": errors.New("a webhook denies it")})
	b.until("all is read", func() bool { return !b.Of(agents).Unread && len(b.Store.Policies()) == 0 })
	for range 5 {
		b.later("p")
	}
	if got := b.refusals(); got != 1 {
		t.Errorf("it is tried %d times", got)
	}
}

// TestAMessageOfADeletedPolicy: a decision whose policy is deleted before it has a state gets its message by itself, and changes nothing for daemon sets.
func TestAMessageOfADeletedPolicy(t *testing.T) {
	b := newBench(t, nil, agentsPolicy(), decision("a", "p", "agents", "canary", "agents-2"))
	b.until("all is read", func() bool { return len(b.Of(agents).Policies) == 1 && len(b.Of(agents).Approvals) == 1 })
	b.Store.mu.Lock()
	for _, a := range b.approvals.all() {
		a.seen = a.seen.Add(-time.Hour)
	}
	b.Store.mu.Unlock()
	if err := b.client.Tracker().Delete(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies), "ns", "p"); err != nil {
		t.Fatal(err)
	}
	b.until("the message is written", func() bool { return b.message("a") != "" })
	u := decision("a", "p", "agents", "canary", "agents-2")
	u.Object["status"] = map[string]any{"message": "another one"}
	a := &v1alpha1.RolloutApproval{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, a); err != nil {
		t.Fatal(err)
	}
	b.putApproval(a)
	before := b.changed()
	a = a.DeepCopy()
	a.Status.Message = "one more"
	if b.putApproval(a); b.changed() != before {
		t.Error("a message lets all daemon sets of the namespace be decided about again")
	}
}

// TestAPlaceThatIsNotStored: an API server with an earlier version of the CRD drops the place of a Promote.
func TestAPlaceThatIsNotStored(t *testing.T) {
	b := newBench(t, nil, agentsPolicy(), decision("drop", "p", "agents", "canary", "agents-2"))
	b.drops = "drop"
	b.until("all is read", func() bool { return len(b.Of(agents).Approvals) == 1 })
	meta := b.Of(agents).Approvals[0].ObjectMeta
	for _, status := range []v1alpha1.RolloutApprovalStatus{{Step: 2}, {Domain: "zone=a"}} {
		if err := b.patch(t.Context(), v1alpha1.ResourceApprovals, &meta, approvalStatus{RolloutApprovalStatus: status}); !errors.Is(err, errNotStored) {
			t.Errorf("%+v: %v", status, err)
		}
	}
}

// TestManyMessages: who creates very many decisions and lets their policy come and go causes a bounded number of writes. The status of the policy does not wait for them for long.
func TestManyMessages(t *testing.T) {
	var all []runtime.Object
	for i := range 2 * mostNotes {
		all = append(all, decision(fmt.Sprintf("a%03d", i), "p", "agnets", "canary", "agents-2"))
	}
	b := newBench(t, nil, all...)
	b.until("all is read", func() bool { b.Store.mu.Lock(); defer b.Store.mu.Unlock(); return b.isRead() })
	for range 3 {
		b.later("p")
		if err := b.client.Tracker().Add(agentsPolicy()); err != nil {
			t.Fatal(err)
		}
		b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
		b.later("p")
		if err := b.client.Tracker().Delete(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies), "ns", "p"); err != nil {
			t.Fatal(err)
		}
		b.until("the policy is gone", func() bool { return len(b.Of(agents).Policies) == 0 })
	}
	if got := len(b.written()); got != mostNotes {
		t.Errorf("%d writes, want %d", got, mostNotes)
	}
	b.Store.mu.Lock()
	for namespace, c := range b.notes {
		b.notes[namespace] = noteCount{since: c.since.Add(-noteInterval), notes: c.notes}
	}
	b.notes["another"] = noteCount{since: time.Now().Add(-time.Hour), notes: mostNotes}
	b.Store.mu.Unlock()
	b.later("p")
	if got := len(b.written()); got != 2*mostNotes {
		t.Errorf("%d writes after a minute, want %d", got, 2*mostNotes)
	}
	b.Store.mu.Lock()
	defer b.Store.mu.Unlock()
	if len(b.notes) != 1 {
		t.Errorf("the store remembers %v", b.notes)
	}
}

// slowly is a clock that each request advances by almost as long as a slow one takes.
type slowly struct {
	clock.RealClock
	b *bench
}

func (c slowly) Now() time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(len(c.b.written())) * (slowWrite - 1))
}
func (c slowly) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestMessagesDelayNoStatus: the status of the policy waits for a few messages only, also if none of them takes long.
func TestMessagesDelayNoStatus(t *testing.T) {
	var all []runtime.Object
	for i := range 10 {
		all = append(all, decision(fmt.Sprintf("a%d", i), "p", "agents", "canary", "agents-2"))
	}
	b := newBench(t, nil, all...)
	o := b.Options
	o.Clock = slowly{b: b}
	s := New(o)
	s.known[v1alpha1.ResourcePolicies], s.known[v1alpha1.ResourceApprovals] = true, true
	for _, a := range all {
		is := &v1alpha1.RolloutApproval{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(a.(*unstructured.Unstructured).Object, is); err != nil {
			t.Fatal(err)
		}
		s.putApproval(is)
		s.approvals["ns"][is.Name].seen = time.Time{}
	}
	if slow := s.writeNotes(t.Context(), types.NamespacedName{Namespace: "ns", Name: "p"}); slow || len(b.written()) != 2 {
		t.Errorf("slow is %t after %d writes", slow, len(b.written()))
	}
}
