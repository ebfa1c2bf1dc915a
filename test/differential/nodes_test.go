// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
)

// Images say what becomes of their pods. What does not depend on the image alone depends on the number of the node, so that it is the same
// for both players.
const (
	slow   = "img:slow"   // ready after 15 seconds
	broken = "img:broken" // cannot be pulled
	crash  = "img:crash"  // starts, and is never ready
	picky  = "img:picky"  // like crash on nodes with an odd number
	flaky  = "img:flaky"  // the first two pods on nodes with an odd number fail
)

const (
	startTime  = 2 * time.Second
	slowTime   = 15 * time.Second
	endTime    = 2 * time.Second
	lostTicks  = 5
	flakyTimes = 2
)

// sick is the condition of a pod that somebody has broken: it runs, and is not ready until somebody heals it.
const sick = corev1.PodConditionType("Sick")

// tick does what scheduler, kubelets, node life-cycle and the two garbage collectors would do now.
func (c *cluster) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collect()
	c.note()
	for _, name := range c.names(pods) {
		p := at[corev1.Pod](&c.state, pods, name).DeepCopy()
		if p.Namespace == tenantSpace {
			continue // it stays as it is
		}
		on, _ := util.GetTargetNodeName(p)
		switch n := at[corev1.Node](&c.state, nodes, on); {
		case n == nil:
			if c.lost[p.UID]++; p.Spec.NodeName != "" && c.lost[p.UID] > lostTicks {
				c.commit(pods, watch.Deleted, p)
			}
		case p.Spec.NodeName == "":
			p.Spec.NodeName, p.Status.StartTime = on, new(now())
			c.commit(pods, watch.Modified, p)
		case !nodeReady(n):
			if c.setReady(p, false) {
				c.commit(pods, watch.Modified, p)
			}
		case p.DeletionTimestamp != nil:
			if began := p.DeletionTimestamp.Add(-time.Duration(grace) * time.Second); now().Sub(began) >= endTime {
				c.commit(pods, watch.Deleted, p)
			}
		case c.run(p):
			c.commit(pods, watch.Modified, p)
		}
	}
}

// collect deletes what is owned by a set that is gone.
func (c *cluster) collect() {
	there := map[types.UID]bool{}
	for _, ds := range c.tables[sets] {
		there[ds.GetUID()] = true
	}
	for _, resource := range []string{pods, revisions} {
		for _, name := range c.names(resource) {
			if ref := metav1.GetControllerOfNoCopy(c.tables[resource][name]); ref != nil && !there[ref.UID] {
				byUser(c, resource, name)
			}
		}
	}
}

// run is the kubelet's work on one pod; it says whether it has changed the pod.
func (c *cluster) run(p *corev1.Pod) bool {
	age := now().Sub(p.Status.StartTime.Time)
	if ended(p) || age < startTime {
		return false
	}
	image, odd := p.Spec.Containers[0].Image, nodeNumber(p.Spec.NodeName)%2 == 1
	was, ready := p.Status.Phase, true
	switch {
	case image == broken:
		return false
	case image == flaky && odd && was == corev1.PodPending && c.failed[p.Spec.NodeName+image] < flakyTimes:
		c.failed[p.Spec.NodeName+image]++
		p.Status.Phase = corev1.PodFailed
		return true
	case image == slow:
		ready = age >= slowTime
	case image == crash, image == picky && odd, isSick(p):
		ready = false
	}
	p.Status.Phase = corev1.PodRunning
	return c.setReady(p, ready) || was != corev1.PodRunning
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

func isSick(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == sick })
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// setReady says whether that is news.
func (c *cluster) setReady(p *corev1.Pod, ready bool) bool {
	if isReady(p) == ready {
		return false
	}
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	status, since := corev1.ConditionFalse, now()
	if c.grown {
		since = metav1.NewTime(since.Add(-time.Hour))
	}
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: since})
	return true
}

// newNode is a node that is ready.
func newNode(name string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	setNodeReady(n, true)
	return n
}

func setNodeReady(n *corev1.Node, ready bool) {
	status := corev1.ConditionUnknown
	if ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: now()}}
}

func nodeReady(n *corev1.Node) bool { return n.Status.Conditions[0].Status == corev1.ConditionTrue }

func nodeNumber(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "n"))
	return n
}
