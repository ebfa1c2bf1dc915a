// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// edgeStory is one with nodes that say whether they are ready.
type edgeStory struct{ *story }

func newEdgeStory(nodes int) edgeStory {
	s := edgeStory{newStory(0, one, zero)}
	for i := range nodes {
		s.node(fmt.Sprintf("n%d", i), corev1.ConditionTrue)
	}
	for i := range nodes {
		s.create(fmt.Sprintf("old%d", i), fmt.Sprintf("n%d", i)).ready(fmt.Sprintf("old%d", i))
	}
	return s
}

func (s edgeStory) node(name string, ready corev1.ConditionStatus) edgeStory {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	s.add(watch.Modified, node)
	return s
}

// pause lets time go by.
func (s edgeStory) pause(d time.Duration) edgeStory {
	s.now = s.now.Add(d)
	return s
}

func TestJudgeEdge(t *testing.T) {
	long, short := 10*time.Minute, 5*time.Second
	for name, c := range map[string]struct {
		play       func(s edgeStory)
		blame      time.Duration
		violations int
		blamed     int
	}{
		"one after the other": {func(s edgeStory) { s.replace("old0", "new0", "n0").replace("old1", "new1", "n1") }, long, 0, 0},
		"two at once":         {func(s edgeStory) { s.terminate("old0").terminate("old1") }, long, 1, 0},
		"between delete and create": {func(s edgeStory) {
			s.terminate("old0").gone("old0").terminate("old1")
		}, long, 1, 0},
		"a node that was down before is free": {func(s edgeStory) {
			s.node("n0", corev1.ConditionFalse).pause(time.Minute).unready("old0")
			s.terminate("old1")
		}, long, 0, 0},
		"one that the update took down is not": {func(s edgeStory) {
			s.terminate("old0").gone("old0").create("new0", "n0")
			s.pause(time.Minute).node("n0", corev1.ConditionUnknown).pause(time.Minute)
			s.terminate("old1")
		}, long, 1, 1},
		"nor when its pod was ready for a while": {func(s edgeStory) {
			s.replace("old0", "new0", "n0")
			s.pause(time.Minute).node("n0", corev1.ConditionUnknown).pause(time.Minute)
			s.terminate("old1")
		}, long, 1, 1},
		"it is again when the window is over": {func(s edgeStory) {
			s.replace("old0", "new0", "n0")
			s.pause(time.Minute).node("n0", corev1.ConditionUnknown).pause(time.Minute)
			s.terminate("old1")
		}, short, 0, 0},
		"and when it has healed": {func(s edgeStory) {
			s.replace("old0", "new0", "n0")
			s.pause(time.Minute).node("n0", corev1.ConditionUnknown).pause(time.Minute).node("n0", corev1.ConditionTrue)
			s.terminate("old1")
		}, long, 0, 0},
		"a deletion that costs nothing": {func(s edgeStory) {
			s.unready("old0").unready("old1").terminate("old0").terminate("old1")
		}, long, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEdgeStory(3)
			from := rules()
			from.From = uint64(len(s.log))
			c.play(s)
			r := JudgeEdge(s.log, from, EdgeRules{Limit: 1, Blame: c.blame})
			if len(r.Violations) != c.violations || r.MostBlamed != c.blamed || (r.Err() != nil) != (c.violations > 0) {
				t.Errorf("%d violations, at most %d blamed, want %d and %d: %v", len(r.Violations), r.MostBlamed, c.violations, c.blamed, r.Err())
			}
		})
	}
}
