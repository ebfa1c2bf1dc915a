// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"math"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/clustercache"
)

// TestForgedRevisionIsNoGuess: a leader that has seen no pod of a node gives it the committed revision, and not the newest one that a stranger has made.
func TestForgedRevisionIsNoGuess(t *testing.T) {
	w, _ := governedWorld(t)
	w.clock.Step(time.Minute)
	w.edit("img:v2")
	w.settle()
	hash := hashOf(t, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "evil"}}},
	})
	w.foreignRevision("ds-"+hash, hash, math.MaxInt64-10)
	w.settle()
	for name := range w.pods {
		w.gone(name)
	}
	w.index.DeleteSet(w.key)
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		w.index.PutNode(clustercache.Node{Name: node, RV: w.next(), Ready: true, Created: 1})
	}
	w.set.SetResourceVersion(w.next())
	w.seeSet()
	w.c.states = map[clustercache.Key]*state{}
	w.passFor(time.Minute)
	if nodes := w.images("evil"); len(nodes) > 0 {
		t.Errorf("%v run the forged revision", nodes)
	}
	if nodes := strings.Join(w.images("img:v1"), ""); nodes != "n2n3n4" {
		t.Errorf("%s run v1, want n2, n3 and n4", nodes)
	}
}
