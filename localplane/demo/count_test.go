// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ten is a count over ten nodes n0 to n9 with a budget of three, on each of which a pod p0 to p9 of version one runs.
func ten() *tally {
	var nodes []string
	for i := range 10 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	t := newTally(nodes, 3)
	t.image = imageOne
	for i := range 10 {
		t.put(moment(0), types.UID(fmt.Sprintf("p%d", i)), runningOn(i, imageOne))
	}
	t.guarding = true
	return t
}

func moment(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func runningOn(node int, image string) podFacts {
	return podFacts{node: fmt.Sprintf("n%d", node), image: image, ready: true}
}

func (p podFacts) terminating() podFacts { p.deleting = true; return p }
func (p podFacts) unready() podFacts     { p.ready = false; return p }

// replace plays one replacement of the pod of a node by one of another image.
func (t *tally) replace(at float64, node int, image string) {
	old := types.UID(fmt.Sprintf("p%d", node))
	t.put(moment(at), old, t.pods[old].terminating())
	t.remove(moment(at+0.5), old)
	next := types.UID(fmt.Sprintf("%s-%v", old, at))
	t.put(moment(at+0.6), next, runningOn(node, image).unready())
	t.put(moment(at+0.9), next, runningOn(node, image))
}

func TestCountOfAGoodRoll(t *testing.T) {
	c := ten()
	c.image = imageTwo
	for i := range 10 {
		c.replace(float64(i+1), i, imageTwo)
	}
	want := Figures{Made: 20, MostPerNode: 1, Unavailable: 1, UnavailableInAll: 1}
	if c.figures != want {
		t.Errorf("got %+v, want %+v", c.figures, want)
	}
	if got := len(c.running(imageTwo)); got != 10 {
		t.Errorf("%d nodes run the new image", got)
	}
}

func TestCountSeesTooManyDown(t *testing.T) {
	c := ten()
	c.image = imageTwo
	for i := range 4 {
		c.put(moment(1), types.UID(fmt.Sprintf("p%d", i)), runningOn(i, imageOne).terminating())
	}
	if c.figures.Unavailable != 4 || c.figures.Beyond != 0 {
		t.Errorf("four pods taken down at once: %+v", c.figures)
	}
	c.put(moment(3.5), "p4", runningOn(4, imageOne).terminating())
	if c.figures.Beyond != 1 {
		t.Errorf("a fifth one 2.5 s after the budget was used up: %+v", c.figures)
	}
}

func TestCountLeavesOutCutNodesUntilTheyAreBack(t *testing.T) {
	c := ten()
	c.cut["n8"], c.cut["n9"] = true, true
	for _, i := range []int{0, 1, 2} {
		c.put(moment(1), types.UID(fmt.Sprintf("p%d", i)), runningOn(i, imageOne).terminating())
	}
	c.put(moment(2), "p8", runningOn(8, imageOne).unready())
	c.put(moment(2), "p9", runningOn(9, imageOne).unready())
	if c.figures.Unavailable != 3 || c.figures.UnavailableInAll != 5 {
		t.Errorf("while cut: %+v", c.figures)
	}
	c.healed["n8"], c.healed["n9"] = true, true
	c.put(moment(3), "p8", runningOn(8, imageOne))
	c.put(moment(4), "p8", runningOn(8, imageOne).unready())
	if c.figures.Unavailable != 4 {
		t.Errorf("n8 counts again as soon as it was available once after it was healed: %+v", c.figures)
	}
	if !c.cut["n9"] || c.cut["n8"] {
		t.Errorf("still left out: %v", c.cut)
	}
}

func TestCountSeesTwoPodsOnANode(t *testing.T) {
	c := ten()
	c.put(moment(1), "p3", runningOn(3, imageOne).terminating())
	c.put(moment(1), "another", runningOn(3, imageTwo).unready())
	if c.figures.MostPerNode != 2 {
		t.Errorf("a terminating pod and a new one on one node: %+v", c.figures)
	}
}

func TestCountSeesNeedlessRestarts(t *testing.T) {
	for name, lose := range map[string]func(*tally){
		"deleted gracefully": func(c *tally) { c.put(moment(1), "p3", runningOn(3, imageOne).terminating()) },
		"gone at once":       func(c *tally) { c.remove(moment(1), "p3") },
	} {
		c := ten()
		lose(c)
		if c.figures.Needless != 1 {
			t.Errorf("%s: %+v", name, c.figures)
		}
		c.remove(moment(2), "p3")
		if c.figures.Needless != 1 {
			t.Errorf("%s, and counted twice: %+v", name, c.figures)
		}
	}
}

func TestCountIgnoresTheBudgetWhileTheSetIsCreated(t *testing.T) {
	c := newTally([]string{"n0", "n1"}, 1)
	c.put(moment(0), "p0", runningOn(0, imageOne).unready())
	c.put(moment(1), "p0", runningOn(0, imageOne))
	if c.figures.Unavailable != 0 {
		t.Errorf("%+v", c.figures)
	}
}

func TestCountFindsTrouble(t *testing.T) {
	c := ten()
	broken := runningOn(4, imageBroken).unready()
	broken.trouble = imagePullBackOff
	c.put(moment(1), "p4", broken)
	if got := fmt.Sprint(c.troubled(imageBroken, imagePullBackOff)); got != "[n4]" {
		t.Errorf("troubled: %s", got)
	}
	if got := len(c.available()); got != 9 {
		t.Errorf("%d available", got)
	}
}

func TestBudget(t *testing.T) {
	for nodes, want := range map[int]int{12: 3, 30: 6, 31: 7, 100: 20} {
		if got := budgetOf(nodes); got != want {
			t.Errorf("%d nodes: %d, want %d", nodes, got, want)
		}
	}
}
