// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"time"
)

// TestWorldDoesWhatMakesSense: in a World every action changes a pod in every state to what it would be in a cluster, or is refused and changes
// nothing.
func TestWorldDoesWhatMakesSense(t *testing.T) {
	hooks := map[ActionKind]map[Hook]Hook{Prepare: {HookArmed: HookWaiting}, Restore: {HookWaiting: HookArmed, HookReleased: HookNone}}
	phases := map[ActionKind]map[InPlace]InPlace{
		Mark:   {InPlaceNone: InPlaceMarked},
		Patch:  {InPlaceMarked: InPlacePatched, InPlacePatched: InPlacePatched, InPlaceArrived: InPlacePatched, InPlaceAnnounced: InPlacePatched},
		Resume: {InPlaceAnnounced: InPlacePatched},
		Unmark: {InPlaceMarked: InPlaceNone, InPlaceArrived: InPlaceNone},
	}
	for kind := range Resume + 2 {
		for hook := HookNone; hook <= HookReleased; hook++ {
			for phase := InPlaceNone; phase <= InPlaceAnnounced && kind != Create; phase++ {
				pod := readyPod("p", 0)
				pod.Gate, pod.Hook, pod.InPlace, pod.GraceUntil, pod.Stuck = true, hook, phase, 7, DetailInfeasible
				want, makesSense := pod, false
				if next, found := hooks[kind][hook]; found {
					want.Hook, want.Evicted, makesSense = next, kind == Prepare, true
				}
				if next, found := phases[kind][phase]; found {
					want.InPlace, makesSense = next, true
				}
				switch {
				case kind == Delete && (hook == HookNone || hook == HookReleased):
					want.Deleting, want.DeletedAt, makesSense = true, testNow, true
				case !makesSense || kind == Mark || kind == Prepare || kind == Restore:
				case kind == Patch:
					want.Revision, want.Stuck, want.GraceUntil = 1, NoDetail, 0
				default:
					want.GraceUntil = 0
				}
				w := NewWorld(oneNode(readyPod("first", 1), pod))
				w.State.Set.CloseGate = true
				err := w.Apply(Plan{Actions: []Action{{Kind: kind, Pod: pod.Name, UID: pod.UID, Revision: 1, Evict: true}}})
				if got := w.State.Nodes[0].Pods[1]; (err == nil) != makesSense || got != want {
					t.Errorf("%s of a pod whose hook is %s and whose change is %s: %v\n got %+v\nwant %+v", kind, hook, phase, err, got, want)
				}
			}
		}
	}
}

// TestWorldRefuses what names nothing, or what cannot be done any more.
func TestWorldRefuses(t *testing.T) {
	pod := readyPod("p", 0)
	deleted, gateless := pod, pod
	deleted.Deleting, gateless.Gate = true, false
	for _, c := range []struct {
		what string
		pod  Pod
		plan Plan
		text string
	}{
		{"a node before the first", pod, Plan{Actions: []Action{{Kind: Create, Node: -1}}}, "names no node"},
		{"a node after the last", pod, Plan{Actions: []Action{{Kind: Create, Node: 1}}}, "names no node"},
		{"another pod of that name", pod, Plan{Actions: []Action{{Kind: Delete, Pod: pod.Name, UID: "other"}}}, "no such pod"},
		{"that pod by another name", pod, Plan{Actions: []Action{{Kind: Delete, Pod: "other", UID: pod.UID}}}, "no such pod"},
		{"a pod that goes", deleted, Plan{Actions: []Action{{Kind: Delete, Pod: pod.Name, UID: pod.UID}}}, "being deleted already"},
		{"a pod without a gate", gateless, Plan{Actions: []Action{{Kind: Mark, Pod: pod.Name, UID: pod.UID}}}, "cannot be done"},
		{"a pod that is not marked", pod, Plan{Actions: []Action{{Kind: Patch, Pod: pod.Name, UID: pod.UID}}}, "cannot be done"},
		{"what another pod of that name says", pod, Plan{Announcements: []Announcement{{Pod: pod.Name, UID: "other"}}}, "no such pod"},
		{"what that pod says by another name", pod, Plan{Announcements: []Announcement{{Pod: "other", UID: pod.UID}}}, "no such pod"},
	} {
		w := NewWorld(oneNode(c.pod))
		w.State.Set.CloseGate = true
		if err := w.Apply(c.plan); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.what, err, c.text)
		}
		if got := w.State.Nodes[0].Pods; len(got) != 1 || got[0] != c.pod {
			t.Errorf("%s: it has changed the pods to %+v", c.what, got)
		}
	}
}

