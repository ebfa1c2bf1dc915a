// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const rollNodes = 30

// set is a daemon set of that kind, whose pods have the image.
func set(apiVersion, name, image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": "DaemonSet",
		"metadata": map[string]any{"namespace": "default", "name": name, "annotations": map[string]any{"apps.kruise.io/image-predownload-parallelism": "30"}},
		"spec": map[string]any{
			"selector":       map[string]any{"matchLabels": map[string]any{"app": name}},
			"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(5)}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}},
			},
		},
	}}
}

// stopwatch measures from the watch of pods how long each node has no ready pod of a set.
type stopwatch struct {
	mu    sync.Mutex
	ready map[string]map[string]bool // names of ready pods by node
	since map[string]time.Time       // when a node lost its last ready pod
	took  map[string]time.Duration
	image map[string]string // of the last ready pod, by node
}

func (w *world) measure(app string) *stopwatch {
	w.t.Helper()
	s := &stopwatch{ready: map[string]map[string]bool{}, since: map[string]time.Time{}, took: map[string]time.Duration{}, image: map[string]string{}}
	watching, err := w.Watch(w.t.Context(), &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"app": app})
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watching.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Bookmark && p.Spec.NodeName != "" {
				s.see(p, e.Type == watch.Deleted)
			}
		}
	}()
	w.t.Cleanup(func() { watching.Stop(); <-done })
	return s
}

func (s *stopwatch) see(p *corev1.Pod, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := p.Spec.NodeName
	if s.ready[node] == nil {
		s.ready[node] = map[string]bool{}
	}
	had := len(s.ready[node]) > 0
	delete(s.ready[node], p.Name)
	if !deleted && p.DeletionTimestamp == nil && isReady(p) {
		s.ready[node][p.Name] = true
		s.image[node] = p.Spec.Containers[0].Image
	}
	switch has := len(s.ready[node]) > 0; {
	case had && !has:
		s.since[node] = time.Now()
	case !had && has && !s.since[node].IsZero():
		s.took[node] += time.Since(s.since[node])
	}
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// all waits until the last ready pod of every node has the image, and returns the times without one, the longest first.
func (s *stopwatch) all(t *testing.T, image string) []time.Duration {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		count := 0
		for node := range s.ready {
			if len(s.ready[node]) > 0 && s.image[node] == image {
				count++
			}
		}
		took := slices.SortedFunc(maps.Values(s.took), func(a, b time.Duration) int { return cmp.Compare(b, a) })
		s.mu.Unlock()
		if count == rollNodes {
			return took
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%d of %d nodes have %s", count, rollNodes, image)
		}
	}
}

// patch changes a set.
func (w *world) patch(obj *unstructured.Unstructured, patch string) {
	w.t.Helper()
	if err := w.Patch(w.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// TestRollWithImagesAhead: the same roll of a native DaemonSet, which pulls each image after the old pod has gone, and of an
// Advanced DaemonSet, whose images are there before. The pull disappears from the time in which nodes have no ready pod.
func TestRollWithImagesAhead(t *testing.T) {
	w := newWorld(t, rollNodes)
	plain, ahead := set("apps/v1", "plain", "plain:1"), set("apps.kruise.io/v1beta1", "ahead", "ahead:1")
	ofPlain, ofAhead := w.measure("plain"), w.measure("ahead")
	for _, obj := range []*unstructured.Unstructured{plain, ahead} {
		if err := w.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	ofPlain.all(t, "plain:1")
	ofAhead.all(t, "ahead:1")
	const template = `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`
	w.patch(plain, template+`plain:2"}]}}}}`)
	without := ofPlain.all(t, "plain:2")
	// The update begins when the images are there: pausing it until then is what a person does without an annotation for that.
	w.patch(ahead, `{"spec":{"updateStrategy":{"rollingUpdate":{"paused":true}}}}`)
	w.patch(ahead, template+`ahead:2"}]}}}}`)
	w.waitForJob(ahead)
	w.patch(ahead, `{"spec":{"updateStrategy":{"rollingUpdate":{"paused":false}}}}`)
	with := ofAhead.all(t, "ahead:2")
	t.Logf("nodes without a ready pod: for %s to %s without images ahead, for %s to %s with them", last(without), without[0], last(with), with[0])
	if len(without) != rollNodes || len(with) != rollNodes {
		t.Fatalf("measured %d and %d nodes", len(without), len(with))
	}
	if gain := without[rollNodes/2] - with[rollNodes/2]; gain < pullTime/2 {
		t.Errorf("the middle of them gained %s, and a pull takes %s", gain, pullTime)
	}
	await(t, w, jobList(), "the jobs to go after the roll", func(l *unstructured.UnstructuredList) bool { return len(l.Items) == 0 })
}

func last(d []time.Duration) time.Duration { return d[len(d)-1] }

func jobList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apps.kruise.io/v1beta1")
	list.SetKind("ImagePullJobList")
	return list
}

// waitForJob waits until the only job, which the set owns, has ended well.
func (w *world) waitForJob(owner *unstructured.Unstructured) {
	w.t.Helper()
	await(w.t, w, jobList(), "the job of the roll", func(l *unstructured.UnstructuredList) bool {
		if len(l.Items) != 1 || !metav1.IsControlledBy(&l.Items[0], owner) {
			return false
		}
		succeeded, _, _ := unstructured.NestedInt64(l.Items[0].Object, "status", "succeeded")
		return succeeded == rollNodes
	})
}
