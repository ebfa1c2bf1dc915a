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
		"a reboot":                           {func(w *world, p *rollout.Pod) { reboot(w); p.Restarts = 5 }, false},
		"a reboot that is shown late":        {func(w *world, p *rollout.Pod) { reboot(w); w.pass(time.Second); p.Restarts, p.OtherRestarts = 5, 4 }, false},
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
