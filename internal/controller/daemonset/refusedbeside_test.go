// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAConflictBesideARefusal: a broken pod changes just before its delete, which names a version. It is deleted at once in the next pass, also where the delete
// of another pod is refused.
func TestAConflictBesideARefusal(t *testing.T) {
	for name, refused := range map[string]bool{"no refusal": false, "a refusal": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			w.settle()
			var names []string
			for name, p := range w.pods {
				names = append(names, name)
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
				w.changed(p)
			}
			slices.Sort(names)
			moved, conflicts := names[1], 1
			w.before = func(verb, name string) error {
				switch {
				case verb == "delete" && name != moved && refused:
					return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("a policy protects it"))
				case verb == "delete" && name == moved && conflicts > 0:
					conflicts--
					w.pods[name].ResourceVersion = w.next() // an annotation, of which no watch has brought news
				}
				return nil
			}
			w.edit("img:v2")
			after, _ := w.c.Reconcile(context.Background(), w.key)
			if conflicts != 0 || w.pods[moved] == nil || after <= 0 || after > 100*time.Millisecond {
				t.Fatalf("%d conflicts left, the next pass after %v", conflicts, after)
			}
			w.clock.Step(after)
			_, _ = w.c.Reconcile(context.Background(), w.key)
			if p := w.pods[moved]; p != nil && p.DeletionTimestamp == nil {
				t.Errorf("%s was not deleted; requests: %v", moved, w.log)
			}
		})
	}
}
