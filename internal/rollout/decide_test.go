// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

const testNow = Time(1000 * int64(time.Second))

// oneNode is a snapshot of one node that has to run a pod, with revision 1 of two wanted.
func oneNode(pods ...Pod) Snapshot {
	return Snapshot{
		Now:       testNow,
		Set:       Set{Update: 1, Strategy: RollingUpdate, MaxUnavailable: Quantity{Value: 1}},
		Revisions: []Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2}},
		Nodes:     []Node{{Name: "a", Fit: MustRun, Ready: true, Pods: pods}},
	}
}

func readyPod(name string, revision int) Pod {
	return Pod{Name: name, UID: "uid-" + name, Revision: revision, Phase: Running, Scheduled: true, Ready: true, ReadySince: 1, Created: 1}
}

func TestDecideOneNode(t *testing.T) {
	old, current := readyPod("old", 0), readyPod("new", 1)
	unready := current
	unready.Ready = false
	leaving := old
	leaving.Deleting = true
	failed := current
	failed.Phase, failed.Ready = Failed, false
	forgotten := failed
	forgotten.Deleting = true

	for _, c := range []struct {
		name    string
		pods    []Pod
		verdict Verdict
		action  ActionKind
	}{
		{"nothing there", nil, Verdict{Kind: Creating, Charged: true}, Create},
		{"current", []Pod{current}, Verdict{Kind: UpToDate, Charged: false}, 0},
		{"current but not ready", []Pod{unready}, Verdict{Kind: WaitAvailable, Charged: true}, 0},
		{"old", []Pod{old}, Verdict{Kind: Recreating, Charged: true}, Delete},
		{"old and terminating", []Pod{leaving}, Verdict{Kind: WaitTerminating, Charged: true}, 0},
		{"failed", []Pod{failed}, Verdict{Kind: ReplacingFailed, Charged: true}, Delete},
		{"failed and terminating", []Pod{forgotten}, Verdict{Kind: Creating, Charged: true}, Create},
		{"two", []Pod{old, current}, Verdict{Kind: RemovingExcess, Charged: true}, Delete},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := Decide(oneNode(c.pods...))
			if plan.Verdicts[0] != c.verdict {
				t.Errorf("verdict %v, want %v", plan.Verdicts[0], c.verdict)
			}
			var got ActionKind
			if len(plan.Actions) > 0 {
				got = plan.Actions[0].Kind
			}
			if got != c.action || len(plan.Actions) > 1 {
				t.Errorf("actions %v, want one of kind %v", plan.Actions, c.action)
			}
		})
	}
}

func TestUnusableRevisionDoesNothing(t *testing.T) {
	for _, update := range []int{-1, 2, 1 << 40} {
		s := oneNode(readyPod("old", 0))
		s.Set.Update = update
		plan := Decide(s)
		if len(plan.Actions) != 0 || plan.Verdicts[0].Kind != NotEvaluated {
			t.Errorf("update %d: %+v, want no action", update, plan)
		}
		if plan.Status.Desired != 1 || plan.Status.Updated != 0 || plan.Status.Available != 1 {
			t.Errorf("update %d: status %+v", update, plan.Status)
		}
	}
}

// TestTroubleStalls: a pod in trouble stalls when it has not been ready for long.
func TestTroubleStalls(t *testing.T) {
	failing := func(since Time) Pod {
		p := readyPod("new", 1)
		p.Ready, p.ReadySince, p.Created, p.Trouble = false, since, testNow-1, "container a: ImagePullBackOff"
		return p
	}
	healed := failing(testNow)
	healed.Ready = true
	for _, c := range []struct {
		name string
		pods []Pod
		want Time
	}{
		{"not ready since now", []Pod{failing(testNow)}, testNow.Add(StallAfter)},
		{"says nothing of being ready", []Pod{failing(0)}, (testNow - 1).Add(StallAfter)},
		{"the first of two", []Pod{failing(testNow), failing(testNow - 7)}, (testNow - 7).Add(StallAfter)},
		{"has stalled", []Pod{failing(testNow.Add(-StallAfter))}, 0},
		{"repaired", []Pod{healed}, 0},
		{"none", nil, 0},
	} {
		s := oneNode(c.pods...)
		if got := s.StallsNext(); got != c.want {
			t.Errorf("%s: stalls at %d, want %d", c.name, got, c.want)
		}
	}
}
