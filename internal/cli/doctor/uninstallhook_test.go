// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/doctor"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// hooked is a set of three nodes that recreates pods, with a preDelete hook, and its pods, of which so many are up to date.
func hooked(updated int64, paused, marks bool) (set *unstructured.Unstructured, pods []*corev1.Pod) {
	set, pods = rolling("agent", updated, map[string]any{"rollingUpdateType": "Standard", "paused": paused})
	set.Object["spec"].(map[string]any)["lifecycle"] = map[string]any{"preDelete": map[string]any{
		"labelsHandler": map[string]any{"block": "true"}, "markPodNotReady": marks,
	}}
	for _, p := range pods {
		p.Labels["block"] = "true"
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "KruisePodReady"})
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "KruisePodReady", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(fakecluster.Now())})
	}
	return set, pods
}

// saysBeforeUninstall is what doctor says about a set and its pods.
func saysBeforeUninstall(t *testing.T, set *unstructured.Unstructured, pods []*corev1.Pod) (string, error) {
	t.Helper()
	objects := append(healthy(t).objects(), set)
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	cluster := fakecluster.New(t, objects...)
	err := cluster.Run(t, doctor.New, "--before-uninstall")
	return cluster.Out.String(), err
}

// TestBeforeUninstallInARollWithAHook: the next old pod can be prepared for the hook at any moment, and stays not ready without a manager.
func TestBeforeUninstallInARollWithAHook(t *testing.T) {
	for name, c := range map[string]struct {
		updated       int64
		paused, marks bool
		refused       bool
	}{
		"in a roll":                  {updated: 1, marks: true, refused: true},
		"at the end":                 {updated: 3, marks: true},
		"paused":                     {updated: 1, paused: true, marks: true},
		"the hook leaves pods ready": {updated: 1},
	} {
		t.Run(name, func(t *testing.T) {
			set, pods := hooked(c.updated, c.paused, c.marks)
			said, err := saysBeforeUninstall(t, set, pods)
			if (err != nil) != c.refused || c.refused != strings.Contains(said, "can prepare further pods for its preDelete hook at any moment") {
				t.Errorf("got %v, refused should be %t\n%s", err, c.refused, said)
			}
		})
	}
}

// TestBeforeUninstallWithAHook: a pod that waits for its hook, or was made a moment ago, with the gate KruisePodReady closed stays out of service without a manager.
func TestBeforeUninstallWithAHook(t *testing.T) {
	for name, closed := range map[string]bool{"waits for its hook": true, "never opened": false} {
		t.Run(name, func(t *testing.T) {
			set, pods := hooked(3, false, true)
			gates := &pods[0].Status.Conditions
			*gates = slices.DeleteFunc(*gates, func(c corev1.PodCondition) bool { return c.Type == "KruisePodReady" })
			if closed {
				pods[0].Labels["lifecycle.apps.kruise.io/state"] = "PreparingDelete"
				*gates = append(*gates, corev1.PodCondition{
					Type: "KruisePodReady", Status: corev1.ConditionFalse, Message: `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`, LastTransitionTime: metav1.NewTime(fakecluster.Now()),
				})
			}
			if said, err := saysBeforeUninstall(t, set, pods); err == nil {
				t.Errorf("pod %s is out of service, and doctor says\n%s", pods[0].Name, said)
			}
		})
	}
}
