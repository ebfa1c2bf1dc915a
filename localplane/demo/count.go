// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/placement"
)

// tooLate is how long the budget has to have been used up before taking down one more pod counts as ignoring it. The
// controller cannot know of a pod that became unavailable a moment ago.
const tooLate = 2 * time.Second

// Figures is what the witness has counted.
type Figures struct {
	// Made is the number of pods that were created, Needless the number of those that were deleted although they were
	// of the wanted version and ready.
	Made, Needless int
	// MostPerNode is the largest number of pods that one node had at once, terminating ones included.
	MostPerNode int
	// Unavailable is the largest number of nodes without an available pod at once, leaving out the nodes that were cut;
	// UnavailableInAll leaves out none.
	Unavailable, UnavailableInAll int
	// Beyond is the number of available pods that were taken down although the budget had been used up for longer than
	// tooLate.
	Beyond int
}

// tally is the arithmetic of the witness: pods go in as the API server tells of them, figures come out. A node is
// available when it has a pod that is ready and not terminating.
type tally struct {
	nodes  []string
	budget int
	// image is the image that is wanted now.
	image string
	pods  map[types.UID]podFacts
	// cut are the nodes that were cut and have not been available again since they were healed; healed are those of them
	// that were healed.
	cut, healed map[string]bool
	// guarding is whether the budget holds already: it does not while the set is created.
	guarding bool
	// fullSince is when the budget was used up; zero while it is not.
	fullSince time.Time
	figures   Figures
}

// podFacts is what the witness needs of a pod.
type podFacts struct {
	node, image     string
	ready, deleting bool
	// trouble is why the container does not run, such as ImagePullBackOff; empty when nothing is known of it.
	trouble string
}

func (p podFacts) available() bool { return p.ready && !p.deleting }

func newTally(nodes []string, budget int) *tally {
	return &tally{
		nodes: slices.Sorted(slices.Values(nodes)), budget: budget,
		pods: map[types.UID]podFacts{}, cut: map[string]bool{}, healed: map[string]bool{},
	}
}

func factsOf(pod *corev1.Pod) podFacts {
	facts := podFacts{node: placement.TargetNode(pod), deleting: pod.DeletionTimestamp != nil}
	if len(pod.Spec.Containers) > 0 {
		facts.image = pod.Spec.Containers[0].Image
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			facts.ready = c.Status == corev1.ConditionTrue
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			facts.trouble = c.State.Waiting.Reason
		}
	}
	return facts
}

// put takes a pod as the API server shows it at that moment.
func (t *tally) put(at time.Time, uid types.UID, now podFacts) {
	before, known := t.pods[uid]
	if !known {
		t.figures.Made++
	}
	t.pods[uid] = now
	if known && !before.deleting && now.deleting {
		t.taken(at, before)
	}
	t.measure(at)
}

// remove takes the news that a pod is gone.
func (t *tally) remove(at time.Time, uid types.UID) {
	before, known := t.pods[uid]
	delete(t.pods, uid)
	if known && !before.deleting {
		t.taken(at, before)
	}
	t.measure(at)
}

// taken judges the deletion of a pod.
func (t *tally) taken(at time.Time, before podFacts) {
	if !before.ready {
		return
	}
	if before.image == t.image {
		t.figures.Needless++
	}
	if t.guarding && !t.fullSince.IsZero() && at.Sub(t.fullSince) > tooLate {
		t.figures.Beyond++
	}
}

// measure takes the figures after an event.
func (t *tally) measure(at time.Time) {
	perNode, up := map[string]int{}, map[string]bool{}
	for _, p := range t.pods {
		perNode[p.node]++
		up[p.node] = up[p.node] || p.available()
	}
	for node := range t.healed {
		if up[node] {
			delete(t.healed, node)
			delete(t.cut, node)
		}
	}
	down, downInAll := 0, 0
	for _, node := range t.nodes {
		t.figures.MostPerNode = max(t.figures.MostPerNode, perNode[node])
		if !up[node] {
			downInAll++
			if !t.cut[node] {
				down++
			}
		}
	}
	if !t.guarding {
		return
	}
	t.figures.Unavailable = max(t.figures.Unavailable, down)
	t.figures.UnavailableInAll = max(t.figures.UnavailableInAll, downInAll)
	switch {
	case downInAll < t.budget:
		t.fullSince = time.Time{}
	case t.fullSince.IsZero():
		t.fullSince = at
	}
}

// running returns the nodes that have an available pod with that image.
func (t *tally) running(image string) []string {
	return t.where(func(p podFacts) bool { return p.available() && p.image == image })
}

// troubled returns the nodes with a pod of that image that has the trouble.
func (t *tally) troubled(image, trouble string) []string {
	return t.where(func(p podFacts) bool { return !p.deleting && p.image == image && p.trouble == trouble })
}

// where returns the nodes that have a pod like that, sorted.
func (t *tally) where(like func(podFacts) bool) []string {
	var nodes []string
	for _, p := range t.pods {
		if like(p) {
			nodes = append(nodes, p.node)
		}
	}
	slices.SortFunc(nodes, strings.Compare)
	return slices.Compact(nodes)
}

// available returns the pods that are available, by node.
func (t *tally) available() map[string]types.UID {
	pods := map[string]types.UID{}
	for uid, p := range t.pods {
		if p.available() {
			pods[p.node] = uid
		}
	}
	return pods
}
