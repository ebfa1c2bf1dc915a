// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

const nodes = 60

// start creates a job.
func (w *world) start(name, image string, parallelism int32) {
	w.t.Helper()
	p := intstr.FromInt32(parallelism)
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1beta1.ImagePullJobSpec{
		Image: image, Parallelism: &p, PullPolicy: &v1beta1.PullPolicy{BackoffLimit: new(int32(1))},
	}}
	if err := w.Create(w.t.Context(), job); err != nil {
		w.t.Fatal(err)
	}
}

// ended waits until all jobs have ended, and returns their status by name.
func (w *world) ended() map[string]v1beta1.ImagePullJobStatus {
	w.t.Helper()
	jobs := &v1beta1.ImagePullJobList{}
	await(w.t, w, jobs, "the end of all jobs", func(l *v1beta1.ImagePullJobList) bool {
		return !slices.ContainsFunc(l.Items, func(j v1beta1.ImagePullJob) bool { return j.Status.CompletionTime == nil })
	})
	status := map[string]v1beta1.ImagePullJobStatus{}
	for _, job := range jobs.Items {
		status[job.Name] = job.Status
	}
	return status
}

// TestSmoke is one job on a few nodes.
func TestSmoke(t *testing.T) {
	const few = 6
	w := newWorld(t, few)
	r := w.record()
	w.start("good", "agent:2", 2)
	if s := w.ended()["good"]; s.Desired != few || s.Succeeded != few || s.Failed != 0 {
		t.Errorf("ended as %+v", s)
	}
	if most := r.mostOf("agent"); most != 2 {
		t.Errorf("%d nodes pulled at once, and 2 may", most)
	}
}

// TestJobs: a job never has more nodes active than it may, also when the manager and the agents are killed in the middle; an image that
// cannot be pulled is reported for every node and holds nothing up.
func TestJobs(t *testing.T) {
	w := newWorld(t, nodes)
	r := w.record()
	w.start("good", "agent:2", 10)
	w.start("bad", "broken:2", 60)
	for _, component := range []string{"manager", "kwok"} {
		await(t, w, &v1beta1.ImagePullJobList{}, "progress", func(l *v1beta1.ImagePullJobList) bool {
			return slices.ContainsFunc(l.Items, func(j v1beta1.ImagePullJob) bool { return j.Name == "good" && j.Status.Succeeded >= 5 })
		})
		if err := w.plane.KillComponent(t.Context(), component); err != nil {
			t.Fatal(err)
		}
		if err := w.plane.StartComponent(t.Context(), component); err != nil {
			t.Fatal(err)
		}
	}
	ended := w.ended()
	if s := ended["good"]; s.Desired != nodes || s.Succeeded != nodes || s.Failed != 0 {
		t.Errorf("good ended as %+v", s)
	}
	if s := ended["bad"]; s.Desired != nodes || s.Failed != nodes || len(s.FailedNodes) != nodes {
		t.Errorf("bad ended as %+v", s)
	}
	if most := r.mostOf("agent"); most > 10 || most < 2 {
		t.Errorf("%d nodes pulled at once, and 10 may", most)
	}
	w.checkFailures()
	w.checkNewNode()
}

// checkFailures: every node says what it could not pull, and has the other image.
func (w *world) checkFailures() {
	w.t.Helper()
	list := &v1beta1.NodeImageList{}
	if err := w.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	for _, image := range list.Items {
		s := image.Status
		bad := s.ImageStatuses["broken"].Tags
		if s.Succeeded != 1 || s.Failed != 1 || len(bad) != 1 || bad[0].Message == "" {
			w.t.Errorf("%s reports %+v", image.Name, s)
		}
	}
}

// checkNewNode: a job of the type Never serves a node that joins after all others are done.
func (w *world) checkNewNode() {
	w.t.Helper()
	p := intstr.FromInt32(100)
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "never"}, Spec: v1beta1.ImagePullJobSpec{
		Image: "later:1", Parallelism: &p, CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.CompletionNever},
	}}
	if err := w.Create(w.t.Context(), job); err != nil {
		w.t.Fatal(err)
	}
	served := func(count int32) {
		w.t.Helper()
		await(w.t, w, &v1beta1.ImagePullJobList{}, "all nodes to be served", func(l *v1beta1.ImagePullJobList) bool {
			return slices.ContainsFunc(l.Items, func(j v1beta1.ImagePullJob) bool { return j.Name == "never" && j.Status.Succeeded == count })
		})
	}
	served(nodes)
	began := time.Now()
	if _, err := w.plane.AddNodes(w.t.Context(), 1); err != nil {
		w.t.Fatal(err)
	}
	served(nodes + 1)
	w.t.Logf("the new node had the image after %s", time.Since(began).Round(100*time.Millisecond))
}
