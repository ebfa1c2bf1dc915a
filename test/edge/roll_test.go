// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const (
	limit = 20
	// patience is for what takes a whole roll.
	patience = 3 * time.Minute
	// blameNothing is a window that is over before a node that is cut is found to be not ready.
	blameNothing = 5 * time.Second
	blameDefault = 10 * time.Minute
)

// cutBeforeAndLongAfter: of 200 nodes 20 are cut before the roll, and 20 so long after their update that nothing is put down to it. The roll ends on all others, and on those
// of the first 20 that are healed without anything else that happens.
func cutBeforeAndLongAfter(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, siteNodes)
	s.Run(set, harness.WithOnDelete, rolls(fmt.Sprint(limit)), harness.WithAnnotation(blameKey, blameNothing.String()))
	before, later, rest := s.Nodes[:20], s.Nodes[20:40], s.Nodes[20:]
	cut(s, before)
	s.Wait("they are not ready", nodesAre(false, before))
	recorder := s.Observe(set)
	s.Update(set, harness.WithImage(harness.Image2))
	s.WaitFor(patience, "the roll reaches those that are cut later", runs(harness.Image2, later), available(later))
	cut(s, later)
	s.WaitFor(patience, "the roll ends on the rest", runs(harness.Image2, s.Nodes[40:]))
	s.Wait("the others are not ready", nodesAre(false, later))
	s.Wait("nothing was done to those that were cut before", runs(harness.Image, before))
	heal(s, before)
	s.WaitFor(patience, "those that are healed follow", runs(harness.Image2, before), nodesAre(true, before))
	heal(s, later)
	s.WaitFor(patience, "all is well", nodesAre(true, rest), ready(siteNodes))
	judge(t, recorder, blameNothing)
}

// noticed is how many seconds a pod has to be ready for, so that a node that is cut with its new pod is found out before that pod is available.
const noticed = 20

// downAfterTheUpdate: every node is cut as soon as it has its new pod. When as many are charged as may be the roll stops, also for a new
// manager; it goes on when they heal.
func downAfterTheUpdate(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, siteNodes)
	s.Run(set, harness.WithOnDelete, harness.WithMinReady(noticed), rolls(fmt.Sprint(limit)))
	recorder := s.Observe(set)
	s.Update(set, harness.WithImage(harness.Image2))
	down := cutEachNewPod(s, harness.Image2)
	s.Wait("as many as may be are not ready", nodesAre(false, down))
	c.Kill(t, harness.ManagerComponent) // the next one has nothing to go by but the objects
	c.StartComponent(t, harness.ManagerComponent)
	witness(s, "witness")
	if have := withImage(s.View(), harness.Image2); len(have) != limit {
		t.Fatalf("%d nodes have the new version, the budget is %d", len(have), limit)
	}
	report := judgeSoFar(t, recorder, blameDefault)
	if report.MostBlamed < len(down) {
		t.Errorf("%d nodes were blamed on the update, %d went down", report.MostBlamed, len(down))
	}
	s.Update(set, harness.WithMinReady(0))
	heal(s, down)
	s.WaitFor(patience, "the roll goes on to the end", runs(harness.Image2, s.Nodes), ready(siteNodes))
	judge(t, recorder, blameDefault)
}

// badImage: the new version never starts, and takes its node down as well. It stops at the budget; undone, it is over when they heal.
func badImage(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, siteNodes)
	s.Run(set, harness.WithOnDelete, rolls(fmt.Sprint(limit)))
	recorder := s.Observe(set)
	s.Update(set, harness.WithImage(harness.BrokenImage))
	down := cutEachNewPod(s, harness.BrokenImage)
	s.Wait("as many as may be are not ready", nodesAre(false, down))
	witness(s, "witness")
	if have := withImage(s.View(), harness.BrokenImage); len(have) != limit {
		t.Fatalf("%d nodes have the bad version, the budget is %d", len(have), limit)
	}
	judge(t, recorder, blameDefault)
	s.Update(set, harness.WithImage(harness.Image))
	heal(s, down)
	s.WaitFor(patience, "the undo ends", runs(harness.Image, s.Nodes), ready(siteNodes))
}

