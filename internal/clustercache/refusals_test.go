// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

func TestARefusalIsRememberedUntilItIsOver(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	refused := func() string {
		n := f.only(key)
		return n.Obstacle()
	}
	f.x.Refuse(key, inflight.Refusal{Node: "a", Message: "policy"})
	f.x.Refuse(key, inflight.Refusal{Node: "nowhere", Message: "policy"})
	if refused() != "policy" {
		t.Error("forgotten at once")
	}
	p := f.put(pod("one", "a", "ds"))
	if refused() != "" {
		t.Error("remembered although there is a pod now")
	}
	f.x.Refuse(key, inflight.Refusal{Node: "a", Pod: p.UID, Message: "policy"})
	p.Ready = !p.Ready
	f.put(p)
	if refused() != "policy" {
		t.Error("forgotten because the pod has changed")
	}
	f.x.DeletePod(p.UID, f.next())
	if refused() != "" {
		t.Error("remembered although the pod has gone")
	}
	f.x.Refuse(key, inflight.Refusal{Node: "a", Message: "policy"})
	f.x.Accept(key, "a", 0)
	if refused() != "" {
		t.Error("remembered although a write has succeeded")
	}
	f.x.Refuse(key, inflight.Refusal{Node: "a", Message: "policy"})
	f.x.PutSet(key, f.workload("ds", 2, map[string]any{}))
	if refused() != "" {
		t.Error("remembered although the set has changed")
	}
}

// TestHowLongARefusedNodeWaits: half as long as it has been refused, from a second to five minutes.
func TestHowLongARefusedNodeWaits(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	start := rollout.Time(time.Hour)
	at := func(passed time.Duration) time.Duration {
		now := start.Add(passed)
		return f.x.Refuse(key, inflight.Refusal{Node: "a", Message: "policy", At: now}).Sub(now)
	}
	for _, c := range []struct{ passed, want time.Duration }{
		{0, time.Second}, {time.Second, time.Second}, {10 * time.Second, 5 * time.Second}, {90 * time.Second, 45 * time.Second},
		{time.Hour, 5 * time.Minute}, {-time.Minute, time.Second}, // the clock was set back
	} {
		if got := at(c.passed); got != c.want {
			t.Errorf("refused for %s, it waits %s, want %s", c.passed, got, c.want)
		}
	}
	s, _, _ := f.x.Snapshot(key, History{}, start.Add(-time.Hour))
	if got := s.Nodes[0].Refusal; got == nil || got.RetryAt != 0 {
		t.Errorf("the clock was set back, and it waits: %+v", got)
	}
	f.x.Refuse(key, inflight.Refusal{Node: "a", Pod: "other", Message: "policy", At: start.Add(2 * time.Hour)})
	if got := f.x.Refuse(key, inflight.Refusal{Node: "a", Message: "policy", At: start.Add(3 * time.Hour)}).Sub(start.Add(3 * time.Hour)); got != time.Second {
		t.Errorf("another write was refused before, and it waits %s", got)
	}
}

// TestARefusedChangeInPlaceIsRememberedWhenItWasTakenBack: the pod is another one than before the change, but its labels say that the change did not take effect.
func TestARefusedChangeInPlaceIsRememberedWhenItWasTakenBack(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	key := f.set("ds")
	p := pod("one", "a", "ds")
	p.Facts = &dialect.PodFacts{Gate: true, InPlace: rollout.InPlaceMarked}
	p = f.put(p)
	before := p
	f.x.Refuse(key, inflight.Refusal{Node: "a", Pod: p.UID, Before: &inflight.Content{Labels: before.Labels, Facts: before.Facts}, Message: "policy", Of: rollout.Patch})
	f.x.Accept(key, "a", rollout.Unmark)
	p.Facts = &dialect.PodFacts{Gate: true}
	f.put(p)
	f.x.Resolve(inflight.Write{Verb: inflight.Edit, UID: p.UID}, inflight.Seen)
	if n := f.only(key); n.Refusal == nil || n.Refusal.Of != rollout.Unmark {
		t.Errorf("the change was taken back, and the refusal is %+v", n.Refusal)
	}
	p.Labels = map[string]string{"app": "ds", hashLabel: "h2"}
	f.put(p)
	f.x.Resolve(inflight.Write{Verb: inflight.Edit, UID: p.UID}, inflight.Seen)
	if n := f.only(key); n.Refusal != nil {
		t.Errorf("the change took effect, and the refusal is %+v", n.Refusal)
	}
}
