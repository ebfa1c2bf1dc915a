// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// TestWindowCloses: a window or a freeze closes in the middle of a wave. The nodes that have begun end, none begins, and the rollout ends when it opens again.
func TestWindowCloses(t *testing.T) {
	freeze := func(from, to time.Time) string {
		return fmt.Sprintf(`{"freezes":[{"from":%q,"to":%q}]}`, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	for _, c := range []struct {
		name         string
		close        func(now time.Time) string
		open, reason string
		action       v1alpha1.Action
	}{
		{
			"window", func(now time.Time) string { // it opens half a day later
				return fmt.Sprintf(`{"windows":[{"schedule":"0 %d * * *","duration":"1m"}]}`, (now.UTC().Hour()+12)%24)
			}, `{"windows":null}`, "Window", v1alpha1.ActionOpenWindow,
		},
		{
			"window that ends", func(now time.Time) string { // it is open now, for a few seconds more
				now = now.UTC()
				start := now.Truncate(time.Minute)
				return fmt.Sprintf(`{"windows":[{"schedule":"%d %d * * *","duration":%q}]}`, start.Minute(), start.Hour(), now.Sub(start).Truncate(time.Second)+4*time.Second)
			}, `{"windows":null}`, "Window", v1alpha1.ActionOpenWindow,
		},
		{"freeze", func(now time.Time) string { return freeze(now.Add(-time.Hour), now.Add(time.Hour)) }, `{"freezes":null}`, "Freeze", v1alpha1.ActionEndFreeze},
		{"freeze that is announced", func(now time.Time) string { return freeze(now.Add(4*time.Second), now.Add(time.Hour)) }, `{"freezes":null}`, "Freeze", v1alpha1.ActionEndFreeze},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, native(), smallNodes)
			// An update takes longer than the time between two starts, so there is a node in the middle of its update whenever the window closes.
			s.kubectl("", "patch", s.dialect.resource(), set, "--type=merge", "-p", `{"spec":{"minReadySeconds":3}}`)
			s.govern("\n  pace: {minTimeBetween: 1s}\n  waves:\n  - {name: canary, nodes: {count: 1}, soak: 2s}\n")
			s.update(harness.Image2)
			s.Wait("the second wave has begun", atLeast(harness.Image2, 2))
			s.editPolicy(c.close(time.Now()))
			s.await(v1alpha1.PhaseWaitingForWindow)
			s.closed(c.reason, c.action)
			s.editPolicy(c.open)
			for _, wrong := range s.finish().judge([]step{{"canary", s.Nodes[:1], 2 * time.Second}, {"remaining", s.Nodes[1:], 0}}) {
				t.Error(wrong)
			}
		})
	}
}

// closed checks that nothing begins, and that what has begun ends. The phase is reported after the writes of the pass that finds the window closed, so what
// begins after that is a violation.
func (s *stage) closed(reason string, action v1alpha1.Action) {
	s.t.Helper()
	p := s.policy()
	st := &p.Status.Sets[0]
	if next := st.Next; next == nil || next.Action != action || next.At == nil {
		s.t.Errorf("the next action is %+v, want %s", next, action)
	}
	if !slices.ContainsFunc(st.Blocking, func(b v1alpha1.Blocking) bool { return b.Reason == reason }) {
		s.t.Errorf("what blocks is %+v, want %s", st.Blocking, reason)
	}
	available := 0
	for i := range st.Waves {
		available += int(st.Waves[i].Available)
	}
	begun := s.soFar().beganAfter(0)
	if len(begun) <= available {
		s.t.Errorf("no node was in the middle of its update: %d have begun, and %d were available with the new revision", len(begun), available)
	}
	if len(begun) >= len(s.Nodes) {
		s.t.Fatalf("all nodes had begun before the window closed")
	}
	s.Wait("what has begun ends", runs(harness.Image2, len(begun)), harness.StatusIs(set, "available", availableOn(len(s.Nodes))))
	s.holds(6*time.Second, "nothing begins", runs(harness.Image2, len(begun)))
	if late := s.soFar().beganAfter(versionOf(s.t, p)); len(late) > 0 {
		s.t.Errorf("these nodes began while the window was closed: %v", late)
	}
	s.t.Logf("%d of %d nodes had begun: %v", len(begun), len(s.Nodes), begun)
}

// atLeast is met when that many nodes have a pod with an image.
func atLeast(image string, count int) harness.Condition {
	return func(v harness.View) error {
		n := 0
		for _, p := range v.Pods(set) {
			if p.Spec.Containers[0].Image == image {
				n++
			}
		}
		if n < count {
			return fmt.Errorf("%d pods have image %s, want %d", n, image, count)
		}
		return nil
	}
}
