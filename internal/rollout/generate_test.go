// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math"
	"time"
)

// source is where a generated snapshot gets its choices from: the bytes of a fuzzer or of a seeded generator. When they run
// out, every choice is the first.
type source struct{ data []byte }

// pick chooses one of n.
func (s *source) pick(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

// one is true in one of n cases.
func (s *source) one(n int) bool { return s.pick(n) == n-1 }

// snapshot makes a snapshot that keeps to the contract: sorted nodes with different names, pods with different names.
func (s *source) snapshot() Snapshot {
	out := Snapshot{
		Now:       testNow,
		Revisions: []Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2}, {Name: "v3", Number: 3}}[:1+s.pick(3)],
	}
	for i := range out.Revisions {
		out.Revisions[i].Resize, out.Revisions[i].InitImages, out.Revisions[i].Agent = s.one(2), s.one(4), s.one(4)
		out.Revisions[i].Created = []Time{0, testNow.Add(-time.Minute), testNow.Add(-3 * time.Second), testNow.Add(-time.Second), testNow}[s.pick(5)]
		out.Revisions[i].InPlace, out.Revisions[i].Why = !s.one(3), Detail(s.pick(detailCount)*s.pick(2))
	}
	out.Set = s.set(len(out.Revisions))
	for i := range s.pick(7) {
		out.Nodes = append(out.Nodes, s.node(fmt.Sprintf("n%02d", i), len(out.Revisions)))
	}
	if s.one(2) {
		out.Memory = s.memory(&out)
	}
	if s.one(4) {
		out.Gate = s.gate(&out)
	}
	return out
}

func (s *source) set(revisions int) Set {
	set := Set{
		Strategy:       []Strategy{RollingUpdate, RollingUpdate, RollingUpdate, RollingUpdate, OnDelete, 0}[s.pick(6)],
		MaxUnavailable: s.quantity(),
		MinReady:       []time.Duration{0, 0, 10 * time.Second, -time.Second}[s.pick(4)],
		Burst:          []Quantity{{}, {}, {}, {1, false}, {2, false}, {3, false}, {-1, false}, {10, true}, {50, true}, {150, true}}[s.pick(10)],
		Update:         revisions - 1,
	}
	if s.one(2) {
		set.MaxSurge = s.quantity()
	}
	if s.one(4) {
		q := s.quantity()
		set.MaxReplacing = &q
	}
	if s.one(8) {
		set.Update = s.pick(5) - 1
	}
	if s.one(2) {
		set.InPlace, set.Grace, set.CloseGate, set.InitImages = true, []time.Duration{0, 5 * time.Second, -1}[s.pick(3)], s.one(3), s.one(2)
		set.ImagesInPlace = s.one(3)
	}
	if s.one(2) {
		set.Limits = s.limits()
	}
	set.EligibleOnly = s.one(3)
	set.ExternalController, set.Announce = s.one(5), s.one(3)
	set.Unreachable = Unreachable{Skip: s.one(4), AttributionWindow: []time.Duration{2 * time.Second, 0, 1500 * time.Millisecond, 10 * time.Minute, -time.Second}[s.pick(5)]}
	return set
}

func (s *source) limits() Limits {
	l := Limits{Paused: s.one(5), Selective: s.one(3), Descending: s.one(2), Progressive: s.one(2)}
	if s.pick(3) > 0 {
		l.Partition = s.quantity()
	}
	return l
}

func (s *source) quantity() Quantity {
	if s.one(3) {
		return Quantity{Value: []int{10, 50, 34, 100, 250, 1}[s.pick(6)], Percent: true}
	}
	return Quantity{Value: []int{1, 2, 3, 0, -1, 100}[s.pick(6)]}
}

func (s *source) node(name string, revisions int) Node {
	n := Node{Name: name, Ready: !s.one(6), Fit: []Fit{MustRun, MustRun, MustRun, MustRun, MustRun, MayStay, MayStay, MustLeave, NotKnown, 9}[s.pick(10)]}
	if s.one(8) {
		n.Gone, n.Fit = true, MustLeave
	}
	if s.one(8) {
		n.Blocked = "taken"
		n.Unanswered = s.one(2)
	}
	if s.one(6) {
		n.Refusal = &Refusal{Message: "policy", RetryAt: []Time{0, testNow, testNow + 1, testNow.Add(time.Second)}[s.pick(4)], Of: []ActionKind{0, Patch, Unmark, Delete, Restore}[s.pick(5)]}
	}
	n.ImageWait, n.ImageUntil = s.one(5), []Time{0, testNow - 1, testNow, testNow + 1}[s.pick(4)]
	n.Since = []Time{0, testNow, testNow.Add(-time.Second), testNow.Add(-1300 * time.Millisecond), testNow.Add(-2 * time.Second),
		testNow.Add(-4 * time.Second), testNow.Add(-8 * time.Second), testNow.Add(3 * time.Second)}[s.pick(8)]
	n.Joined = []Time{0, n.Since, n.Since.Add(-time.Second), n.Since.Add(-2 * time.Second)}[s.pick(4)]
	n.Selected, n.Agent, n.Last = s.one(2), s.one(2), s.pick(revisions+1)-1
	for i := range []int{1, 1, 1, 1, 0, 2, 2, 3, 4}[s.pick(9)] {
		n.Pods = append(n.Pods, s.pod(fmt.Sprintf("%s-%d", name, i), revisions))
	}
	return n
}