// cutEachNewPod cuts each node that gets a pod with that image, until none gets one any more, and returns them.
func cutEachNewPod(s *harness.Space, image string) []string {
	var down []string
	for len(down) < limit {
		s.Wait("one more node has the new version", func(v harness.View) error {
			if len(withImage(v, image)) <= len(down) {
				return fmt.Errorf("%d nodes have it", len(down))
			}
			return nil
		})
		for _, node := range withImage(s.View(), image) {
			if !slices.Contains(down, node) {
				s.CutNode(node)
				down = append(down, node)
			}
		}
	}
	return down
}

// witness is another set, which is told and rolled after all that has happened so far.
func witness(s *harness.Space, name string) {
	s.Create(name, harness.WithOnDelete, harness.WithAnnotation(strategyKey, ota))
	s.Wait("another set is looked after", func(v harness.View) error {
		for _, pod := range v.Pods(name) {
			if says(pod) != "" {
				return nil
			}
		}
		return fmt.Errorf("no pod of the other set has been told anything")
	})
}

func rolls(limit string) harness.Edit {
	return func(ds *daemonSet) {
		harness.WithAnnotation(strategyKey, advanced)(ds)
		harness.WithAnnotation(limitKey, limit)(ds)
	}
}

func cut(s *harness.Space, nodes []string) {
	for _, node := range nodes {
		s.CutNode(node)
	}
}

func heal(s *harness.Space, nodes []string) {
	for _, node := range nodes {
		s.HealNode(node)
	}
}

// nodesAre is met when these nodes are all ready, or none of them.
func nodesAre(ready bool, nodes []string) harness.Condition {
	return func(v harness.View) error {
		for _, name := range nodes {
			is := false
			for _, c := range v.Node(name).Status.Conditions {
				is = is || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}
			if is != ready {
				return fmt.Errorf("node %s: ready is %v", name, is)
			}
		}
		return nil
	}
}

// runs is met when each of these nodes has a pod with that image that is not terminating, and no other.
func runs(image string, nodes []string) harness.Condition {
	return func(v harness.View) error {
		on := map[string]string{}
		for _, pod := range v.Pods(set) {
			if pod.DeletionTimestamp == nil {
				on[pod.Spec.NodeName] = pod.Spec.Containers[0].Image
			}
		}
		for _, node := range nodes {
			if on[node] != image {
				return fmt.Errorf("node %s runs %q, want %s", node, on[node], image)
			}
		}
		return nil
	}
}

// available is met when each of these nodes has a pod that is ready.
func available(nodes []string) harness.Condition {
	return func(v harness.View) error {
		for _, node := range nodes {
			if pod := v.PodOn(set, node); pod == nil || !harness.Ready(pod) {
				return fmt.Errorf("node %s has no pod that is ready", node)
			}
		}
		return nil
	}
}

// ready is met when that many pods are ready, and there is no other.
func ready(count int) harness.Condition {
	return func(v harness.View) error {
		pods := v.Pods(set)
		for _, pod := range pods {
			if !harness.Ready(pod) || pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s on %s is not ready, or on its way out", pod.Name, pod.Spec.NodeName)
			}
		}
		if len(pods) != count {
			return fmt.Errorf("%d pods, want %d", len(pods), count)
		}
		return nil
	}
}

// withImage are the nodes that have a pod with that image, in order.
func withImage(v harness.View, image string) []string {
	var nodes []string
	for _, pod := range v.Pods(set) {
		if pod.Spec.Containers[0].Image == image && pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func judgeSoFar(t *testing.T, recorder *observe.Recorder, blame time.Duration) observe.EdgeReport {
	t.Helper()
	report := recorder.JudgeEdge(observe.EdgeRules{Limit: limit, Blame: blame})
	if err := report.Err(); err != nil {
		t.Fatalf("observed from outside: %v", err)
	}
	return report
}

// judge ends the observation.
func judge(t *testing.T, recorder *observe.Recorder, blame time.Duration) {
	t.Helper()
	if _, err := recorder.Finish(t.Context()); err != nil {
		t.Fatalf("the observation itself failed: %v", err)
	}
	report := judgeSoFar(t, recorder, blame)
	if report.MostCharged < limit/2 {
		t.Errorf("at most %d nodes were charged: the budget of %d was not used", report.MostCharged, limit)
	}
	t.Logf("observed from outside: %d deletions, at most %d nodes charged (budget %d), at most %d blamed", report.Deleted, report.MostCharged, limit, report.MostBlamed)
}
