// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
)

// TestScaledToZero: a manager that is stopped while its Deployment is scaled to zero leaves no pod out of service: not one that waits for its grace period, nor one
// that waits for its preDelete hook. It starts no update, and the next manager finishes the rollouts.
func TestScaledToZero(t *testing.T) {
	c := cluster(t)
	const own = "everynode-manager" // the manager may read no other
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: everynode.Namespace, Name: own},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Paused: true, // the process of the test stands for its pods
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": own}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": own}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: one}}},
			},
		},
	}
	deployments := c.Client.AppsV1().Deployments(everynode.Namespace)
	if _, err := deployments.Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deployments.Delete(t.Context(), deployment.Name, metav1.DeleteOptions{}) })
	manager := c.RunInstead(t, harness.ManagerComponent, "--deployment="+deployment.Name)

	changing, leaving := newStage(t, c, 3), newStage(t, c, 3)
	const graced = `metadata: {annotations: {everynode.dev/in-place-grace-seconds: "%d"}}`
	changing.run(rolling(inPlace), fmt.Sprintf(graced, 600))
	leaving.run(hooked, "spec: {lifecycle: {preDelete: {markPodNotReady: true}}}")
	pods := changing.uids()
	old := leaving.pod(leaving.sorted()[2])
	changing.apply(withImage(two))
	leaving.apply(withImage(two))
	changing.Wait("a pod waits for its grace period", func(v harness.View) error {
		for _, pod := range v.Pods(name) {
			if gateClosed(pod, kruise.InPlaceUpdateReady) && !harness.Ready(pod) {
				return nil
			}
		}
		return fmt.Errorf("no gate is closed")
	})
	leaving.Wait("a pod waits for its hook", func(v harness.View) error {
		for _, pod := range v.Pods(name) {
			if pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete && !harness.Ready(pod) {
				old = pod
				return nil
			}
		}
		return fmt.Errorf("no pod is prepared")
	})

	manager.Terminate(t)

	serves := func(v harness.View) error {
		for _, pod := range v.Pods(name) {
			if !harness.Ready(pod) || gateClosed(pod, kruise.InPlaceUpdateReady) || gateClosed(pod, kruise.KruisePodReady) || imageOf(pod) != one {
				return fmt.Errorf("pod %s with image %s is left out of service", pod.Name, imageOf(pod))
			}
		}
		return nil
	}
	changing.Wait("all pods serve without a manager", serves)
	leaving.Wait("all pods serve without a manager", serves, leaving.lives(old))
	changing.samePods(pods)
	if log := manager.Log(); !strings.Contains(log, "Nothing is under way any more") || strings.Contains(log, "Stopping before this has ended") {
		t.Errorf("its log says\n%s", log)
	}

	c.StartComponent(t, harness.ManagerComponent)
	changing.apply(fmt.Sprintf(graced, 0))
	changing.rolled(changing.runs(two))
	leaving.merge("spec: {lifecycle: null}")
	leaving.apply()
	leaving.rolled(leaving.runs(two))
	changing.finish()
	leaving.finish()
}
