// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// world is a cluster in which jobs are decided about and agents work.
type world struct {
	t     *testing.T
	now   time.Time
	nodes []Node
	jobs  map[string]*v1beta1.ImagePullJob
	// pulls counts, by node, the runs that an agent has begun.
	pulls   map[string]int
	version int
	events  []string
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), jobs: map[string]*v1beta1.ImagePullJob{}, pulls: map[string]int{}}
	for range nodes {
		w.addNode()
	}
	return w
}

func (w *world) addNode() *Node {
	name := fmt.Sprintf("n%03d", len(w.nodes))
	w.nodes = append(w.nodes, Node{Name: name, Ready: true, Labels: map[string]string{"zone": strconv.Itoa(len(w.nodes) % 2)}, Image: &v1beta1.NodeImage{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
	}})
	return &w.nodes[len(w.nodes)-1]
}

func (w *world) node(name string) *Node {
	i := slices.IndexFunc(w.nodes, func(n Node) bool { return n.Name == name })
	return &w.nodes[i]
}

// addJob adds a job for an image, with a parallelism, changed by change.
func (w *world) addJob(name, image string, parallelism int, change func(*v1beta1.ImagePullJobSpec)) *v1beta1.ImagePullJob {
	p := intstr.FromInt(parallelism)
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "jobs", UID: types.UID("uid-" + name)}, Spec: v1beta1.ImagePullJobSpec{
		Image: image, Parallelism: &p, ImagePullPolicy: v1beta1.PullIfNotPresent, CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.CompletionAlways},
	}}
	if change != nil {
		change(&job.Spec)
	}
	w.jobs[name] = job
	return job
}

// decide makes one pass for a job, with edits made as the API server would make them.
func (w *world) decide(job *v1beta1.ImagePullJob, more func(*Snapshot)) Plan {
	w.t.Helper()
	s := Snapshot{Now: w.now, Job: job, Nodes: w.nodes}
	if more != nil {
		more(&s)
	}
	before := fmt.Sprintf("%+v", w.nodes)
	plan := Decide(s)
	if fmt.Sprintf("%+v", w.nodes) != before {
		w.t.Fatal("Decide has changed its snapshot")
	}
	for i := range plan.Edits {
		w.apply(&plan.Edits[i])
	}
	job.Status = plan.Status
	for _, e := range plan.Events {
		w.events = append(w.events, e.Reason+": "+e.Message)
	}
	return plan
}

// apply makes an edit, by its patch.
func (w *world) apply(e *Edit) {
	w.t.Helper()
	n := w.node(e.Node)
	if e.ResourceVersion != n.Image.ResourceVersion {
		w.t.Fatalf("the edit of %s is for version %s, and there is %s", e.Node, e.ResourceVersion, n.Image.ResourceVersion)
	}
	data, err := e.Patch()
	if err != nil {
		w.t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		w.t.Fatal(err)
	}
	old, err := json.Marshal(n.Image)
	if err != nil {
		w.t.Fatal(err)
	}
	patched, err := patch.Apply(old)
	if err != nil {
		w.t.Fatalf("%s: %v", data, err)
	}
	image := &v1beta1.NodeImage{}
	if err := json.Unmarshal(patched, image); err != nil {
		w.t.Fatal(err)
	}
	again, err := json.Marshal(e.Apply(n.Image.Spec))
	if err != nil {
		w.t.Fatal(err)
	}
	if got, err := json.Marshal(image.Spec); err != nil || len(image.Spec.Images) > 0 && string(got) != string(again) {
		w.t.Fatalf("the patch leads to %s, and Apply to %s: %v", got, again, err)
	}
	w.store(n, image)
}

func (w *world) store(n *Node, image *v1beta1.NodeImage) {
	w.version++
	image.ResourceVersion = strconv.Itoa(w.version + 1)
	n.Image = image
}

// report is an agent's report about a tag, in the version that is asked for.
func (w *world) report(n *Node, name, tag string, phase v1beta1.ImagePullPhase) {
	image := n.Image.DeepCopy()
	spec := image.Spec.Images[name]
	i := findTag(&spec, tag)
	if i < 0 {
		w.t.Fatalf("%s is not asked for %s:%s", n.Name, name, tag)
	}
	now := metav1.NewTime(w.now)
	s := v1beta1.ImageTagStatus{Tag: tag, Phase: phase, Version: spec.Tags[i].Version, StartTime: &now}
	if final(&s) {
		s.CompletionTime = &now
	}
	if phase == v1beta1.ImagePhaseFailed {
		s.Message = "no such image"
	}
	setTag(&image.Status, name, s)
	w.store(n, image)
}

// reportOther is an agent's report about a pull that another job has ordered.
func (w *world) reportOther(n *Node, phase v1beta1.ImagePullPhase) {
	w.decide(w.addJob("other", "other:1", 1, nil), nil)
	w.report(n, "other", "1", phase)
}

