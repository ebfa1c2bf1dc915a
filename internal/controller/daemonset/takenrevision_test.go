// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/clustercache"
)

// TestTheRevisionOfAnEarlierLifeHasTheName: the garbage collector has not deleted it yet, while the set has adopted the pods with its hash. The set needs a revision with
// that hash, or they would be replaced for a template that was not changed.
func TestTheRevisionOfAnEarlierLifeHasTheName(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.settle()
	for _, pod := range w.pods {
		delete(pod.Labels, "pod-template-generation") // the set counts its templates from 1 again
		w.changed(pod)
	}
	earlier := w.currentRevision()
	earlier.OwnerReferences[0].UID = "earlier"
	earlier.ResourceVersion = w.next()
	w.seeRevision(earlier)
	w.c.states = map[clustercache.Key]*state{}
	w.forgetLog()
	_ = w.passesFor(5 * time.Second)
	delete(w.revisions, earlier.Name)
	w.index.DropRevision(earlier.UID)
	w.c.states = map[clustercache.Key]*state{}
	_ = w.passesFor(time.Minute)
	if deleted := w.wrote("delete"); len(deleted) > 0 || len(w.pods) != 3 || w.status("updatedNumberScheduled") != 3 {
		t.Errorf("deletes %v, %d pods, %d of them updated", deleted, len(w.pods), w.status("updatedNumberScheduled"))
	}
}
