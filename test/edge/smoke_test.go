// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"testing"

	"everynode.dev/everynode/test/harness"
)

const smokeNodes = 8

// TestSmoke is a roll with a node that is cut, and pods that are told, as an external set of upstream's controller.
func TestSmoke(t *testing.T) {
	c := site(t, harness.Native, smokeNodes)
	s := c.Space(t, smokeNodes)
	s.Run(set, harness.WithOnDelete, rolls("50%"))
	away := s.Nodes[:1]
	cut(s, away)
	s.Wait("one node is not ready", nodesAre(false, away))
	s.Update(set, harness.WithImage(harness.Image2))
	s.Wait("the roll ends on the rest", runs(harness.Image2, s.Nodes[1:]), runs(harness.Image, away))
	heal(s, away)
	s.Wait("the node comes back and follows", runs(harness.Image2, s.Nodes), ready(smokeNodes))

	s.Update(set, harness.WithAnnotation(strategyKey, ota))
	s.Wait("all pods are up to date", told("False", smokeNodes))
	s.Update(set, harness.WithImage(harness.Image3))
	s.Wait("all pods are old", told("True", smokeNodes))
	s.Update(set, harness.WithAnnotation(strategyKey, "never"))
	s.Wait("it is told what is wrong", degraded("set it to AdvancedRollingUpdate or OTA"), told("", smokeNodes))
}
