// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestBeforeUninstallWithAHook: a pod that waits for its hook, or was made a moment ago, with the gate KruisePodReady closed stays out of service without a manager.
func TestBeforeUninstallWithAHook(t *testing.T) {
	for name, closed := range map[string]bool{"waits for its hook": true, "never opened": false} {
		t.Run(name, func(t *testing.T) {
			set, pods := rolling("agent", 3, map[string]any{"rollingUpdateType": "Standard"})
			set.Object["spec"].(map[string]any)["lifecycle"] = map[string]any{"preDelete": map[string]any{
				"labelsHandler": map[string]any{"block": "true"}, "markPodNotReady": true,
			}}
			for _, p := range pods {
				p.Labels["block"] = "true"
				p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "KruisePodReady"})
				if p != pods[0] {
					p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "KruisePodReady", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(fakecluster.Now())})
				}
			}
			if closed {
				pods[0].Labels["lifecycle.apps.kruise.io/state"] = "PreparingDelete"
				pods[0].Status.Conditions = append(pods[0].Status.Conditions, corev1.PodCondition{
					Type: "KruisePodReady", Status: corev1.ConditionFalse, Message: `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`, LastTransitionTime: metav1.NewTime(fakecluster.Now()),
				})
			}
			objects := append(healthy(t).objects(), set)
			for _, pod := range pods {
				objects = append(objects, pod)
			}
			cluster := fakecluster.New(t, objects...)
			if err := cluster.Run(t, doctor.New, "--before-uninstall"); err == nil {
				t.Errorf("pod %s is out of service, and doctor says\n%s", pods[0].Name, cluster.Out.String())
			}
		})
	}
}
