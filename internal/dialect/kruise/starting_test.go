// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
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

// TestAContainerThatHasEndedForGood gets another image: the kubelet does not start it, so the pod is recreated. One that ends after the patch is being replaced.
func TestAContainerThatHasEndedForGood(t *testing.T) {
	policy := func(of corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicy, p.Spec.Containers[0].RestartPolicyRules = &of, rules
		}
	}
	ended := func(code int32, second int) func(p *corev1.Pod) {
		return status(func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(after(second))}}
		})
	}
	for name, c := range map[string]struct {
		policy, ended func(p *corev1.Pod)
		want          rollout.Detail
	}{
		"never":                        {policy(corev1.ContainerRestartPolicyNever), ended(1, 1), rollout.DetailRestart},
		"on failure, and it has not":   {policy(corev1.ContainerRestartPolicyOnFailure), ended(0, 1), rollout.DetailRestart},
		"on failure, and it has":       {policy(corev1.ContainerRestartPolicyOnFailure), ended(1, 1), rollout.NoDetail},
		"never, and rules of its own":  {policy(corev1.ContainerRestartPolicyNever, corev1.ContainerRestartRule{}), ended(1, 1), rollout.NoDetail},
		"always":                       {policy(corev1.ContainerRestartPolicyAlways), ended(1, 1), rollout.NoDetail},
		"never, stopped for the image": {policy(corev1.ContainerRestartPolicyNever), ended(1, 9), rollout.NoDetail},
	} {
		p := pod(gateless, c.policy)
		p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(5)))
		c.ended(p)
		if f := kruise.Facts(p); f.InPlace != rollout.InPlacePatched || f.Stuck != c.want {
			t.Errorf("%s: %s, stuck %q, want %q", name, f.InPlace, f.Stuck, c.want)
		}
	}
}
