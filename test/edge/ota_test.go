// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

type daemonSet = appsv1.DaemonSet

const otaNodes = 12

// tellsPods: each pod says whether there is a newer revision, whatever happens to it and to the template.
func tellsPods(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, otaNodes)
	s.Run(set, harness.WithOnDelete, harness.WithAnnotation(strategyKey, ota))
	s.Wait("all are up to date", told("False", otaNodes))

	s.Update(set, harness.WithImage(harness.Image2))
	s.Wait("all are old", told("True", otaNodes))
	before := harness.UIDs(s.View().Pods(set))

	s.Kubectl("rollout", "undo", "daemonset/"+set)
	s.Wait("the template is that of before", told("False", otaNodes))
	s.Update(set, harness.WithImage(harness.Image2))
	s.Wait("all are old again", told("True", otaNodes))
	if after := harness.UIDs(s.View().Pods(set)); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("pods before %v, after %v: OTA deletes none", before, after)
	}

	deletePod(t, s, s.View().PodOn(set, s.Nodes[0]))
	s.Wait("one is updated by its owner", told("False", 1), told("True", otaNodes-1), runs(harness.Image2, s.Nodes[:1]))

	s.Kubectl("delete", "daemonset", set, "--cascade=orphan")
	s.Wait("the pods are orphans", orphans(otaNodes))
	s.Create(set, harness.WithOnDelete, harness.WithAnnotation(strategyKey, ota), harness.WithImage(harness.Image2))
	s.Wait("the pods are adopted", told("False", 1), told("True", otaNodes-1))
	s.Update(set, harness.WithImage(harness.Image3))
	s.Wait("what is adopted is told as well", told("True", otaNodes))

	s.Update(set, harness.WithAnnotation(strategyKey, ""))
	s.Wait("nothing is asked any more", told("", otaNodes))
	if pod := s.View().AllPods()[0]; condition(pod, corev1.PodReady) == nil || condition(pod, "PodImageReady") != nil {
		t.Errorf("conditions of pod %s: %+v", pod.Name, pod.Status.Conditions)
	}
}

// values: what cannot be honoured is told in an event and a condition; nothing is deleted, and all else goes on.
func values(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, 4)
	s.Run(set, harness.WithOnDelete)
	before := harness.UIDs(s.View().Pods(set))
	for i, wrong := range []struct {
		strategy, limit, blame string
		says                   string
	}{
		{strategy: "Rolling", says: "set it to AdvancedRollingUpdate or OTA"},
		{strategy: advanced, limit: "0", says: "a percentage from 1% to 100%"},
		{strategy: advanced, limit: "0%", says: "a percentage from 1% to 100%"},
		{strategy: advanced, limit: "ten", says: "a percentage from 1% to 100%"},
		{strategy: advanced, limit: "150%", says: "a percentage from 1% to 100%"},
		{strategy: advanced, blame: "soon", says: "a duration such as 10m"},
	} {
		s.Update(set, harness.WithOnDelete, harness.WithAnnotation(strategyKey, wrong.strategy), harness.WithAnnotation(limitKey, wrong.limit),
			harness.WithAnnotation(blameKey, wrong.blame), harness.WithImage(fmt.Sprintf("registry.example/daemon:%d", i+10)))
		s.Wait("it is told what is wrong", degraded(wrong.says), tells(wrong.says))
	}
	if after := harness.UIDs(s.View().Pods(set)); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("pods before %v, after %v: nothing may be deleted", before, after)
	}
	s.Update(set, harness.WithAnnotation(blameKey, ""), harness.WithAnnotation(limitKey, "50%"), harness.WithImage(harness.Image2))
	s.Wait("it is mended", degraded(""), runs(harness.Image2, s.Nodes), ready(4))

	if c.Controller == harness.Everynode {
		// Beside upstream the pods are updated by that, with nothing of ours to see.
		s.Update(set, harness.WithBudget("1", "0"), harness.WithImage(harness.Image3))
		s.Wait("the annotation is ignored, and the roll goes on", degraded("goes with spec.updateStrategy.type OnDelete only"), runs(harness.Image3, s.Nodes), ready(4))
	}
	s.Update(set, harness.WithAnnotation(strategyKey, ""), harness.WithBudget("1", "0"), harness.WithImage(harness.Image3))
	s.Wait("without the annotation it is a set like any other", degraded(""), runs(harness.Image3, s.Nodes), ready(4))
}

// told is met when that many pods say that, about the newest revision.
func told(status string, count int) harness.Condition {
	return func(v harness.View) error {
		revisions := v.Revisions()
		newest := revisions[len(revisions)-1].Labels[appsv1.ControllerRevisionHashLabelKey]
		want, have := status, 0
		if status != "" {
			want += " controllerrevision: " + newest
		}
		for _, pod := range v.Pods(set) {
			if says(pod) == want {
				have++
			}
		}
		if have != count {
			return fmt.Errorf("%d pods say %q, want %d", have, want, count)
		}
		return nil
	}
}

// says is what a pod says of whether there is a newer revision.
func says(pod *corev1.Pod) string {
	if c := condition(pod, "PodNeedUpgrade"); c != nil {
		return string(c.Status) + " " + c.Message
	}
	return ""
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// degraded is met when the set's condition Degraded says that, or is not there if that is empty.
func degraded(text string) harness.Condition {
	return func(v harness.View) error {
		message := ""
		for _, c := range v.Set(set).Status.Conditions {
			if c.Type == "Degraded" {
				message = c.Message
			}
		}
		if text == "" && message != "" || !strings.Contains(message, text) {
			return fmt.Errorf("condition Degraded says %q, want %q", message, text)
		}
		return nil
	}
}

// tells is met when an event about the set says that.
func tells(text string) harness.Condition {
	return func(v harness.View) error {
		for _, event := range v.Events(set) {
			if event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no event says %q", text)
	}
}

func orphans(count int) harness.Condition {
	return func(v harness.View) error {
		pods := v.AllPods()
		if len(pods) != count {
			return fmt.Errorf("%d pods, want %d", len(pods), count)
		}
		for _, pod := range pods {
			if metav1.GetControllerOf(pod) != nil {
				return fmt.Errorf("pod %s has a controller", pod.Name)
			}
		}
		return nil
	}
}

func deletePod(t *testing.T, s *harness.Space, pod *corev1.Pod) {
	t.Helper()
	if err := s.Cluster.Client.CoreV1().Pods(s.Name).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
