// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestAnUndoWaitsForNoImages: what a Snapshot knows of images is about the revision of the template. A node that returns to the committed one does not wait for them.
func TestAnUndoWaitsForNoImages(t *testing.T) {
	w := canary(t, `
waves: [{name: canary, nodes: {count: 3}, soak: 10m}]
failure: {waitingReasons: [ImagePullBackOff], action: Undo}
`)
	w.fails("a", pulls)
	w.pass(time.Second)
	w.pass(time.Second)
	for i := range w.s.Nodes {
		w.s.Nodes[i].ImageWait = true
	}
	w.want("abc", v1alpha1.PhaseUndoing, "canary")
}