// work lets the agent of a node do one step.
func (w *world) work(n *Node, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(n.Image.Spec.Images)) {
		for _, tag := range n.Image.Spec.Images[name].Tags {
			switch s := tagStatus(&n.Image.Status, name, tag.Tag); {
			case s == nil || s.Version != tag.Version:
				w.pulls[n.Name]++
				w.report(n, name, tag.Tag, v1beta1.ImagePhasePulling)
			case s.Phase == v1beta1.ImagePhasePulling && ok:
				w.report(n, name, tag.Tag, v1beta1.ImagePhaseSucceeded)
			case s.Phase == v1beta1.ImagePhasePulling:
				w.report(n, name, tag.Tag, v1beta1.ImagePhaseFailed)
			}
		}
	}
}

// sweep makes one pass for a NodeImage.
func (w *world) sweep(n *Node) Swept {
	s := Sweep{Now: w.now, Image: n.Image, Ready: n.Ready, Owner: w.ownerState}
	swept := s.Run()
	if swept.Edit != nil {
		w.apply(swept.Edit)
	}
	if swept.Status != nil {
		image := n.Image.DeepCopy()
		image.Status = *swept.Status
		w.store(n, image)
	}
	return swept
}

func (w *world) ownerState(r *corev1.ObjectReference) OwnerState {
	job := w.jobs[r.Name]
	switch {
	case !IsJob(r):
		return OwnerElse
	case job == nil || job.UID != r.UID:
		return OwnerGone
	default:
		return StateOf(job)
	}
}

// activeOf counts, without the code under test, the nodes that a job has begun and that are not done.
func (w *world) activeOf(job *v1beta1.ImagePullJob) int {
	count := 0
	for _, n := range w.nodes {
		for name, image := range n.Image.Spec.Images {
			for _, tag := range image.Tags {
				mine := false
				for _, owner := range tag.OwnerReferences {
					mine = mine || owner.UID == job.UID
				}
				done := false
				for _, s := range n.Image.Status.ImageStatuses[name].Tags {
					done = done || s.Tag == tag.Tag && s.Version == tag.Version && (s.Phase == "Succeeded" || s.Phase == "Failed")
				}
				if mine && !done {
					count++
				}
			}
		}
	}
	return count
}

// TestRandomWorlds: in whatever order things happen, no job has more nodes active than it may, every job ends with every node done
// once, and nothing is left when the jobs are gone.
func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, 1+random.IntN(12))
		bad := map[string]bool{}
		for range random.IntN(3) {
			bad[w.nodes[random.IntN(len(w.nodes))].Name] = true
		}
		limits := map[string]int{}
		for i := range 1 + random.IntN(2) {
			name := "job" + strconv.Itoa(i)
			limits[name] = 1 + random.IntN(4)
			w.addJob(name, "agent:"+strconv.Itoa(i), limits[name], nil)
		}
		for step := 0; !w.ended() && step < 2000; step++ {
			w.now = w.now.Add(time.Second)
			switch name := "job" + strconv.Itoa(random.IntN(len(w.jobs))); random.IntN(3) {
			case 0:
				w.decide(w.jobs[name], nil)
			case 1:
				n := &w.nodes[random.IntN(len(w.nodes))]
				w.work(n, !bad[n.Name])
			default:
				w.sweep(&w.nodes[random.IntN(len(w.nodes))])
			}
			for name, job := range w.jobs {
				if active := w.activeOf(job); active > limits[name] {
					t.Fatalf("seed %d, step %d: %s has %d nodes active, and may have %d", seed, step, name, active, limits[name])
				}
			}
		}
		w.checkEnd(seed, bad)
	}
}

func (w *world) ended() bool {
	for _, job := range w.jobs {
		if job.Status.CompletionTime == nil {
			return false
		}
	}
	return true
}

func (w *world) checkEnd(seed uint64, bad map[string]bool) {
	w.t.Helper()
	failed := slices.Sorted(maps.Keys(bad))
	for name, job := range w.jobs {
		s := job.Status
		if s.CompletionTime == nil || int(s.Desired) != len(w.nodes) || int(s.Failed) != len(bad) || int(s.Succeeded) != len(w.nodes)-len(bad) ||
			s.Active != 0 || len(s.FailedNodes) != len(failed) || len(failed) > 0 && !reflect.DeepEqual(s.FailedNodes, failed) {
			w.t.Fatalf("seed %d: %s ended as %+v, with the bad nodes %q of %d", seed, name, s, failed, len(w.nodes))
		}
	}
	for node, count := range w.pulls {
		if count != len(w.jobs) {
			w.t.Fatalf("seed %d: %s began %d pulls for %d images", seed, node, count, len(w.jobs))
		}
	}
	clear(w.jobs)
	for i := range w.nodes {
		w.sweep(&w.nodes[i])
		if images := w.nodes[i].Image.Spec.Images; len(images) > 0 {
			w.t.Fatalf("seed %d: %s still has %v", seed, w.nodes[i].Name, images)
		}
	}
}
