// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// notices are those of a world.
type notices struct{ all []policy.Notice }

func (n *notices) Notify(all []policy.Notice) { n.all = append(n.all, all...) }

// names are those since the last call, each as TYPE/WAVE.
func (n *notices) names() string {
	var names []string
	for _, one := range n.all {
		names = append(names, strings.TrimSuffix(string(one.Type)+"/"+one.Wave, "/"))
	}
	n.all = nil
	return strings.Join(names, " ")
}

// The loop forwards what the decision returns, with the UID and the dialect of the set. Another leader, which knows only what the API server has of the status,
// sends a notice that an earlier one may have sent with the same identity, and no other one again.
func TestNoticesAreForwarded(t *testing.T) {
	w, r := governedWorld(t)
	n := &notices{}
	w.c.Notices = n
	sent := map[string]string{} // by what they are about
	check := func(want string) {
		t.Helper()
		for i := range n.all {
			one := &n.all[i]
			about := string(one.Type) + one.Wave
			if id, before := sent[about]; before && (id != one.ID() || !one.Repeated) {
				t.Errorf("%s has the identity %s, and %s before: %+v", about, one.ID(), id, one)
			}
			if sent[about] = one.ID(); one.Dialect != w.key.Dialect || one.UID != "set-uid" || one.Policy != "p" {
				t.Errorf("notice %+v", one)
			}
		}
		if got := n.names(); got != want {
			t.Errorf("notices %q, want %q", got, want)
		}
	}
	another := func() {
		w.c.states, r.Stored = map[clustercache.Key]*state{}, asStored(t, r.last())
		w.clock.Step(1700 * time.Millisecond)
		w.settle()
	}
	w.clock.Step(300 * time.Millisecond)
	w.edit("img:v2")
	w.settle()
	check("wave-begun/canary soaking/canary")
	another()
	check("soaking/canary")
	for range 12 {
		w.clock.Step(time.Second)
		w.mustPass()
	}
	check("awaiting-approval/canary")
	another()
	another()
	check("awaiting-approval/canary awaiting-approval/canary")
	r.approve("canary", r.last().TargetRevision)
	w.settle()
	w.settle()
	check("wave-begun/remaining complete")
	another()
	check("")
}

// asStored is a status as the API server has it: its times have no fractions of a second.
func asStored(t *testing.T, st v1alpha1.SetStatus) *v1alpha1.SetStatus {
	t.Helper()
	data, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	out := &v1alpha1.SetStatus{}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}
