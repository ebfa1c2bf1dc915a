// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
)

// protectedPod: a policy protects the pod of the first node from being deleted. With a budget of one all others are updated, and it follows when the
// policy has gone.
func protectedPod(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, 7)
	s.Run(set, harness.WithOnDelete, rolls("1"))
	nodes := slices.Sorted(slices.Values(s.Nodes))
	kept := s.View().PodOn(set, nodes[0])
	remove := s.Apply(s.PodPolicy("DELETE", fmt.Sprintf("oldObject.metadata.name != '%s'", kept.Name)))
	s.InForce("this one is protected", "", "delete", "pod", kept.Name, "--dry-run=server")
	s.Update(set, harness.WithImage(harness.Image2))
	s.WaitFor(90*time.Second, "all others are updated", runs(harness.Image2, nodes[1:]), available(nodes[1:]), runs(harness.Image, nodes[:1]))
	remove()
	s.WaitFor(time.Minute, "the last one follows", runs(harness.Image2, nodes), ready(len(nodes)))
}
