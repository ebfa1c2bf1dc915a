// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

func (b *bench) isSent() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sent)
}

// notify reports a status, and notices about it.
func (b *bench) notify(phase v1alpha1.Phase, waves ...string) {
	b.Report(agents, b.Of(agents).Policies, &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Enforcement: v1alpha1.EnforcementFull, Phase: phase}, nil)
	var notices []policy.Notice
	for _, wave := range waves {
		notices = append(notices, policy.Notice{Set: agents, Policy: "p", Wave: wave})
	}
	b.Notify(notices)
}

// A notice is sent after the status that it is about has been written, in the order of the notices; that of a policy that does not exist is not sent.
func TestNoticesFollowTheStatus(t *testing.T) {
	b := newBench(t, nil, agentsPolicy())
	b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
	b.Notify([]policy.Notice{{Set: agents, Policy: "other", Wave: "other"}})
	b.notify(v1alpha1.PhaseRolling, "one", "two")
	b.until("the notices are sent", func() bool { return len(b.isSent()) == 2 })
	if got := b.isSent(); !slices.Equal(got, []string{"one after 1 writes", "two after 1 writes"}) {
		t.Errorf("sent %q", got)
	}
}

// While the status cannot be written a notice waits, and not for long.
func TestNoticesDoNotWaitForLong(t *testing.T) {
	b := newBench(t, nil, agentsPolicy())
	b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
	b.mu.Lock()
	b.refuses = map[string]error{"p": errors.New("a webhook refuses it")}
	b.mu.Unlock()
	b.notify(v1alpha1.PhaseRolling, "one")
	name := types.NamespacedName{Namespace: "ns", Name: "p"}
	b.until("the write has failed", func() bool { return b.queue.NumRequeues(name) > 1 })
	if got := b.isSent(); len(got) > 0 {
		t.Errorf("sent %q before the status", got)
	}
	b.Store.mu.Lock()
	first := &b.policies.get(name).notices[0]
	first.since = first.since.Add(-noticePatience)
	b.Store.mu.Unlock()
	b.until("the notice is sent", func() bool { return len(b.isSent()) == 1 })
	if got := b.isSent()[0]; got != "one after 0 writes" {
		t.Errorf("sent %q", got)
	}
}
