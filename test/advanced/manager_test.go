// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// chaosNodes is how many nodes the sets have whose managers are killed, chaosKept how many of them a partition holds back.
const chaosNodes, chaosKept = 20, 8

// The tests here break what the scenarios share, so none of them runs beside another test.

// TestManagerKilledMidRoll: the manager is killed and started again three times in the middle of four updates.
func TestManagerKilledMidRoll(t *testing.T) {
	c := cluster(t)
	var stages []*stage
	for _, fields := range []string{
		"maxUnavailable: 3", inPlace + ", maxUnavailable: 3", "maxSurge: 3", "maxUnavailable: 3, partition: " + strconv.Itoa(chaosKept),
	} {
		s := newStage(t, c, chaosNodes)
		s.apply(rolling(fields))
		stages = append(stages, s)
	}
	for _, s := range stages {
		s.rolled()
	}
	for _, s := range stages {
		s.apply(withImage(two))
	}
	killMidRoll(t, c, stages, harness.ManagerComponent)
	for _, s := range stages[:3] {
		s.rolled(s.runs(two))
	}
	stages[3].held(chaosNodes - chaosKept)
	for _, s := range stages {
		s.finish()
	}
}

// noPulls is a job for no node.
const noPulls = `
apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata: {name: job}
spec: {image: "registry.example/none:1", selector: {matchLabels: {example.com/no: node}}, completionPolicy: {type: Never}}
`

// TestDeletesWithoutAManager: while no manager runs, and so no webhook, an Advanced DaemonSet and an ImagePullJob can be deleted in every way.
func TestDeletesWithoutAManager(t *testing.T) {
	c := cluster(t)
	for _, cascade := range []string{"orphan", "foreground", "background"} {
		s := newStage(t, c, 1)
		s.apply(rolling("maxUnavailable: 1"))
		s.rolled()
		if out, err := s.KubectlWith(noPulls, "apply", "-f", "-"); err != nil {
			t.Fatalf("kubectl apply: %v\n%s", err, out)
		}
		c.Kill(t, harness.ManagerComponent)
		s.Kubectl("delete", "daemonsets.apps.kruise.io", name, "--cascade="+cascade, "--timeout=60s")
		s.Kubectl("delete", "imagepulljobs.apps.kruise.io", "job", "--cascade="+cascade, "--timeout=60s")
		c.StartComponent(t, harness.ManagerComponent)
		s.Poll("the manager is back", func() error {
			out, err := s.KubectlWith(strings.ReplaceAll(agent, "name: agent}", "name: another}"), "apply", "--dry-run=server", "-f", "-")
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
}

// killMidRoll kills the managers in turn, each time when a few more nodes of every stage are updated.
func killMidRoll(t *testing.T, c *harness.Cluster, stages []*stage, managers ...string) {
	t.Helper()
	const kills, more = 3, 4
	for kill := range kills {
		for _, s := range stages {
			s.Wait("the update goes on", func(harness.View) error {
				if updated := len(s.running(two)); updated <= more*kill {
					return fmt.Errorf("%d nodes are updated", updated)
				}
				return nil
			})
		}
		victim := managers[kill%len(managers)]
		c.Kill(t, victim)
		c.StartComponent(t, victim)
	}
}

// TestSecondPlane: what needs another plane, with two managers.
func TestSecondPlane(t *testing.T) {
	c := harness.Own(t, options(2))
	for _, sc := range []scenario{
		{"in-place-resources", 2, false, inPlaceResources},
		{"in-place-resources-and-image", 2, false, inPlaceResourcesAndImage},
		{"two-managers", chaosNodes, false, func(s *stage) { twoManagers(s, c) }},
	} {
		t.Run(sc.name, func(t *testing.T) { play(t, c, sc) })
	}
}

// twoManagers: of two managers one leads; when it is killed the other goes on.
func twoManagers(s *stage, c *harness.Cluster) {
	s.run(rolling("maxUnavailable: 2"))
	s.apply(withImage(two))
	killMidRoll(s.t, c, []*stage{s}, harness.ManagerComponent, harness.ManagerComponent+"-2")
	s.rolled(s.runs(two))
}
