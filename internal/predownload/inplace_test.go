// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/rollout"
)

// inPlaceWorld is a world in which pods of all old revisions but the first are changed in place, and n2 has no agent.
func inPlaceWorld(t *testing.T, specs ...string) *Input {
	t.Helper()
	in := world(t, specs...)
	in.Snapshot.Set.InPlace = true
	in.Snapshot.Revisions = make([]rollout.Revision, len(specs))
	for i := range specs {
		in.Snapshot.Revisions[i].InPlace = i > 0 && i < len(specs)-1
	}
	in.InPlace = &InPlace{Agents: map[string]int{"n0": 1, "n1": 1}, Only: true, Held: map[string]bool{}}
	return in
}

func TestChangesInPlaceThatWait(t *testing.T) {
	three := []string{image("a:0"), image("a:1"), image("a:2")}
	jobs := []Job{{Name: "main", Hash: "h2", Image: "a:2", Stays: true, Created: 7 * second}}
	for name, e := range map[string]struct {
		jobs   []Job
		known  map[string]Pulled
		change func(*Input)
		want   string
	}{
		"nobody was asked yet": {jobs, nil, nil, "n0:307 n1:307"},
		"no job yet":           {nil, nil, nil, "n0:0 n1:0"},
		"others are asked": {jobs, map[string]Pulled{"n0 a:2": {Ordered: 50 * second}}, nil,
			"n0:350 n1:350"},
		"others were asked before they were updated": {jobs, nil, func(in *Input) { in.InPlace.Ordered = 90 * second }, "n0:390 n1:390"},
		"one is there":        {jobs, map[string]Pulled{"n0 a:2": {There: true, Ordered: 50 * second}}, nil, "n1:350"},
		"one cannot be asked": {jobs, map[string]Pulled{"n0 a:2": {Unlisted: true}, "n1 a:2": {Ordered: 50 * second}}, nil, "n0:307 (unlisted) n1:350"},
		"no agents":           {jobs, nil, func(in *Input) { in.InPlace.Agents = nil }, ""},
		"a pod is recreated":  {jobs, nil, func(in *Input) { in.Snapshot.Nodes[0].Pods[0].Revision = 0 }, "n1:307"},
		"an unknown revision": {jobs, nil, func(in *Input) { in.Snapshot.Nodes[0].Pods[0].Revision = rollout.NoRevision }, "n1:307"},
		"a revision too many": {jobs, nil, func(in *Input) { in.Snapshot.Nodes[0].Pods[0].Revision = 9 }, "n1:307"},
		"also where all wait": {jobs, nil, func(in *Input) { in.InPlace.Only = false }, "n0:307 n1:307"},
		"an order from a time to come does not count": {jobs, map[string]Pulled{"n0 a:2": {Ordered: 90000 * second}}, nil, "n0:307 n1:307"},
	} {
		t.Run(name, func(t *testing.T) {
			in := inPlaceWorld(t, three...)
			in.Jobs, in.Snapshot.Now = e.jobs, 10*second
			if e.change != nil {
				e.change(in)
			}
			if got := waits(in, e.known); got != e.want || !in.Snapshot.Set.ImagesInPlace {
				t.Errorf("got %q, want %q; only in place: %t", got, e.want, in.Snapshot.Set.ImagesInPlace)
			}
		})
	}
}

// TestASetThatAsksWaitsEverywhere: whether there is an agent or not, and in whatever way a pod is updated.
func TestASetThatAsksWaitsEverywhere(t *testing.T) {
	in := inPlaceWorld(t, image("a:0"), image("a:1"), image("a:2"))
	in.InPlace, in.Set.PullAhead.Wait = nil, true
	if got := waits(in, nil); got != "n0:0 n1:0 n2:0" || in.Snapshot.Set.ImagesInPlace {
		t.Errorf("got %q, only in place: %t", got, in.Snapshot.Set.ImagesInPlace)
	}
}

// TestTheLastOrderIsKept: once the nodes that were asked are updated, others still have their turn.
func TestTheLastOrderIsKept(t *testing.T) {
	in := inPlaceWorld(t, image("a:0"), image("a:1"), image("a:2"))
	in.Jobs = []Job{{Name: "main", Hash: "h2", Image: "a:2", Stays: true, Created: 7 * second}}
	in.Snapshot.Now = 500 * second
	waits(in, map[string]Pulled{"n0 a:2": {There: true, Ordered: 400 * second}})
	in.Snapshot.Nodes[0].Pods[0].Revision = 2
	if got := waits(in, nil); got != "n1:700" {
		t.Errorf("got %q", got)
	}
}