// TestWorldChangesWithTheGateOpen: without CloseGate a pod is patched as it is, and its node running the change is the end of that.
func TestWorldChangesWithTheGateOpen(t *testing.T) {
	for _, c := range []struct {
		what         string
		before       InPlace
		open, closes bool
		want         bool
	}{
		{"a pod that is not being changed", InPlaceNone, false, false, true},
		{"once more", InPlacePatched, true, false, true},
		{"once more, with the gate to be closed now", InPlacePatched, true, true, false},
		{"a pod that was marked", InPlaceMarked, false, false, false},
		{"a pod whose first gate was never opened", InPlaceArrived, false, false, false},
	} {
		pod := readyPod("p", 0)
		pod.InPlace, pod.Open = c.before, c.open
		w := NewWorld(oneNode(pod))
		w.State.Set.CloseGate = c.closes
		if err := w.Apply(Plan{Actions: []Action{{Kind: Patch, Pod: pod.Name, UID: pod.UID, Revision: 1}}}); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		p := &w.State.Nodes[0].Pods[0]
		if p.InPlace != InPlacePatched || p.Open != c.want || p.Revision != 1 {
			t.Errorf("%s: it is %s, open %t, of revision %d", c.what, p.InPlace, p.Open, p.Revision)
		}
		end := InPlaceArrived
		if c.want {
			end = InPlaceNone
		}
		if p.Arrive(); p.InPlace != end || p.Open {
			t.Errorf("%s: when the node runs the change it is %s, open %t", c.what, p.InPlace, p.Open)
		}
	}
}

// TestWorldRemembers what a node is to run next, how long a pod is in its grace period, and which pods nobody has to stop.
func TestWorldRemembers(t *testing.T) {
	pod := readyPod("p", 0)
	pod.Gate = true
	act := func(kind ActionKind, reason VerdictKind, edit func(w *World, p *Pod)) Node {
		t.Helper()
		w := NewWorld(oneNode(pod))
		w.State.Nodes[0].Last = NoRevision
		edit(&w, &w.State.Nodes[0].Pods[0])
		if err := w.Apply(Plan{Actions: []Action{{Kind: kind, Pod: pod.Name, UID: pod.UID, Revision: 1, Reason: reason}}}); err != nil {
			t.Fatal(err)
		}
		return w.State.Nodes[0]
	}
	asItIs := func(*World, *Pod) {}
	if n := act(Delete, Recreating, asItIs); n.Last != 1 {
		t.Errorf("after a delete for the update the node is to run revision %d", n.Last)
	}
	if n := act(Delete, ReplacingFailed, asItIs); n.Last != NoRevision {
		t.Errorf("after another delete the node is to run revision %d", n.Last)
	}
	if n := act(Patch, UpdatingInPlace, func(_ *World, p *Pod) { p.InPlace = InPlaceMarked }); n.Last != 1 {
		t.Errorf("after a change in place the node is to run revision %d", n.Last)
	}
	if n := act(Delete, Recreating, func(_ *World, p *Pod) { p.Scheduled = false }); len(n.Pods) != 0 {
		t.Errorf("a pod that never came to its node is still there: %+v", n.Pods)
	}
	if n := act(Delete, Removing, func(w *World, p *Pod) { w.State.Nodes[0].Gone, p.Hook = true, HookArmed }); !n.Pods[0].Deleting {
		t.Error("a hook is asked on a node that is gone")
	}
	if n := act(Mark, UpdatingInPlace, func(w *World, _ *Pod) { w.State.Set.Grace = 5 * time.Second }); n.Pods[0].GraceUntil != testNow.Add(5*time.Second) {
		t.Errorf("a grace period of 5 s from %d on ends at %d", testNow, n.Pods[0].GraceUntil)
	}
}

// TestWorldOpensTheGateOfAnInterruptedPod: what the pod was being prepared for is over then.
func TestWorldOpensTheGateOfAnInterruptedPod(t *testing.T) {
	pod := readyPod("p", 0)
	pod.InPlace, pod.Interrupted = InPlaceArrived, true
	w := NewWorld(oneNode(pod))
	if err := w.Apply(Plan{Actions: []Action{{Kind: Unmark, Pod: pod.Name, UID: pod.UID}}}); err != nil {
		t.Fatal(err)
	}
	if p := &w.State.Nodes[0].Pods[0]; p.InPlace != InPlaceNone || p.Interrupted {
		t.Errorf("it is %s, interrupted %t", p.InPlace, p.Interrupted)
	}
}
