// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestPaceWhereUnreachableNodesAreSkipped: a set leaves out nodes that are not ready. A pod that was deleted there later is no update that counts, so it makes no room for
// others in the pace.
func TestPaceWhereUnreachableNodesAreSkipped(t *testing.T) {
	w := newWorld(t, "pace: {maxUpgrading: 1}")
	w.s.Set.Unreachable.Skip = true
	w.s.Revisions[1].Created = w.s.Now.Add(-30 * time.Minute)
	for _, name := range []string{"h", "i", "j"} {
		n := w.node(name)
		n.Ready, n.Since = false, w.s.Now.Add(-2*time.Hour)
		n.Pods[0].Created, n.Pods[0].ReadySince = rollout.Time(1), rollout.Time(1)
		n.Pods[0].Ready, n.Pods[0].Deleting, n.Pods[0].DeletedAt = false, true, w.s.Now.Add(-10*time.Minute)
	}
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Errorf("maxUpgrading is 1, and %s start at once: %s", got, w.verdicts())
	}
}

// TestPaceThatIsAddedInMidRoll: an update that started before the policy got minTimeBetween counts.
func TestPaceThatIsAddedInMidRoll(t *testing.T) {
	w := newWorld(t, "")
	w.s.Set.MaxUnavailable.Value = 1
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Fatal(got)
	}
	w.policies = []*policy.Policy{read(t, "pace: {minTimeBetween: 10m}")}
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("%s starts a second after a", got)
	}
}

// TestPaceCountsFromTheAnswer: an update was started 4 s after its decision, and the clock on the wall jumps ahead after that.
func TestPaceCountsFromTheAnswer(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10s}")
	w.pass(0)
	if got := w.roll(); got != "a" {
		t.Fatal(got)
	}
	w.s.Now = w.s.Now.Add(4 * time.Second)
	w.last.LastStart = policy.Moment(w.s.Now)
	w.out.StartedAfter(4 * time.Second)
	w.jump(time.Hour, 13*time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("%s starts 9 s after a", got)
	}
	w.pass(time.Second)
	if got := w.roll(); got != "b" {
		t.Errorf("%q starts 10 s after a", got)
	}
}