// TestJobsOfChangesInPlace: they are made for pods that wait, leave the history alone, pull as many at once as the budget allows, and end with the roll.
func TestJobsOfChangesInPlace(t *testing.T) {
	three := []string{image("a:0"), image("a:1"), image("a:2")}
	in := inPlaceWorld(t, three...)
	in.Snapshot.Set.MaxUnavailable = rollout.Quantity{Value: 50, Percent: true}
	in.Snapshot.Nodes[0].Pods[0].Revision = 0
	out := Decide(in)
	if got := made(&out); got != "agent-h2-main=a:2 " {
		t.Fatalf("made %q", got)
	}
	spec := out.Create[0].Spec
	if n := *spec.PullPolicy.BackoffLimit; n != 3 {
		t.Errorf("%d further tries", n)
	}
	selector, err := metav1.LabelSelectorAsSelector(&spec.PodSelector.LabelSelector)
	if err != nil || selector.String() != "app in (agent),controller-revision-hash notin (h0,h2)" {
		t.Errorf("the job follows %v, %v", selector, err)
	}
	if spec.Parallelism.IntValue() != 2 || spec.CompletionPolicy.Type != v1beta1.CompletionNever {
		t.Errorf("got %+v", spec)
	}
	in.Set.PullAhead.ParallelismGiven = true
	if n := Decide(in).Create[0].Spec.Parallelism.IntValue(); n != 1 {
		t.Errorf("parallelism %d, and the set says 1", n)
	}
	if got, _ := in.Order(&rollout.Plan{Verdicts: make([]rollout.Verdict, 3)}); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("the order is %q", got)
	}
	for name, change := range map[string]func(*Input){
		"paused":                  func(in *Input) { in.Snapshot.Set.Paused = true },
		"no agent on such a node": func(in *Input) { in.InPlace.Agents = map[string]int{"n2": 0} },
		"the end of the roll":     func(in *Input) { setAll(in, rollout.Pod{Revision: 2}) },
		"switched off":            func(in *Input) { in.InPlace, in.Off = nil, true },
	} {
		in := inPlaceWorld(t, three...)
		change(in)
		if out := Decide(in); len(out.Create) > 0 || out.Mark != "" {
			t.Errorf("%s: made %q", name, made(&out))
		}
		in.Jobs = []Job{{Name: "agent-h2-main", Hash: "h2", Image: "a:2", Stays: true}}
		if out := Decide(in); (len(out.Delete) == 0) != (name == "paused") {
			t.Errorf("%s: deleted %q", name, out.Delete)
		}
	}
}

// TestImagesAheadOfAllUpdates: where images are pulled ahead of every update, they still are, also for nodes that do not wait.
func TestImagesAheadOfAllUpdates(t *testing.T) {
	in := inPlaceWorld(t, image("a:0"), image("a:1"), image("a:2"))
	in.InPlace.Only, in.InPlace.Agents = false, nil
	out := Decide(in)
	if got := made(&out); got != "agent-h2-main=a:2 "+kruise.PredownloadCreated || out.Create[0].Spec.CompletionPolicy.Type != v1beta1.CompletionNever {
		t.Errorf("made %q", got)
	}
}

func TestWhoNeedsImagesInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		specs  string
		change func(*Input)
		want   bool
	}{
		"a new image":         {"a:0 a:1 a:2", nil, true},
		"the same image":      {"a:0 a:2 a:2", nil, false},
		"recreated":           {"a:0 a:1 a:2", func(in *Input) { setAll(in, rollout.Pod{Revision: 0}) }, false},
		"up to date":          {"a:0 a:1 a:2", func(in *Input) { setAll(in, rollout.Pod{Revision: 2}) }, false},
		"an unknown revision": {"a:0 a:1 a:2", func(in *Input) { setAll(in, rollout.Pod{Revision: rollout.NoRevision}) }, false},
		"no wanted revision":  {"a:0 a:1 a:2", func(in *Input) { in.Snapshot.Set.Update = rollout.NoRevision }, false},
	} {
		var specs []string
		for i, name := range strings.Fields(c.specs) {
			specs = append(specs, image(name)+strings.Repeat(" ", i))
		}
		in := inPlaceWorld(t, specs...)
		if c.change != nil {
			c.change(in)
		}
		if got := in.NeedsImages(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestHeldNodesPullWhenTheyAreReleased: for changes in place alone, nothing is pulled on a node that a partition or a policy holds back, and however old the
// job is when it is released, its wait begins then.
func TestHeldNodesPullWhenTheyAreReleased(t *testing.T) {
	three := []string{image("a:0"), image("a:1"), image("a:2")}
	in := inPlaceWorld(t, three...)
	in.Jobs = []Job{{Name: "main", Hash: "h2", Image: "a:2", Stays: true, Created: 7 * second}}
	in.Snapshot.Now = 10 * second
	plan := &rollout.Plan{Verdicts: make([]rollout.Verdict, 3)}
	for kind, held := range map[rollout.VerdictKind]bool{
		rollout.WaitPartition: true, rollout.WaitSelector: true, rollout.WaitPaused: true, rollout.WaitWave: true, rollout.WaitSoak: true, rollout.WaitApproval: true,
		rollout.WaitWindow: true, rollout.WaitFailed: true, rollout.WaitEligible: true,
		rollout.WaitBudget: false, rollout.WaitImage: false, rollout.WaitPace: false, rollout.WaitUnreachable: false, rollout.UpdatingInPlace: false,
	} {
		plan.Verdicts[1].Kind = kind
		order, got := in.Order(plan)
		if got == nil || got["n1"] != held || len(got)+len(order) != 2 || got["n0"] {
			t.Errorf("%v: the order is %q, held are %v", kind, order, got)
		}
	}
	in.Release(map[string]bool{"n1": true})
	if in.InPlace.Ordered != 0 {
		t.Error("no node was released, and the others have more time")
	}
	in.Snapshot.Now = 5000 * second
	if got := waits(in, nil); got != "n0:307 n1:5300" {
		t.Errorf("in the pass that may release n1, the waits are %q", got)
	}
	in.Release(map[string]bool{})
	in.Snapshot.Now = 5100 * second
	if got := waits(in, nil); got != "n0:5300 n1:5300" {
		t.Errorf("then the waits are %q", got)
	}
	in.InPlace.Held = nil // another leader, which does not know who was held
	if got := waits(in, map[string]Pulled{"n0 a:2": {Ordered: 5000 * second}}); got != "n0:5300 n1:5400" {
		t.Errorf("for another leader the waits are %q", got)
	}
	in.InPlace.Only = false // then all nodes pull from the beginning
	if _, held := in.Order(plan); held != nil || waits(in, nil) != "n0:5300 n1:5300" {
		t.Errorf("held are %v, the waits %q", held, waits(in, nil))
	}
}
