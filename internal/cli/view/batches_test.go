// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		done, reach, limit int
		want               Batches
		says               string
	}{
		{0, 30, 6, Batches{6, 0, 5}, ", batch 1 of 5"},
		{13, 31, 6, Batches{6, 2, 6}, ", batch 3 of 6"},
		{30, 30, 6, Batches{6, 5, 5}, ""},
		{31, 31, 6, Batches{6, 6, 6}, ""},
		{2, 4, 10, Batches{10, 0, 1}, ""},
		{2, 4, 0, Batches{}, ""},
	} {
		batches := batchesOf(c.done, c.reach, c.limit)
		if got := (Model{Batches: batches}).batch(); batches != c.want || got != c.says {
			t.Errorf("%d of %d by %d: %+v %q, want %+v %q", c.done, c.reach, c.limit, batches, got, c.want, c.says)
		}
	}
}

// before is when updates began whose pods are all younger.
const before = start - rollout.Time(time.Hour)

// moment is a plan with these verdicts for nodes on which a pod has to run, of which those are updated that are done or become available.
func moment(kinds ...rollout.VerdictKind) (rollout.Snapshot, rollout.Plan) {
	s := rollout.Snapshot{Now: start.Add(time.Hour), Set: rollout.Set{Update: 1}, Revisions: []rollout.Revision{{Name: "a"}, {Name: "b"}}}
	p := rollout.Plan{Budget: rollout.Budget{Limit: 1}}
	for i, kind := range kinds {
		node := rollout.Node{Name: string(rune('a' + i)), Fit: rollout.MustRun, Ready: true}
		pod := rollout.Pod{Phase: rollout.Running, Created: start.Add(time.Duration(i) * time.Second)}
		if kind == rollout.UpToDate || kind == rollout.WaitAvailable {
			pod.Revision = 1
			p.Status.Updated++
		}
		node.Pods = []rollout.Pod{pod}
		s.Nodes = append(s.Nodes, node)
		p.Verdicts = append(p.Verdicts, rollout.Verdict{Kind: kind})
		p.Status.Desired++
	}
	return s, p
}

