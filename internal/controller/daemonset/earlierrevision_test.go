// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"bytes"
	"testing"

	"everynode.dev/everynode/internal/revision"
)

// TestARevisionOfAnEarlierVersionCanBeWrittenAgain: Everynode before 24 November 2026 wrote the revisions of Advanced DaemonSets without the time that OpenKruise
// writes, and the data of a revision cannot be changed. An administrator who deletes it before a hand-back gets it as OpenKruise compares it, and no pod
// restarts (docs/migration.md).
func TestARevisionOfAnEarlierVersionCanBeWrittenAgain(t *testing.T) {
	a := newAdvanced(t, 2, standard)
	a.settle()
	template := a.set.Object["spec"].(map[string]any)["template"].(map[string]any)
	earlier, err := revision.Data(template)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.revisions {
		r.Data.Raw, r.ResourceVersion = earlier, a.next()
		a.seeRevision(r)
	}
	a.settle()
	a.forgetLog()
	for name, r := range a.revisions {
		delete(a.revisions, name)
		a.index.DropRevision(r.UID)
	}
	a.settle()
	want, err := revision.DataOfOpenKruise(template)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.revisions) != 1 {
		t.Fatalf("%d revisions", len(a.revisions))
	}
	for _, r := range a.revisions {
		if !bytes.Equal(r.Data.Raw, want) {
			t.Errorf("got\n%s\nwant\n%s", r.Data.Raw, want)
		}
	}
	if deleted := a.wrote("delete"); len(deleted) > 0 {
		t.Errorf("restarted %v", deleted)
	}
}
