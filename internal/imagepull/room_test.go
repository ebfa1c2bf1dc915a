// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// never is a job that stays, as those are that updates wait for.
func never(s *v1beta1.ImagePullJobSpec) { s.CompletionPolicy.Type = v1beta1.CompletionNever }

// fill has jobs in a namespace ask for as many images, and returns how many the first node was told of.
func (w *world) fill(namespace string, images int, awaited bool) int {
	before := len(w.nodes[0].Image.Spec.Images)
	for i := range images {
		w.decide(w.addFor(namespace, fmt.Sprintf("%s-%d-%d", namespace, before, i), awaited), nil)
	}
	return len(w.nodes[0].Image.Spec.Images) - before
}

// addFor adds a job in a namespace for an image with the name of the job.
func (w *world) addFor(namespace, name string, awaited bool) *v1beta1.ImagePullJob {
	job := w.addJob(name, name+":1", 1, never)
	job.Namespace = namespace
	if awaited {
		job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "set", UID: "uid-set", Controller: new(true)}}
	}
	return job
}

// TestRoomIsShared: whatever one namespace asks for, there is room for others, and for what updates wait for.
func TestRoomIsShared(t *testing.T) {
	w := newWorld(t, 1)
	for i, step := range []struct {
		namespace string
		awaited   bool
		want      int
	}{
		{"greedy", false, 112},
		{"greedy", true, 16}, // 128 together, as many as are free
		{"second", false, 48},
		{"third", true, 40},
		{"fourth", true, 20},
		{"second", true, 0},
		{"third", false, 0},
		{"greedy", true, 0},
		{"fifth", true, 10},
	} {
		if got := w.fill(step.namespace, 300, step.awaited); got != step.want {
			t.Errorf("step %d: %s gets room for %d images, want %d", i, step.namespace, got, step.want)
		}
	}
	job := w.addFor("greedy", "one-more", false)
	if w.decide(job, nil); !strings.Contains(job.Status.Message, "1 nodes have no room for the image") {
		t.Errorf("it says %q", job.Status.Message)
	}
	if image := w.nodes[0].Image; !(Claim{Namespace: "greedy"}).Room(image, "third-176-0") {
		t.Error("an image that is listed already has no room")
	}
}

// TestEndedJobsMakeRoom: where many images are listed, those of jobs that have ended go before their time, the oldest first.
func TestEndedJobsMakeRoom(t *testing.T) {
	w := newWorld(t, 1)
	n := &w.nodes[0]
	w.decide(w.addFor("jobs", "stays", false), nil)
	for i := range crowded + 2 {
		job := w.addJob(fmt.Sprint("job", i), fmt.Sprintf("image%d:1", i), 1, nil)
		w.decide(job, nil)
		w.finish(true)
		w.now = w.now.Add(time.Second)
		if i > 0 {
			w.decide(job, nil)
		}
	}
	has := func(name string) bool { _, ok := n.Image.Spec.Images[name]; return ok }
	w.sweep(n)
	if len(n.Image.Spec.Images) != crowded || !has("stays") || !has("image0") || has("image1") || has("image3") || !has("image4") {
		t.Errorf("left are %d images", len(n.Image.Spec.Images))
	}
	if out := (&Sweep{Now: w.now, Image: n.Image, Ready: true, Owner: w.ownerState}).Run(); out.Edit != nil {
		t.Errorf("then it wants %+v", out.Edit.Images)
	}
}

// TestWhatIsStillWantedStays, however crowded it is.
func TestWhatIsStillWantedStays(t *testing.T) {
	for name, state := range map[string]OwnerState{"a job that runs": OwnerBusy, "a job that looks again": OwnerDone, "somebody else": OwnerElse} {
		w := newWorld(t, 1)
		for i := range crowded + 5 {
			w.decide(w.addJob(fmt.Sprint("job", i), fmt.Sprintf("image%d:1", i), 1, nil), nil)
		}
		w.finish(true)
		s := Sweep{Now: w.now, Image: w.nodes[0].Image, Ready: true, Owner: func(*corev1.ObjectReference) OwnerState { return state }}
		if out := s.Run(); out.Edit != nil {
			t.Errorf("%s: %d images go", name, len(out.Edit.Images))
		}
	}
}
