// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"encoding/json"
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

// TestTagsOfOneImageAreShared: however many jobs a namespace has for tags of one image, or for one tag, the NodeImage stays one that can be written, and other
// namespaces have room there.
func TestTagsOfOneImageAreShared(t *testing.T) {
	for _, c := range []struct {
		name   string
		tag    func(i int) string
		change func(s *v1beta1.ImagePullJobSpec)
	}{
		{"many tags", func(i int) string { return fmt.Sprint(strings.Repeat("v", 100), i) }, never},
		{"many owners of one tag", func(int) string { return "one" }, never},
		{"large sandboxes", func(i int) string { return fmt.Sprint(i) }, func(s *v1beta1.ImagePullJobSpec) {
			never(s)
			s.SandboxConfig = &v1beta1.SandboxConfig{Annotations: map[string]string{"a": strings.Repeat("<", 40_000)}}
		}},
	} {
		w := newWorld(t, 1)
		n := &w.nodes[0]
		ask := func(namespace string, i int) bool {
			job := w.addJob(fmt.Sprintf("%s-%s-%d", namespace, strings.Repeat("x", 200), i), fmt.Sprintf("busybox-%s:%s", namespace, c.tag(i)), 1, c.change)
			job.Namespace = namespace
			if namespace != "greedy" {
				job.Spec.SandboxConfig = nil
			}
			plan := Decide(Snapshot{Now: w.now, Job: job, Nodes: w.nodes})
			for _, edit := range plan.Edits {
				n.Image.Spec = edit.Apply(n.Image.Spec)
			}
			return len(plan.Edits) > 0
		}
		had := 0
		for i := range 400 {
			if ask("greedy", i) {
				had++
			}
		}
		for name, of := range n.Image.Spec.Images {
			report := v1beta1.ImageStatus{}
			for _, tag := range of.Tags {
				report.Tags = append(report.Tags, v1beta1.ImageTagStatus{Tag: tag.Tag, Phase: v1beta1.ImagePhaseFailed, Message: strings.Repeat("m", 1024), Version: 10})
			}
			n.Image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{name: report}
		}
		data, err := json.Marshal(n.Image)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d jobs have room, the NodeImage has %d bytes", c.name, had, len(data))
		if len(data) > mostBytes/2 {
			t.Errorf("%s: the NodeImage has %d bytes, more than one namespace may have", c.name, len(data))
		}
		for i := range 100 {
			if !ask("other", i) {
				t.Fatalf("%s: job %d of another namespace has no room", c.name, i)
			}
		}
	}
}
