// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// gaps is what a roll looks like from outside: for how long each node has no ready pod, and when it has the image. A node is known to
// have the image when its NodeImage says so, or when a container runs from it, whatever is first.
type gaps struct {
	image, tag string // of the pods that are wanted
	count      int    // of nodes

	mu       sync.Mutex
	nodes    map[string]*gap
	finished chan struct{} // closed when all nodes have a ready pod of the image
	trouble  error         // the first event that could not be read
}

// gap is one node. Its times are those at which the event was seen; the versions are those of the objects in the events.
type gap struct {
	ready       map[types.UID]bool
	times       int // how many times it lost its last ready pod
	lost        time.Time
	lostVersion string
	took        time.Duration
	ended       time.Time // when it last had a ready pod again
	there       time.Time // when it had the image
	thereIn     string    // the version of the object that said so
	ahead       bool      // the image was there before the last ready pod was lost
	updated     time.Time
}

func newGaps(image, tag string, count int) *gaps {
	return &gaps{image: image, tag: tag, count: count, nodes: map[string]*gap{}, finished: make(chan struct{})}
}

// watchGaps watches until the returned function is called.
func (w *world) watchGaps(g *gaps, app string) (stop func()) {
	w.t.Helper()
	see := func(e watch.Event) { g.see(e, time.Now()) }
	pods := w.follow(&corev1.PodList{}, see, client.InNamespace("default"), client.MatchingLabels{"app": app})
	images := w.follow(&v1beta1.NodeImageList{}, see)
	return func() { pods(); images() }
}

// see takes an event in.
func (g *gaps) see(e watch.Event, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var node *gap
	switch object := e.Object.(type) {
	case *corev1.Pod:
		if object.Spec.NodeName == "" {
			return
		}
		node = g.node(object.Spec.NodeName)
		g.seePod(node, object, e.Type == watch.Deleted, now)
	case *v1beta1.NodeImage:
		if !g.pulled(object) {
			return
		}
		node = g.node(object.Name)
		node.has(object.ResourceVersion, now)
	default:
		return
	}
	g.trouble = cmp.Or(g.trouble, node.order())
	if g.done() && !closed(g.finished) {
		close(g.finished)
	}
}

func (g *gaps) node(name string) *gap {
	if g.nodes[name] == nil {
		g.nodes[name] = &gap{ready: map[types.UID]bool{}}
	}
	return g.nodes[name]
}

func (g *gaps) seePod(node *gap, p *corev1.Pod, deleted bool, now time.Time) {
	wanted := p.Spec.Containers[0].Image == g.image+":"+g.tag
	if wanted && running(p) {
		node.has(p.ResourceVersion, now)
	}
	had := len(node.ready) > 0
	delete(node.ready, p.UID)
	if !deleted && p.DeletionTimestamp == nil && isReady(p) {
		node.ready[p.UID] = true
		if wanted && node.updated.IsZero() {
			node.updated = now
		}
	}
	switch has := len(node.ready) > 0; {
	case had && !has:
		node.times++
		node.lost, node.lostVersion = now, p.ResourceVersion
	case !had && has && node.times > 0:
		node.took += now.Sub(node.lost)
		node.ended = now
	}
}

func running(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

// pulled is whether the node has pulled the image ahead.
func (g *gaps) pulled(image *v1beta1.NodeImage) bool {
	return slices.ContainsFunc(image.Status.ImageStatuses[g.image].Tags, func(s v1beta1.ImageTagStatus) bool {
		return s.Tag == g.tag && s.Phase == v1beta1.ImagePhaseSucceeded
	})
}

func (n *gap) has(version string, now time.Time) {
	if n.there.IsZero() {
		n.there, n.thereIn = now, version
	}
}

// order finds out whether the image was there first. Pods and NodeImages are watched apart, so the order in which their events come
// says nothing about that; but the versions of all objects of a plane are counted in one store.
func (n *gap) order() error {
	if n.lostVersion == "" || n.thereIn == "" {
		return nil
	}
	order, err := resourceversion.CompareResourceVersion(n.thereIn, n.lostVersion)
	n.ahead = order < 0
	return err
}

// String is how far the nodes are.
func (g *gaps) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	ready, updated, there := 0, 0, 0
	for _, node := range g.nodes {
		if len(node.ready) > 0 {
			ready++
		}
		if !node.updated.IsZero() {
			updated++
		}
		if !node.there.IsZero() {
			there++
		}
	}
	return fmt.Sprintf("%d nodes, %d with a ready pod, %d that had a new one, %d with the image, trouble: %v", len(g.nodes), ready, updated, there, g.trouble)
}

