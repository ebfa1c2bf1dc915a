// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise/pub"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

const hold = "example.io/hold"

// hooked gives the set a hook by a label and by a finalizer.
func hooked(spec *v1beta1.DaemonSetSpec) {
	spec.Lifecycle = &pub.Lifecycle{PreDelete: &pub.LifecycleHook{LabelsHandler: map[string]string{hold: "yes"}, FinalizersHandler: []string{hold}}}
}

func (s *tale) label(name, value string) *tale {
	s.change(name, func(pod *corev1.Pod) { pod.Labels[hold] = value })
	return s
}

// TestHooks: no pod is deleted that its hook has not released.
func TestHooks(t *testing.T) {
	begin := func() *tale { return newTale(t, 2, plain).edit(hooked).observed("b") }
	waiting := func() *tale { return begin().label("a0", "yes").prepare("a0") }
	wantInvariants(t, waiting().remove("a0").judge(), Hook)
	wantInvariants(t, waiting().label("a0", "no").remove("a0").judge())
	wantInvariants(t, waiting().excuse("a0").remove("a0").judge())
	// A version of the set that has no hook any more may be acted on as soon as it is there.
	wantInvariants(t, waiting().edit(func(spec *v1beta1.DaemonSetSpec) { spec.Lifecycle = nil }).remove("a0").judge())

	atOnce := waiting()
	atOnce.gone("a0")
	wantInvariants(t, atOnce.judge(), Hook)

	nodeless := waiting()
	nodeless.add(watch.Deleted, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}})
	wantInvariants(t, nodeless.remove("a0").judge())

	finalized := begin()
	finalized.change("a0", func(pod *corev1.Pod) { pod.Finalizers = []string{hold} })
	wantInvariants(t, finalized.remove("a0").judge(), Hook)
}
