// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/clustercache"
)

// Each change of the first pod is answered with a conflict, as when another client changes it all the time: the others are updated, and it follows when that
// has ended.
func TestAPodWithConflictsHoldsUpNoOther(t *testing.T) {
	for _, verb := range []string{"patch", "patch-status"} {
		t.Run(verb, func(t *testing.T) {
			a := newAdvanced(t, 5, inPlace)
			if verb == "patch" {
				a.gateOpen()
			}
			a.settle()
			first := ""
			for name, p := range a.pods {
				if rec, _ := clustercache.PodFrom(p); rec.Node == "n5" {
					first = name
				}
			}
			a.before = func(v, name string) error {
				if v != verb || name != first {
					return nil
				}
				return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New("the object has been modified"))
			}
			a.image("img:v2")
			for range 60 {
				a.deliver()
				_ = a.pass()
				a.kubelets()
				a.clock.Step(time.Second)
			}
			if got := len(a.images("img:v2")); got != 4 {
				t.Errorf("%d pods have the new image, want all but the one with conflicts", got)
			}
			if tries := len(a.wrote(verb)); tries > 30 {
				t.Errorf("%d writes", tries)
			}
			a.before = nil
			a.clock.Step(5 * time.Minute)
			a.settle()
			if got := len(a.images("img:v2")); got != 5 {
				t.Errorf("%d pods have the new image in the end", got)
			}
		})
	}
}
