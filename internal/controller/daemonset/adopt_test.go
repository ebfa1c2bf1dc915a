// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Pods without an owner and without a node whose adoption is refused hold nothing up, however many they are.
func TestManyPodsThatCannotBeAdoptedHoldNothingUp(t *testing.T) {
	for _, count := range []int{250, 251} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			w := newWorld(t, 3, nil)
			w.settle()
			for i := range count {
				w.addPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("orphan-%03d", i), Labels: map[string]string{"app": "x"}}})
			}
			w.before = func(verb, name string) error {
				if verb == "patch" && strings.HasPrefix(name, "orphan-") {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("ValidatingAdmissionPolicy 'p' denied request"))
				}
				return nil
			}
			w.join("joined")
			for range 300 {
				_ = w.pass()
				w.clock.Step(time.Second)
			}
			if got := len(w.pods) - count; got != 4 {
				t.Errorf("%d pods of the set, want 4: the node that has joined has none", got)
			}
		})
	}
}
