// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
)

// blameShort is long enough for a node that is cut to be found to be not ready.
const blameShort = time.Minute

// fatalVersions: five versions in a row take down every node that they come to, with a budget of one. The first one costs one node, and the next
// one is tried on one more; the others touch none. When one of the nodes is healed, the last version, which does no harm any more, is tried there,
// and goes on to all others when it has served for the blame window.
func fatalVersions(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, 7)
	s.Run(set, harness.WithOnDelete, harness.WithMinReady(noticed), rolls("1"), harness.WithAnnotation(blameKey, blameShort.String()))
	var down []string
	for version := 1; version <= 5; version++ {
		image := fmt.Sprintf("registry.example/fatal:%d", version)
		s.Update(set, harness.WithImage(image))
		if version > 2 {
			witness(s, fmt.Sprintf("witness-%d", version))
			if have := withImage(s.View(), image); len(have) > 0 {
				t.Fatalf("version %d came to %v, and %v are down already", version, have, down)
			}
			continue
		}
		s.Wait("one node has the new version", func(v harness.View) error {
			if have := withImage(v, image); len(have) != 1 {
				return fmt.Errorf("it is on %v", have)
			}
			return nil
		})
		down = append(down, withImage(s.View(), image)...)
		cut(s, down[version-1:])
		s.Wait("the node is not ready", nodesAre(false, down))
	}
	heal(s, down[1:])
	s.WaitFor(2*patience, "the rest follows", runs("registry.example/fatal:5", s.Nodes[1:]), available(s.Nodes[1:]))
	heal(s, down[:1])
	s.WaitFor(patience, "all is well", ready(7))
}