func (s *source) pod(name string, revisions int) Pod {
	ago := func(seconds int) Time { return testNow.Add(-time.Duration(seconds) * time.Second) }
	return Pod{
		Name: name, UID: "uid-" + name,
		Revision:    s.pick(revisions+1) - s.pick(2),
		Phase:       []Phase{Running, Running, Running, Running, Pending, Succeeded, Failed, Failed}[s.pick(8)],
		Scheduled:   !s.one(6),
		Deleting:    s.one(5),
		DeletedAt:   []Time{0, ago(0), ago(1), ago(2), ago(4), ago(7), ago(700)}[s.pick(7)],
		Ready:       !s.one(3),
		ReadySince:  []Time{ago(100), ago(10), ago(9), ago(1), ago(-5), 0, ago(3)}[s.pick(7)],
		Created:     []Time{ago(0), ago(1), ago(2), ago(3), ago(6), ago(12)}[s.pick(6)],
		Gate:        s.pick(4) > 0,
		Hook:        []Hook{HookNone, HookNone, HookNone, HookNone, HookNone, HookArmed, HookWaiting, HookReleased}[s.pick(8)],
		Evicted:     s.one(3),
		InPlace:     []InPlace{InPlaceNone, InPlaceNone, InPlaceNone, InPlaceNone, InPlaceMarked, InPlacePatched, InPlaceArrived, InPlaceAnnounced}[s.pick(8)],
		GraceUntil:  []Time{0, ago(1), ago(0), ago(-3)}[s.pick(4)],
		Open:        s.one(2),
		Stuck:       []Detail{NoDetail, NoDetail, DetailInfeasible, DetailNotRestarted}[s.pick(4)],
		StuckAt:     []Time{0, 0, ago(0), ago(1), ago(-4)}[s.pick(5)],
		NoResize:    s.one(4),
		Interrupted: s.one(2),
		Starting:    s.one(4),
		Doubtful:    s.one(6),
		Announced:   Announced{Said: s.one(2), Old: s.one(2), Revision: int32(s.pick(revisions+1) - 1)},
	}
}

func (s *source) memory(in *Snapshot) Memory {
	m := Memory{Update: "v1"}
	if s.pick(4) > 0 && in.Set.Update >= 0 && in.Set.Update < len(in.Revisions) {
		m.Update = in.Revisions[in.Set.Update].Name
	}
	for i := range s.pick(8) {
		delay := time.Second << s.pick(11)
		ago := []time.Duration{0, delay / 2, delay, delay + 1, 30 * time.Minute, 31 * time.Minute}[s.pick(6)]
		m.Backoffs = append(m.Backoffs, Backoff{Node: fmt.Sprintf("n%02d", i), Delay: delay, Last: testNow.Add(-ago)})
	}
	return m
}

// wild breaks the contract of a snapshot in as many ways as there are choices left.
func (s *source) wild(in *Snapshot) {
	numbers := []int{math.MaxInt, math.MinInt, -1, math.MaxInt32 + 1, 101}
	for len(s.data) > 0 {
		switch s.pick(12) {
		case 0:
			in.Set.Update = numbers[s.pick(5)]
		case 1:
			in.Set.MaxUnavailable = Quantity{numbers[s.pick(5)], s.one(2)}
		case 2:
			in.Set.MaxSurge = Quantity{numbers[s.pick(5)], s.one(2)}
		case 3:
			in.Set.MaxReplacing = &Quantity{numbers[s.pick(5)], s.one(2)}
		case 4:
			in.Set.MinReady, in.Set.Burst = time.Duration(numbers[s.pick(5)]), Quantity{numbers[s.pick(5)], s.one(2)}
		case 5:
			in.Now = Time(numbers[s.pick(5)])
		case 6:
			in.Nodes = append(in.Nodes, s.node("n00", 2))
		case 7:
			in.Memory.Backoffs = append(in.Memory.Backoffs, Backoff{"n00", time.Duration(numbers[s.pick(5)]), Time(numbers[s.pick(5)])})
		case 8:
			in.Set.Partition = Quantity{numbers[s.pick(5)], s.one(2)}
		case 10:
			in.Set.Unreachable = Unreachable{Skip: true, AttributionWindow: time.Duration(numbers[s.pick(5)])}
		case 9:
			in.Set.Grace = time.Duration(numbers[s.pick(5)])
		default:
			s.wildPod(in, numbers)
		}
	}
}

func (s *source) wildPod(in *Snapshot, numbers []int) {
	if len(in.Nodes) == 0 {
		return
	}
	n := &in.Nodes[s.pick(len(in.Nodes))]
	n.Last = numbers[s.pick(5)]
	n.ImageWait, n.ImageUntil, n.Since, n.Ready = s.one(2), Time(numbers[s.pick(5)]), Time(numbers[s.pick(5)]), s.one(2)
	name, deleting := "", s.one(3)
	if deleting {
		name = "going"
	}
	n.Pods = append(n.Pods, Pod{
		Name: name, Deleting: deleting, DeletedAt: Time(numbers[s.pick(5)]),
		Hook: Hook(s.pick(256)), InPlace: InPlace(s.pick(256)), GraceUntil: Time(numbers[s.pick(5)]),
		Revision: numbers[s.pick(5)], Phase: Phase(s.pick(256)), Ready: s.one(2),
		ReadySince: Time(numbers[s.pick(5)]), Created: Time(numbers[s.pick(5)]),
	})
}