// done is whether every node has the image and, at last, a ready pod of it.
func (g *gaps) done() bool {
	finished := 0
	for _, node := range g.nodes {
		if !node.updated.IsZero() && !node.there.IsZero() && len(node.ready) > 0 {
			finished++
		}
	}
	return finished == g.count
}

// nodeGap is what was measured of one node. Times are in seconds since the roll was ordered.
type nodeGap struct {
	Node  string  `json:"node"`
	Lost  float64 `json:"lostReadyPod"`
	Gap   float64 `json:"withoutReadyPod"`
	There float64 `json:"imageThere"`
	// Ahead is whether the image was there before the old pod went.
	Ahead bool `json:"imageThereBefore"`
	// First is whether the old pod went before any other node had its new one.
	First bool `json:"amongTheFirst"`
	// Times is how many times the node was left without a ready pod: judge refuses all but one.
	Times int `json:"-"`
}

// measured is all nodes in the order in which their old pods went.
func (g *gaps) measured(ordered time.Time) ([]nodeGap, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(g.nodes), func(a, b string) int {
		return cmp.Or(g.nodes[a].lost.Compare(g.nodes[b].lost), cmp.Compare(a, b))
	})
	var firstReady time.Time
	for _, node := range g.nodes {
		if firstReady.IsZero() || node.ended.Before(firstReady) {
			firstReady = node.ended
		}
	}
	var all []nodeGap
	for _, name := range names {
		n := g.nodes[name]
		since := func(at time.Time) float64 { return at.Sub(ordered).Round(time.Millisecond).Seconds() }
		all = append(all, nodeGap{
			Node: name, Lost: since(n.lost), Gap: n.took.Round(time.Millisecond).Seconds(), There: since(n.there),
			Ahead: n.ahead, First: n.lost.Before(firstReady), Times: n.times,
		})
	}
	return all, g.trouble
}

// TestGaps: what is measured, on two nodes whose events are written here.
func TestGaps(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	g := newGaps("agent", "2", 2)
	at := func(seconds float64, kind watch.EventType, version, node, image string, edit func(*corev1.Pod)) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(node + image), ResourceVersion: version}}
		p.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Image: image}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		if edit != nil {
			edit(p)
		}
		g.see(watch.Event{Type: kind, Object: p}, begin.Add(time.Duration(seconds*float64(time.Second))))
	}
	deleting := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: begin} }
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	created := func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }
	at(-9, watch.Added, "10", "a", "agent:1", nil)
	at(-9, watch.Added, "11", "b", "agent:1", nil)
	at(1, watch.Modified, "20", "a", "agent:1", deleting)
	at(2, watch.Deleted, "21", "a", "agent:1", deleting)
	at(2, watch.Added, "22", "a", "agent:2", created)
	at(7, watch.Modified, "24", "a", "agent:2", unready)
	at(8, watch.Modified, "30", "a", "agent:2", nil)
	// The NodeImage was written before the pod was deleted, and is heard of later.
	at(9, watch.Modified, "33", "b", "agent:1", unready)
	at(9.5, watch.Deleted, "34", "b", "agent:1", nil)
	image := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "32"}}
	image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"agent": {Tags: []v1beta1.ImageTagStatus{{Tag: "2", Phase: v1beta1.ImagePhaseSucceeded}}}}
	g.see(watch.Event{Type: watch.Modified, Object: image}, begin.Add(9600*time.Millisecond))
	if closed(g.finished) {
		t.Error("done while a node has no ready pod")
	}
	at(11, watch.Modified, "40", "b", "agent:2", nil)
	if !closed(g.finished) {
		t.Error("not done")
	}
	got, err := g.measured(begin)
	want := []nodeGap{
		{Node: "a", Lost: 1, Gap: 7, There: 7, First: true, Times: 1},
		{Node: "b", Lost: 9, Gap: 2, There: 9.6, Ahead: true, Times: 1},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	at(12, watch.Deleted, "no number either", "b", "agent:2", nil)
	if _, err := g.measured(begin); err == nil {
		t.Error("a version that cannot be read is not told of")
	}
}