// What the set itself keeps as it is belongs neither to the batches nor to the time that is left: a canary that is finished is finished.
func TestWhatIsKeptIsNoPartOfTheUpdate(t *testing.T) {
	const done, broken, old = rollout.UpToDate, rollout.WaitAvailable, rollout.WaitBudget
	for name, c := range map[string]struct {
		kinds []rollout.VerdictKind
		says  string
		left  bool
	}{
		"a canary that is finished":    {[]rollout.VerdictKind{done, done, rollout.WaitSelector, rollout.WaitSelector}, "", false},
		"a partition that is reached":  {[]rollout.VerdictKind{done, done, rollout.WaitPartition, rollout.WaitProgressive, rollout.WaitEligible}, "", false},
		"a canary under way":           {[]rollout.VerdictKind{done, old, old, rollout.WaitSelector}, ", batch 2 of 3", true},
		"a new pod that is broken":     {[]rollout.VerdictKind{broken, old, old, old}, ", batch 1 of 4", true},
		"a pause is no end":            {[]rollout.VerdictKind{done, rollout.WaitPaused}, ", batch 2 of 2", true},
		"the last one becomes ready":   {[]rollout.VerdictKind{done, broken}, ", batch 2 of 2", false},
		"the owners have the last say": {[]rollout.VerdictKind{done, rollout.WaitNodeOwner, rollout.WaitNodeOwner}, ", batch 2 of 3", true},
	} {
		s, p := moment(c.kinds...)
		m := New(Input{Snapshot: s, Plan: p, Pace: PastPace(s, p, before)})
		if got := m.batch(); got != c.says {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
		if left := m.forecast() != ""; left != c.left {
			t.Errorf("%s: it says %q of what is left", name, m.forecast())
		}
	}
}

// An update that waits for the owners of nodes neither stands still nor has a pace; one that also waits for something else does.
func TestPaceThatOwnersSet(t *testing.T) {
	s, p := moment(rollout.UpToDate, rollout.WaitNodeOwner, rollout.WaitNodeOwner)
	if got := PastPace(s, p, before); got != (Pace{UpTo: UpTo{Owners: true}}) {
		t.Errorf("got %+v", got)
	}
	s, p = moment(rollout.UpToDate, rollout.WaitNodeOwner, rollout.WaitCollection)
	s.Nodes[2].Gone, s.Nodes[2].Fit, p.Status.Desired = true, rollout.MustLeave, 2
	if got := PastPace(s, p, before); got != (Pace{UpTo: UpTo{Owners: true}}) {
		t.Errorf("a node that is gone: %+v", got)
	}
	s, p = moment(rollout.UpToDate, rollout.WaitNodeOwner, rollout.WaitWave)
	if got := PastPace(s, p, before); got != (Pace{UpTo: UpTo{Owners: true}}) {
		t.Errorf("a node of a later wave of a policy: %+v", got)
	}
	s, p = moment(rollout.UpToDate, rollout.WaitNodeOwner, rollout.WaitBudget)
	if got := PastPace(s, p, before); got.Owners || got.Stalled == 0 {
		t.Errorf("a node that waits for the budget: %+v", got)
	}
}

// An update that nobody lets go on has no pace, whatever its past, and a new pod that does not start does not change that.
func TestPaceOfAnUpdateThatIsHeld(t *testing.T) {
	const done, broken, gone = rollout.UpToDate, rollout.WaitAvailable, rollout.WaitCollection
	for name, c := range map[string]struct {
		kinds []rollout.VerdictKind
		want  Pace
		says  string
	}{
		"paused":                     {[]rollout.VerdictKind{done, done, done, rollout.WaitPaused, rollout.WaitPaused}, Pace{UpTo: UpTo{Paused: true}}, "paused"},
		"paused for a broken pod":    {[]rollout.VerdictKind{done, done, broken, rollout.WaitPaused}, Pace{UpTo: UpTo{Paused: true}}, "paused"},
		"paused before the first":    {[]rollout.VerdictKind{rollout.WaitPaused, rollout.WaitPaused}, Pace{UpTo: UpTo{Paused: true}}, "paused"},
		"paused, the rest is kept":   {[]rollout.VerdictKind{done, rollout.WaitPaused, rollout.WaitPartition}, Pace{UpTo: UpTo{Paused: true}}, "paused"},
		"a soak":                     {[]rollout.VerdictKind{done, done, rollout.WaitSoak, rollout.WaitWave}, Pace{UpTo: UpTo{Policy: true}}, "the rollout policy holds the rest"},
		"an approval":                {[]rollout.VerdictKind{done, done, rollout.WaitApproval, rollout.WaitApproval}, Pace{UpTo: UpTo{Policy: true}}, "the rollout policy holds the rest"},
		"a window":                   {[]rollout.VerdictKind{rollout.WaitWindow, rollout.WaitWindow}, Pace{UpTo: UpTo{Policy: true}}, "the rollout policy holds the rest"},
		"who deletes the pods says":  {[]rollout.VerdictKind{done, done, done, rollout.WaitOnDelete}, Pace{UpTo: UpTo{OnDelete: true}}, "the rest when the old pods are deleted"},
		"a node may still go on":     {[]rollout.VerdictKind{done, done, done, rollout.WaitTerminating, rollout.WaitPaused}, Pace{Known: true, PerSecond: 0.5, Left: 4 * time.Second}, "about 4s left at 0.5 nodes/s"},
		"nobody has to say anything": {[]rollout.VerdictKind{done, done, done, rollout.WaitBudget}, Pace{Known: true, PerSecond: 0.5, Left: 2 * time.Second}, "about 2s left at 0.5 nodes/s"},
	} {
		s, p := moment(c.kinds...)
		s.Now = start.Add(4 * time.Second)
		got := PastPace(s, p, before)
		if says := (Model{Pace: got}).forecast(); got != c.want || says != c.says {
			t.Errorf("%s: %+v %q, want %+v %q", name, got, says, c.want, c.says)
		}
	}
	s, p := moment(rollout.UpToDate, gone, rollout.WaitPaused)
	s.Nodes[1].Fit = rollout.MayStay
	if got := PastPace(s, p, before); got != (Pace{UpTo: UpTo{Paused: true}}) {
		t.Errorf("a node that needs no pod: %+v", got)
	}
}

// Pods that were made one every ten seconds tell how long the rest takes; those of another revision, or on their way out, tell nothing.
func TestPastPace(t *testing.T) {
	now := start.Add(time.Hour)
	made := func(ago time.Duration, revision int, deleting bool) rollout.Node {
		return rollout.Node{Pods: []rollout.Pod{{Revision: revision, Created: now.Add(-ago), Deleting: deleting, Phase: rollout.Running}}}
	}
	s := rollout.Snapshot{Now: now, Set: rollout.Set{Update: 1}, Revisions: []rollout.Revision{{Name: "a"}, {Name: "b"}}}
	for i := range 5 {
		s.Nodes = append(s.Nodes, made(time.Duration(i)*10*time.Second+5*time.Second, 1, false))
	}
	s.Nodes = append(s.Nodes, made(time.Second, 0, false), made(time.Second, 1, true))
	half := rollout.Plan{Status: rollout.Status{Updated: 5, Desired: 9}, Verdicts: make([]rollout.Verdict, len(s.Nodes))}
	for i := range half.Verdicts {
		half.Verdicts[i].Kind = rollout.WaitAvailable
	}
	if got := PastPace(s, half, before); got != (Pace{}) {
		t.Errorf("as long as no new pod is available nobody knows how long one takes: got %+v", got)
	}
	half.Verdicts[4].Kind = rollout.UpToDate
	got := PastPace(s, half, before)
	if !got.Known || got.Left.Round(time.Second) != 45*time.Second {
		t.Errorf("got %+v, want 4 nodes at 4 in 45 seconds", got)
	}
	if got := PastPace(s, rollout.Plan{Status: rollout.Status{Updated: 9, Desired: 9}}, before); got != (Pace{}) {
		t.Errorf("a roll that is over takes %+v", got)
	}
}

// A pod that was changed in place is as old as it was before: it tells when it became ready again.
func TestPastPaceOfUpdatesInPlace(t *testing.T) {
	now := start.Add(2 * time.Hour)
	s := rollout.Snapshot{Now: now, Set: rollout.Set{Update: 1}, Revisions: []rollout.Revision{{Name: "a"}, {Name: "b"}}}
	for i := range 5 {
		s.Nodes = append(s.Nodes, rollout.Node{Pods: []rollout.Pod{{
			Revision: 1, Phase: rollout.Running, Gate: true, Ready: true,
			Created: start.Add(time.Duration(i) * time.Second), ReadySince: now.Add(-time.Duration(i)*2*time.Second - time.Second),
		}}})
	}
	plan := rollout.Plan{Status: rollout.Status{Updated: 5, Desired: 9}, Verdicts: []rollout.Verdict{{Kind: rollout.UpToDate}}}
	got := PastPace(s, plan, start.Add(time.Hour))
	if !got.Known || got.Left.Round(time.Second) != 9*time.Second {
		t.Errorf("got %+v, want 4 nodes at 4 in 9 seconds", got)
	}
	s.Nodes[0].Pods[0].Gate = false
	if got := pointOf(&s.Nodes[0].Pods[0]); got != start {
		t.Errorf("a pod that cannot have been changed in place counts at %d, want when it was made", got)
	}
}

// An update that has made no pod yet stands still since its revision was made, if pods were there to be updated.
func TestPastPaceOfAnUpdateThatNeverMoved(t *testing.T) {
	made := start.Add(30 * time.Minute)
	s, p := moment(rollout.WaitUnreachable, rollout.WaitBudget)
	if got := PastPace(s, p, made); got != (Pace{Stalled: 30 * time.Minute}) {
		t.Errorf("got %+v", got)
	}
	for name, change := range map[string]func(*rollout.Snapshot){
		"a pod was made":                func(s *rollout.Snapshot) { s.Nodes[0].Pods[0].Revision, s.Nodes[0].Pods[0].Created = 1, s.Now },
		"all pods came later":           func(s *rollout.Snapshot) { s.Nodes[0].Pods[0].Created, s.Nodes[1].Pods[0].Created = made+1, made+1 },
		"the nodes of all of them went": func(s *rollout.Snapshot) { s.Nodes[0].Gone, s.Nodes[1].Gone = true, true },
	} {
		s, p := moment(rollout.WaitUnreachable, rollout.WaitBudget)
		change(&s)
		if got := PastPace(s, p, made); got != (Pace{}) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := PastPace(s, p, 0); got != (Pace{}) {
		t.Errorf("nobody knows when it began: got %+v", got)
	}
}

// A node whose new pod serves is updated and available, though its old one, which is going, is older and no longer ready.
func TestNodesWhoseOldPodIsStopping(t *testing.T) {
	s, p := moment(rollout.UpToDate, rollout.UpToDate, rollout.WaitAvailable)
	stopping := rollout.Pod{Phase: rollout.Running, Deleting: true, Created: start.Add(-time.Hour)}
	fresh := stopping
	fresh.Created = start.Add(time.Hour) // of a newer revision, which the update goes back from
	s.Nodes[0].Pods, s.Nodes[1].Pods = append(s.Nodes[0].Pods, stopping), append(s.Nodes[1].Pods, fresh)
	p.Status.Updated, p.Status.Ready, p.Status.Available = 2, 1, 1 // as the oldest pods say
	m := New(Input{Snapshot: s, Plan: p})
	if m.Status.Updated != 3 || m.Status.Ready != 2 || m.Status.Available != 2 || m.Done != 2 {
		t.Errorf("%d updated, %d ready, %d available, %d done", m.Status.Updated, m.Status.Ready, m.Status.Available, m.Done)
	}
	s.Nodes[0].Pods[1].Ready = true
	p.Status.Ready, p.Status.Available = 2, 2
	if m := New(Input{Snapshot: s, Plan: p}); m.Status.Ready != 2 || m.Status.Available != 2 {
		t.Errorf("one that is still ready counts twice: %d ready, %d available", m.Status.Ready, m.Status.Available)
	}
	s.Set.MinReady, p.Status.Available = time.Hour, 1
	s.Nodes[0].Pods[1].ReadySince = s.Now.Add(-time.Minute)
	if m := New(Input{Snapshot: s, Plan: p}); m.Status.Ready != 2 || m.Status.Available != 2 {
		t.Errorf("one that is ready, and has not been for long: %d ready, %d available", m.Status.Ready, m.Status.Available)
	}
}

// Of an update that goes back to an earlier revision nobody knows when it began: pods of that revision that are older than others are of the roll
// before, and tell nothing.
func TestPastPaceOfAnUpdateThatGoesBack(t *testing.T) {
	s, p := moment(rollout.UpToDate, rollout.UpToDate, rollout.WaitBudget, rollout.WaitBudget)
	s.Now = start.Add(18 * time.Second) // the last old pod is 15 s old
	if got := PastPace(s, p, 0); got != (Pace{}) {
		t.Errorf("it has only begun: %+v", got)
	}
	var tracker Tracker
	tracker.Recall(s, p, 0)
	if got := tracker.Next(s, p).Pace; got != (Pace{}) {
		t.Errorf("it has only begun, and somebody looks on: %+v", got)
	}
	s.Nodes[1].Pods[0].Created = start.Add(4 * time.Second)
	if got := PastPace(s, p, 0); got != (Pace{Stalled: 14 * time.Second}) {
		t.Errorf("a pod was made after those of the other revision: %+v", got)
	}
}
