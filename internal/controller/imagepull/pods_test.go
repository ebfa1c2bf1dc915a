// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// A job that follows pods begins when they have been read, and is told when they come to other nodes, until it has ended.
func TestAJobThatFollowsPods(t *testing.T) {
	job := newJob("default", "pull", 5)
	job.Spec.PodSelector = &v1beta1.ImagePullJobPodSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}}
	w := newWorld(t, append(append(node("a"), node("b")...), job)...)
	told := make(chan types.NamespacedName, 10)
	w.c.Pods.Changed = func(job types.NamespacedName) { told <- job }
	run := func(name, on string) {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "agent"}}, Spec: corev1.PodSpec{NodeName: on},
		}
		if _, err := w.pods.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wait := func() {
		t.Helper()
		select {
		case got := <-told:
			if got != (types.NamespacedName{Namespace: "default", Name: "pull"}) {
				t.Errorf("told of %v", got)
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody was told")
		}
	}
	run("one", "a")
	w.mustPass(job)
	if w.begun() != 0 || read(w, job).Status.StartTime != nil {
		t.Error("it begins before the pods are known")
	}
	wait()
	w.mustPass(job)
	if w.begun() != 1 || len(w.image("a").Spec.Images) != 1 {
		t.Errorf("%d nodes have begun", w.begun())
	}
	run("two", "b")
	wait()
	w.mustPass(job)
	if s := read(w, job).Status; w.begun() != 2 || s.Desired != 2 {
		t.Errorf("%d nodes have begun: %+v", w.begun(), s)
	}
	w.report("a", v1beta1.ImagePhaseSucceeded)
	w.report("b", v1beta1.ImagePhaseSucceeded)
	w.mustPass(job)
	if read(w, job).Status.CompletionTime == nil {
		t.Fatal("it has not ended")
	}
	w.mustPass(job)
	w.c.Pods.Wait() // or the watch goes on
}
