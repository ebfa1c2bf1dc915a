// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod can wait for an init container, and its image can be the one that was changed: both the pod and the template are shown with them.
func TestInitContainers(t *testing.T) {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "prepare", Image: "prepare:2"}}, Containers: []corev1.Container{{Name: "agent", Image: "agent:2"}}},
		Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "prepare", RestartCount: 3, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
		}}}},
	}
	of := podOf(pod, &metav1.OwnerReference{}).Containers
	if want := (podStatus{container: container{"prepare", "prepare:2", true}, Restarts: 3, State: "waiting: CrashLoopBackOff"}); len(of) != 2 || of[0] != want || of[1].Init {
		t.Errorf("the pod has %+v", of)
	}
	list := func(name string) []any { return []any{map[string]any{"name": name, "image": name + ":2"}} }
	var d details
	d.take(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"initContainers": list("prepare"), "containers": list("agent")}}}})
	if len(d.Containers) != 2 || d.Containers[0] != (container{"agent", "agent:2", false}) || d.Containers[1] != (container{"prepare", "prepare:2", true}) {
		t.Errorf("the template has %+v", d.Containers)
	}
}
