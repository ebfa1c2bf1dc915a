// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/dialect/kruise"
)

// TestAReaderThatDoesNotRun: what it reads in its environment is not known before it runs, except where the agent compares that after a restart.
func TestAReaderThatDoesNotRun(t *testing.T) {
	reads := func(path string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}}
		}
	}
	ended := status(func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	})
	none := func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }
	asked := func(p *corev1.Pod) {
		*p = *apply(t, p, kruise.Edits{}.Patch(p, restart(t, "a:1", "a:1", later, "new"), after(1)))
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"no status yet":                  {pod(reads("metadata.labels['tier']"), none), true},
		"ended":                          {pod(reads("metadata.annotations['tier']"), ended), true},
		"running":                        {pod(reads("metadata.labels['tier']")), false},
		"reads the name":                 {pod(reads("metadata.name"), none), false},
		"reads nothing":                  {pod(none), false},
		"stopped by the agent":           {pod(gateless, reads("metadata.labels['tier']"), asked, ended), false},
		"ended again after that restart": {pod(gateless, reads("metadata.labels['tier']"), asked, status(func(s *corev1.ContainerStatus) { s.ContainerID = "c-2" }), ended), true},
	} {
		if got := kruise.Facts(c.pod).Starting; got != c.want {
			t.Errorf("%s: starting %t", name, got)
		}
	}
}
