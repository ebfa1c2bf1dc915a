// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/localplane"
)

// The roll with waiting: its nodes, the one of them that cannot pull, and how long a node waits.
const (
	waitNodes = 12
	badNode   = "node-0003"
	waitTime  = 30 * time.Second
)

// witness sees from the watches of pods and NodeImages when nodes got the image of a set, and when its old pods were touched. One store gives
// out all versions, so they tell what was first.
type witness struct {
	name, tag string // the wanted image is name:tag
	mu        sync.Mutex
	there     map[string]string    // the version at which the NodeImage of a node first said so
	touched   map[string]string    // the version at which the old pod of a node was first deleted or changed
	deletedAt map[string]time.Time // when its deletion was asked for
	old       map[types.UID]bool   // pods that had another image
	ready     map[string]bool      // nodes with a ready pod of the wanted image
}

// witnessOf watches the roll of a set with the label app to the image name:tag, until the test ends.
func (w *world) witnessOf(app, name, tag string) *witness {
	w.t.Helper()
	s := &witness{name: name, tag: tag, there: map[string]string{}, touched: map[string]string{}, deletedAt: map[string]time.Time{}, ready: map[string]bool{}, old: map[types.UID]bool{}}
	w.t.Cleanup(w.follow(&corev1.PodList{}, s.see, client.InNamespace("default"), client.MatchingLabels{"app": app}))
	w.t.Cleanup(w.follow(&v1beta1.NodeImageList{}, s.see))
	return s
}

func (s *witness) see(e watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch obj := e.Object.(type) {
	case *v1beta1.NodeImage:
		for _, tag := range obj.Status.ImageStatuses[s.name].Tags {
			if tag.Tag == s.tag && tag.Phase == v1beta1.ImagePhaseSucceeded && s.there[obj.Name] == "" {
				s.there[obj.Name] = obj.ResourceVersion
			}
		}
	case *corev1.Pod:
		s.seePod(obj)
	}
}

func (s *witness) seePod(p *corev1.Pod) {
	wanted := p.Spec.Containers[0].Image == s.name+":"+s.tag
	node := p.Spec.NodeName
	s.ready[node] = s.ready[node] || wanted && isReady(p) && p.DeletionTimestamp == nil
	// A change in place is seen at its first step: the pod is told that it is not ready.
	marked := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == "InPlaceUpdateReady" && c.Status == corev1.ConditionFalse
	})
	inPlace := marked || wanted && s.old[p.UID]
	s.old[p.UID] = !wanted
	if s.touched[node] == "" && (p.DeletionTimestamp != nil || inPlace) {
		s.touched[node] = p.ResourceVersion
		if p.DeletionTimestamp != nil {
			s.deletedAt[node] = p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
		}
	}
}

// tooSoon are the nodes whose old pod was touched before the image was there.
func (s *witness) tooSoon() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var nodes []string
	for node, version := range s.touched {
		there := s.there[node]
		if there == "" {
			nodes = append(nodes, node)
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(there, version); err != nil || order > 0 {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// wait waits until what was seen is as wanted.
func (s *witness) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		done := ok()
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited in vain for %s: there %v, touched %v, ready %v", what, s.there, s.touched, slices.Sorted(maps.Keys(s.ready)))
		}
	}
}

// updated is on how many nodes a ready pod has the image.
func (s *witness) updated() int {
	count := 0
	for _, ready := range s.ready {
		if ready {
			count++
		}
	}
	return count
}

// waiting is a daemon set that waits for images, or not, and may be updated on all nodes at once.
func waiting(apiVersion, name, rolling string, waits bool) *unstructured.Unstructured {
	ds := set(apiVersion, name, name+":1")
	annotations := map[string]string{
		"apps.kruise.io/image-predownload-parallelism":     "5",
		"apps.kruise.io/image-predownload-timeout-seconds": fmt.Sprint(int(waitTime.Seconds())),
	}
	if waits {
		annotations["everynode.dev/wait-for-image"] = "true"
	}
	ds.SetAnnotations(annotations)
	update := map[string]any{"maxUnavailable": "100%"}
	if rolling != "" {
		update["rollingUpdateType"] = rolling
	}
	_ = unstructured.SetNestedMap(ds.Object, update, "spec", "updateStrategy", "rollingUpdate")
	return ds
}

