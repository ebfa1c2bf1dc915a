// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// TestBudgets rolls sets with different budgets; the observer judges each of them, and how far the budget was used.
func TestBudgets(t *testing.T) {
	t.Parallel()
	const nodes = 6
	s := cluster(t).Space(t, nodes)
	tests := []struct {
		name                 string
		unavailable, surge   string
		wantDown, wantSurged int // the budgets, resolved
	}{
		{"one", "1", "0", 1, 0},
		{"half", "50%", "0", 3, 0},
		{"a-bit-rounded-up", "1%", "0", 1, 0},
		{"all", "100%", "0", 6, 0},
		{"surge-two", "0", "2", 0, 2},
		{"surge-percent-rounded-up", "0", "20%", 0, 2},
		{"surge-all", "0", "100%", 0, 6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := s.In(t)
			s.Run(test.name, harness.WithBudget(test.unavailable, test.surge))
			recorder := s.Observe(test.name)
			written := s.Update(test.name, harness.WithImage(harness.Image2))
			s.Wait("the roll ends", harness.RolledOut(test.name, written.Generation, nodes), runsImage(test.name, harness.Image2))
			report := s.Judge(recorder)
			if report.Limit != test.wantDown {
				t.Errorf("the observer took %d for the budget, want %d", report.Limit, test.wantDown)
			}
			if most := report.MostSurging; most > test.wantSurged || (most == 0) != (test.wantSurged == 0) {
				t.Errorf("at most %d nodes surged at once, want up to %d", most, test.wantSurged)
			}
			if len(report.Created) != nodes || len(report.Deleted) != nodes {
				t.Errorf("%d pods created and %d deleted, want %d each", len(report.Created), len(report.Deleted), nodes)
			}
		})
	}
}

// TestBrokenImageStopsARoll: pods that never become ready hold the roll at the budget.
func TestBrokenImageStopsARoll(t *testing.T) {
	t.Parallel()
	const nodes = 5
	s := cluster(t).Space(t, nodes)
	s.Run("ds", harness.WithBudget("2", "0"))
	recorder := s.Observe("ds")
	written := s.Update("ds", harness.WithImage(harness.BrokenImage))
	s.Wait("two nodes are stuck", harness.Observed("ds", written.Generation),
		harness.StatusIs("ds", "2 updated, 2 unavailable", func(status status) bool {
			return status.UpdatedNumberScheduled == 2 && status.NumberUnavailable == 2 && status.NumberReady == 3
		}))
	// A third one broken: a new template that is broken too replaces those two and still no healthy pod.
	written = s.Update("ds", harness.WithImage("registry.example/other:non-existent"))
	s.Wait("the same two nodes carry the next broken image", harness.Observed("ds", written.Generation),
		harness.StatusIs("ds", "2 updated, 2 unavailable", func(status status) bool {
			return status.UpdatedNumberScheduled == 2 && status.NumberUnavailable == 2 && status.NumberReady == 3
		}))
	s.Judge(recorder)
}

// TestMinReadySeconds: a pod has to be ready for that long before it counts and the next one goes.
func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	const nodes = 3
	s := cluster(t).Space(t, nodes)
	s.Run("ds", harness.WithMinReady(3))
	recorder := s.Observe("ds")
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, nodes), runsImage("ds", harness.Image2))
	for _, event := range recorder.Log() {
		if set, ok := event.Object.(*daemonSet); ok && set.Status.NumberReady > set.Status.NumberAvailable {
			s.Judge(recorder)
			return
		}
	}
	t.Error("the status never told of a pod that is ready and not yet available")
}

// TestOnDelete: the new template goes only to pods that somebody deletes.
func TestOnDelete(t *testing.T) {
	t.Parallel()
	const nodes = 3
	s := cluster(t).Space(t, nodes)
	s.Run("ds", harness.WithOnDelete)
	before := harness.UIDs(s.View().Pods("ds"))
	written := s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the new template is known and nothing is updated", harness.Observed("ds", written.Generation),
		harness.StatusIs("ds", "0 updated", func(status status) bool { return status.UpdatedNumberScheduled == 0 }))
	if after := harness.UIDs(s.View().Pods("ds")); !maps.Equal(before, after) {
		t.Fatalf("pods changed: before %v, after %v", before, after)
	}
	victim := s.View().PodOn("ds", s.Nodes[0])
	deletePod(t, s, victim)
	s.Wait("its node has the new template, the others not", replaced("ds", victim),
		harness.StatusIs("ds", "1 updated, 3 available", func(status status) bool {
			return status.UpdatedNumberScheduled == 1 && status.NumberAvailable == nodes
		}))
	if image := s.View().PodOn("ds", s.Nodes[0]).Spec.Containers[0].Image; image != harness.Image2 {
		t.Errorf("the new pod has image %s", image)
	}
	switched := s.Update("ds", harness.WithBudget("1", "0"))
	s.Wait("as a rolling update it goes on", harness.RolledOut("ds", switched.Generation, nodes), runsImage("ds", harness.Image2))
}

// TestChangeOfMindDuringARoll: a third template while the second is under way; the pods end with the third.
func TestChangeOfMindDuringARoll(t *testing.T) {
	t.Parallel()
	const nodes = 6
	s := cluster(t).Space(t, nodes)
	s.Run("ds", harness.WithBudget("2", "0"))
	recorder := s.Observe("ds")
	s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the second template has arrived somewhere", func(v harness.View) error {
		for _, pod := range v.Pods("ds") {
			if pod.Spec.Containers[0].Image == harness.Image2 && harness.Ready(pod) {
				return nil
			}
		}
		return fmt.Errorf("no ready pod has it yet")
	})
	written := s.Update("ds", harness.WithImage(harness.Image3))
	s.Wait("all have the third", harness.RolledOut("ds", written.Generation, nodes), runsImage("ds", harness.Image3))
	s.Judge(recorder)
}

// TestCutNodeDuringARoll: a roll ends on all nodes but the one that is cut off, and there too when it comes back.
//
// The node lifecycle controller taints such a node unreachable:NoSchedule, which the pods do not tolerate (unlike the taint
// unreachable:NoExecute). So the node is not one that has to run the pod; its pod may stay and is counted as misscheduled.
func TestCutNodeDuringARoll(t *testing.T) {
	t.Parallel()
	const nodes = 5
	s := cluster(t).Space(t, nodes)
	s.Run("ds", harness.WithBudget("2", "0"))
	recorder := s.Observe("ds")
	cut := s.Nodes[0]
	s.CutNode(cut)
	s.Wait("the node is NotReady", harness.StatusIs("ds", "4 desired, 1 misscheduled", func(status status) bool {
		return status.DesiredNumberScheduled == nodes-1 && status.NumberMisscheduled == 1
	}))
	s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("all other nodes are rolled", harness.StatusIs("ds", "4 updated and available", func(status status) bool {
		return status.ObservedGeneration == 2 && status.UpdatedNumberScheduled == nodes-1 && status.NumberAvailable == nodes-1
	}))
	s.HealNode(cut)
	s.Wait("the node comes back and is rolled too", harness.RolledOut("ds", 2, nodes), runsImage("ds", harness.Image2))
	s.Judge(recorder)
}
