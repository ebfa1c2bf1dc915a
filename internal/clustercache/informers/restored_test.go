// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/clustercache"
)

// TestARestoreThatRaisedTheVersions: a list that is newer than a record, and has an older version of the object, shows that the storage was restored, also with
// --bump-revision.
func TestARestoreThatRaisedTheVersions(t *testing.T) {
	ready := podOf("p", "n1", "50")
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for name, handled := range map[string]bool{"with a handler": true, "without a handler": false} {
		t.Run(name, func(t *testing.T) {
			x := clustercache.NewIndex(func(clustercache.Key) {})
			s := newStore(nil, newPodSink(x))
			var reported []string
			if handled {
				s.older = func(object, seen, listed string) { reported = append(reported, object, seen, listed) }
			}
			x.PutNode(clustercache.Node{Name: "n1", RV: "1"})
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

// TestARestoreBeforeAnotherStart: a guard starts the feed again when another controller has ended. What the watches before have seen counts, or pods of before
// a restore stay in the index.
func TestARestoreBeforeAnotherStart(t *testing.T) {
	for name, c := range map[string]struct {
		floor string // what the first read gives; the lists are older anyway
		want  error
	}{
		"the first read shows it": {"50", errRestored},
		"a list shows it":         {"100", context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r.cancel = cancel
				var reported []string
				r.feed.Restored = func(resource, seen, has string) {
					reported = append(reported, resource, seen, has)
					cancel() // what the manager does
				}
				r.relist("nodes", "10", node("n1"))
				r.relist("daemonsets", "10", set("agent"))
				r.relist("pods", "100", podOf("p", "n1", "99"))
				if err := r.feed.Start(ctx); err != nil {
					t.Fatal(err)
				}
				settle()
				// The storage goes back to version 50. The feed starts again before a watch has shown that.
				r.relist("pods", "50")
				r.resources["pods"].floor = c.floor
				if err := r.feed.Start(ctx); !errors.Is(err, c.want) {
					t.Errorf("it ends with %v, want %v", err, c.want)
				}
				r.stop()
				if !slices.Equal(reported, []string{"pods", "100", "50"}) {
					t.Errorf("reported %q", reported)
				}
			})
		})
	}
}