// edge has a daemon set of apps/v1 updated as OpenYurt does it, as fast as it was to be.
func edge(ds *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := ds.GetAnnotations()
	annotations["apps.openyurt.io/update-strategy"], annotations["apps.openyurt.io/max-unavailable"] = "AdvancedRollingUpdate", "100%"
	ds.SetAnnotations(annotations)
	_ = unstructured.SetNestedMap(ds.Object, map[string]any{"type": "OnDelete"}, "spec", "updateStrategy")
	return ds
}

// TestUpdatesWaitForImages: no old pod is touched before its node has the image, in whatever dialect and way; a set that does not ask for
// that shows that it is seen when one is. One node cannot pull: it is reported, waits for as long as it was told, and keeps nobody else waiting.
func TestUpdatesWaitForImages(t *testing.T) {
	w := newWorldWith(t, worldOptions{nodes: waitNodes, pull: pullTime, dialects: localplane.Dialects()})
	const kruise = "apps.kruise.io/v1beta1"
	rolls := []struct {
		ds       *unstructured.Unstructured
		tag      string
		waits    bool
		expected int
	}{
		{waiting("apps/v1", "native", "", true), "2-missing-on-" + badNode, true, waitNodes - 1},
		{waiting(kruise, "recreated", "Standard", true), "2", true, waitNodes},
		{waiting(kruise, "in-place", "InPlaceIfPossible", true), "2", true, waitNodes},
		{edge(waiting("apps/v1", "edge", "", true)), "2", true, waitNodes},
		{waiting("apps/v1", "control", "", false), "2", false, waitNodes},
	}
	witnesses := make([]*witness, len(rolls))
	for _, r := range rolls {
		first := w.witnessOf(r.ds.GetName(), r.ds.GetName(), "1")
		if err := w.Create(t.Context(), r.ds); err != nil {
			t.Fatal(err)
		}
		first.wait(t, "the first pods of "+r.ds.GetName(), func() bool { return first.updated() == waitNodes })
	}
	for i, r := range rolls {
		name := r.ds.GetName()
		witnesses[i] = w.witnessOf(name, name, r.tag)
		w.patch(r.ds, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`+name+":"+r.tag+`"}]}}}}`)
	}
	for i, r := range rolls {
		s := witnesses[i]
		s.wait(t, "the update of "+r.ds.GetName(), func() bool { return s.updated() == r.expected })
		if soon := s.tooSoon(); r.waits && len(soon) > 0 {
			t.Errorf("%s touched the pods of %q before their images were there", r.ds.GetName(), soon)
		} else if !r.waits && len(soon) == 0 {
			t.Errorf("%s does not wait, and that was not seen", r.ds.GetName())
		}
	}
	w.checkBadNode(witnesses[0])
}

// checkBadNode: the one node that cannot pull is reported, and updated when its time is over.
func (w *world) checkBadNode(s *witness) {
	w.t.Helper()
	s.mu.Lock()
	early := s.touched[badNode] != ""
	s.mu.Unlock()
	if early {
		w.t.Fatalf("%s was not waited for", badNode)
	}
	image := &v1beta1.NodeImage{}
	if err := w.Get(w.t.Context(), client.ObjectKey{Name: badNode}, image); err != nil {
		w.t.Fatal(err)
	}
	tags := image.Spec.Images[s.name].Tags
	if len(tags) != 1 {
		w.t.Fatalf("%s was told %+v", badNode, image.Spec)
	}
	await(w.t, w, &v1beta1.ImagePullJobList{}, "a report of the node that cannot pull", func(l *v1beta1.ImagePullJobList) bool {
		return slices.ContainsFunc(l.Items, func(j v1beta1.ImagePullJob) bool {
			return strings.HasPrefix(j.Spec.Image, s.name+":") && slices.Equal(j.Status.FailedNodes, []string{badNode})
		})
	})
	s.wait(w.t, "the end of its time", func() bool { return s.touched[badNode] != "" })
	if took := s.deletedAt[badNode].Sub(tags[0].CreatedAt.Time); took < waitTime-time.Second || took > waitTime+10*time.Second {
		w.t.Errorf("%s waited for %s, and was to wait for %s", badNode, took, waitTime)
	}
}
