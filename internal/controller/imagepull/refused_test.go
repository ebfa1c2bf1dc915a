// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// A node whose NodeImage cannot be changed, for whatever its agent has written there, holds up nobody else, and is named.
func TestANodeThatCannotBeToldHoldsUpNobody(t *testing.T) {
	for _, parallelism := range []int{1, 2} {
		job := newJob("default", "pull", parallelism)
		w := newWorld(t, append(append(node("a"), node("b")...), job)...)
		w.patchErr = func(name string) (error, bool) {
			if name == "a" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "NodeImage"}, name, nil), false
			}
			return nil, false
		}
		for range 5 {
			_, err := w.pass(job)
			if parallelism == 2 && err == nil {
				t.Error("what was refused is not tried again with a growing delay")
			}
		}
		w.report("b", v1beta1.ImagePhaseSucceeded)
		for range 3 {
			_, _ = w.pass(job)
			w.clock.Step(statusInterval)
		}
		s := read(w, job).Status
		if !w.c.Refused(job.UID, "a") || w.c.Refused(job.UID, "b") || w.c.Refused("another", "a") {
			t.Error("it is not known who was refused")
		}
		if s.Succeeded != 1 || s.Active != 0 || !strings.Contains(s.Message, "the node image of a cannot be changed: ") {
			t.Errorf("parallelism %d: %+v", parallelism, s)
		}
		w.patchErr = nil
		_, _ = w.pass(job)
		w.report("a", v1beta1.ImagePhaseSucceeded)
		for range 3 {
			_, _ = w.pass(job)
			w.clock.Step(statusInterval)
		}
		if s := read(w, job).Status; s.Succeeded != 2 {
			t.Errorf("parallelism %d, when it can be told again: %+v", parallelism, s)
		}
	}
}
