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

// tooLate is how long the budget must have been used up before one more deletion is counted as a violation. The
// controller cannot know about a pod that has just become unavailable.
const tooLate = 2 * time.Second

// Figures are the counts of the witness.
type Figures struct {
	// Made is the number of pods that were created, Needless the number of deleted pods that had the current version and
	// were ready.
	Made, Needless int
	// MostPerNode is the highest number of pods on one node at once, including terminating ones.
	MostPerNode int
	// Unavailable is the highest number of nodes without an available pod at once, without the nodes that were cut off;
	// UnavailableInAll includes them.
	Unavailable, UnavailableInAll int
	// Beyond is the number of available pods that were deleted although the budget had been used up for longer than
	// tooLate.
	Beyond int
}

// tally computes the counts of the witness from pod events. A node is available if it has a pod that is ready and not
// terminating.
type tally struct {
	nodes  []string
	budget int
	// image is the current image.
	image string
	pods  map[types.UID]podFacts
	// cut are the nodes that were cut off and have not been available since then; healed are those of them that were
	// reconnected.
	cut, healed map[string]bool
	// guarding reports whether the budget already applies: it does not during the creation of the set.
	guarding bool
	// fullSince is when the budget was used up; zero while it is not.
	fullSince time.Time
	figures   Figures
}

// podFacts are the facts about a pod that the witness needs.
type podFacts struct {
	node, image     string
	ready, deleting bool
	// trouble is the reason why the container does not run, such as ImagePullBackOff, or "".
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

// put handles the addition or update of a pod.
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

// remove handles the removal of a pod.
func (t *tally) remove(at time.Time, uid types.UID) {
	before, known := t.pods[uid]
	delete(t.pods, uid)
	if known && !before.deleting {
		t.taken(at, before)
	}
	t.measure(at)
}

// taken checks the deletion of a pod.
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

// measure updates the counts after an event.
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

// troubled returns the nodes with a pod of that image and that reason.
func (t *tally) troubled(image, trouble string) []string {
	return t.where(func(p podFacts) bool { return !p.deleting && p.image == image && p.trouble == trouble })
}

// where returns the nodes with a matching pod, sorted.
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
