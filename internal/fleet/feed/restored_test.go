// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/fleet"
)

// TestARestoreThatRaisedTheVersions: a list that is newer than a record, and has an older version of the object, shows that the storage was restored, also with
// --bump-revision.
func TestARestoreThatRaisedTheVersions(t *testing.T) {
	ready := podOf("p", "n1", "50")
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for name, handled := range map[string]bool{"with a handler": true, "without a handler": false} {
		t.Run(name, func(t *testing.T) {
			x := fleet.NewIndex(func(fleet.Key) {})
			s := newStore(nil, newPodSink(x))
			var reported []string
			if handled {
				s.older = func(object, seen, listed string) { reported = append(reported, object, seen, listed) }
			}
			x.PutNode(fleet.Node{Name: "n1", RV: "1"})
			x.PutSet(agent, new(digest(set("agent").Object)))
			if err := s.Replace([]any{podOf("p", "n1", "20")}, "30"); err != nil {
				t.Fatal(err)
			}
			if err := s.Update(ready); err != nil {
				t.Fatal(err)
			}
			// Restored from a copy of version 30; the versions continue at 1,000,000.
			if err := s.Replace([]any{podOf("p", "n1", "20")}, "1000000"); err != nil {
				t.Fatal(err)
			}
			if handled && (!slices.Equal(reported, []string{"ns/p", "50", "20"}) || s.version() != "50") {
				t.Errorf("reported %q, and the store is at %s", reported, s.version())
			}
			if !handled && (x.Ready("p") || s.version() != "1000000") {
				t.Errorf("the pod is ready: %v, which it is not; the store is at %s", x.Ready("p"), s.version())
			}
		})
	}
}
