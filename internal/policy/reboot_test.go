// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// A node that reboots restarts all containers of its pod, and so may a kubelet that is restarted: that is not the fault of the revision. Restarts before and after a reboot are.
func TestANodeThatReboots(t *testing.T) {
	reboot := func(w *world) {
		w.fails("a", hangs)
		w.node("a").Ready, w.node("a").Since = false, w.s.Now
		w.pass(time.Second)
		w.pass(2 * time.Minute)
		w.node("a").Ready, w.node("a").Since = true, w.s.Now
	}
	for name, c := range map[string]struct {
		happens func(w *world, p *rollout.Pod)
		fails   bool
	}{
		"a reboot":                    {func(w *world, p *rollout.Pod) { reboot(w); p.Restarts = 5 }, false},
		"a reboot that is shown late": {func(w *world, p *rollout.Pod) { reboot(w); w.pass(time.Second); p.Restarts, p.OtherRestarts = 5, 4 }, false},
		"a reboot that is shown before the node is ready": {func(w *world, p *rollout.Pod) {
			reboot(w)
			w.node("a").Ready, p.Restarts = false, 5
			w.pass(time.Second)
			w.node("a").Ready, w.node("a").Since = true, w.s.Now
		}, false},
		"the kubelet is restarted":           {func(_ *world, p *rollout.Pod) { p.Restarts, p.OtherRestarts = 5, 4 }, false},
		"a container crashes":                {func(_ *world, p *rollout.Pod) { p.Restarts, p.OtherRestarts = 5, 1 }, true},
		"a container crashes after a reboot": {func(w *world, p *rollout.Pod) { reboot(w); p.Restarts = 5; w.pass(time.Second); p.Restarts = 9 }, true},
		"a container crashes before and after": {func(w *world, p *rollout.Pod) {
			p.Restarts = 3
			reboot(w)
			p.Restarts = 8
			w.pass(time.Second)
			p.Restarts = 9
		}, true},
		"a container crashes as often as it may": {func(w *world, p *rollout.Pod) { reboot(w); p.Restarts = 5; w.pass(time.Second); p.Restarts = 8 }, false},
		"as often as it may, and the kubelet as well": {func(w *world, p *rollout.Pod) {
			p.Restarts = 3
			w.pass(time.Second)
			p.OtherRestarts, p.Restarts = 4, 7
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := canary(t, strings.Replace(judgedStrictly(), "soak: 1m", "soak: 2h", 1))
			w.pass(30 * time.Minute)
			c.happens(w, &w.node("a").Pods[0])
			w.node("a").Pods[0].Ready = true
			w.pass(time.Second)
			if failed := w.last.Failure != nil; failed != c.fails {
				t.Errorf("failure %+v", w.last.Failure)
			}
		})
	}
}

// The kubelet reports its node as ready before it has restarted the containers. A reboot is not the fault of the revision then either; a container that crashes in that time is.
func TestARebootThatIsShownLate(t *testing.T) {
	for name, c := range map[string]struct {
		before        uint16
		after, others []uint16
		most          string
		fails         bool
	}{
		"no restart is allowed":             {0, []uint16{5}, []uint16{4}, "maxRestarts: 0, ", false},
		"as many restarts before as may be": {3, []uint16{8}, []uint16{4}, "", false},
		"one container after the other":     {0, []uint16{1, 2, 3}, []uint16{0, 1, 2}, "maxRestarts: 0, ", false},
		"a container crashes at once":       {0, []uint16{6}, []uint16{4}, "maxRestarts: 0, ", true},
		"a container crashes afterwards":    {0, []uint16{5, 6}, []uint16{4, 4}, "maxRestarts: 0, ", true},
		"a container crashes often":         {0, []uint16{5, 9}, []uint16{4, 4}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := rebooted(t, c.most, c.before)
			w.pass(time.Second)
			p := &w.node("a").Pods[0]
			for i := range c.after {
				p.Restarts, p.OtherRestarts = c.after[i], c.others[i]
				w.pass(5 * time.Second)
			}
			p.Ready, p.ReadySince = true, w.s.Now
			w.pass(time.Second)
			if failed := w.last.Failure != nil; failed != c.fails {
				t.Errorf("failure %+v", w.last.Failure)
			}
		})
	}
}

// When the pod is ready again, a restart counts.
func TestARestartLongAfterAReboot(t *testing.T) {
	w := rebooted(t, "maxRestarts: 0, ", 0)
	w.pass(time.Second)
	p := &w.node("a").Pods[0]
	p.Ready, p.ReadySince = true, w.s.Now
	w.pass(time.Second)
	p.Restarts = 1
	w.pass(time.Second)
	if w.last.Failure == nil {
		t.Error("it has not failed")
	}
}

// A reboot that one manager has seen, and whose restarts do not count, does not count for the next manager either: a good version would be undone because the leader has changed.
// The next manager may also see the restarts first. The restarts after that count.
func TestARebootBeforeAnotherManager(t *testing.T) {
	for name, c := range map[string]struct {
		before, after, others uint16
		most                  string
	}{
		"no restart is allowed":             {0, 5, 4, "maxRestarts: 0, "},
		"as many restarts before as may be": {3, 8, 4, ""},
	} {
		for when, late := range map[string]bool{"before the change": false, "after it": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				w := rebooted(t, c.most, c.before)
				if late {
					w.lead()
					w.pass(time.Second)
				}
				p := &w.node("a").Pods[0]
				p.Ready, p.ReadySince, p.Restarts, p.OtherRestarts = true, w.s.Now, c.after, c.others
				w.pass(time.Second)
				w.pass(time.Minute)
				if w.last.Failure != nil {
					t.Fatalf("failure %+v", w.last.Failure)
				}
				w.lead()
				w.pass(time.Second)
				w.pass(time.Second)
				w.wantNoFailure()
				p.Restarts += 4
				w.pass(time.Second)
				if w.last.Failure == nil {
					t.Error("it has not failed")
				}
			})
		}
	}
}

// rebooted is a world in which node a is ready again after a reboot. Its only container had been restarted before as often as given, which maxRestarts allows.
func rebooted(t *testing.T, most string, before uint16) *world {
	t.Helper()
	w := canary(t, strings.Replace(strings.Replace(judgedStrictly(), "soak: 1m", "soak: 2h", 1), "nodeDeadline: 5m, ", "nodeDeadline: 5m, "+most, 1))
	w.pass(30 * time.Minute)
	w.node("a").Pods[0].Restarts = before
	w.pass(time.Second)
	w.fails("a", hangs)
	w.node("a").Ready, w.node("a").Since = false, w.s.Now
	w.pass(time.Second)
	w.pass(2 * time.Minute)
	w.node("a").Ready, w.node("a").Since = true, w.s.Now
	return w
}

// After a change in place, restarts of before do not hide those of another container.
func TestRestartsOfAnotherContainerAfterAChangeInPlace(t *testing.T) {
	w := inPlace(t, judgedStrictly())
	w.node("a").Pods[0].Restarts = 50
	w.pass(time.Second)
	w.edit("a", 1, true)
	w.pass(time.Second)
	p := &w.node("a").Pods[0]
	p.Restarts, p.OtherRestarts = p.Restarts+4, 4
	w.pass(time.Second)
	if w.last.Failure == nil {
		t.Error("it has not failed")
	}
}
