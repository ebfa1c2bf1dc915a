// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
)

// act is something that happens in a cluster, which is locked meanwhile, and the time until the next one. What it is to happen to may be
// gone; then nothing happens.
type act struct {
	words string
	do    func(c *cluster)
	then  time.Duration
}

// change changes a stored object, with its status.
func change[T any](c *cluster, resource, name string, how func(*T)) {
	o, err := c.get(resource, name)
	if err != nil {
		return
	}
	how(any(o).(*T))
	c.commit(resource, watch.Modified, o)
}

// editSet is a write of a set by a user, whose template somebody may be able to run.
func editSet(c *cluster, name string, how func(*appsv1.DaemonSet)) {
	o, err := c.get(sets, name)
	if err != nil {
		return
	}
	ds := o.(*appsv1.DaemonSet)
	how(ds)
	must(c.replace(sets, "", ds))
}

func must(_ object, err error) {
	if err != nil {
		panic(err) // acts write what they have just read
	}
}

// byUser deletes as kubectl does.
func byUser(c *cluster, resource, name string) {
	_ = c.delete(resource, name, metav1.DeleteOptions{}) // it may be gone
}

// dependants calls each for everything that a set owns.
func dependants(c *cluster, owner types.UID, each func(resource string, o object)) {
	for _, resource := range []string{pods, revisions} {
		for _, name := range c.names(resource) {
			o, _ := c.get(resource, name)
			if ref := metav1.GetControllerOf(o); ref != nil && ref.UID == owner {
				each(resource, o)
			}
		}
	}
}

// deleteSet deletes a set as the garbage collector finishes it: what it owns goes after it, or is left to itself before.
func deleteSet(c *cluster, name string, orphan bool) {
	o, err := c.get(sets, name)
	if err != nil {
		return
	}
	free := func(resource string, d object) {
		d.SetOwnerReferences(nil)
		c.commit(resource, watch.Modified, d)
	}
	if orphan {
		dependants(c, o.GetUID(), free)
	}
	byUser(c, sets, name)
	dependants(c, o.GetUID(), func(resource string, d object) { byUser(c, resource, d.GetName()) })
}

// createSet creates a set unless it is there.
func createSet(c *cluster, ds *appsv1.DaemonSet) {
	if at[appsv1.DaemonSet](&c.state, sets, ds.Name) == nil {
		must(c.create(sets, ds))
		if c.unmistaken {
			c.forgetGenerations(at[appsv1.DaemonSet](&c.state, sets, ds.Name))
		}
	}
}

// collide puts a revision with other data in the place of the one that an edit of the template will need.
func collide(c *cluster, name string, adoptable bool, edit func(*appsv1.DaemonSet)) {
	o, err := c.get(sets, name)
	if err != nil {
		return
	}
	ds := o.(*appsv1.DaemonSet)
	edit(ds)
	squatter := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","spec":{}}}}`)}, Revision: 1}
	squatter.Name = name + "-" + controller.ComputeHash(&ds.Spec.Template, ds.Status.CollisionCount)
	squatter.Namespace = namespace
	squatter.Labels = map[string]string{"app": "stranger"}
	if adoptable {
		squatter.Labels = map[string]string{"app": name, appsv1.ControllerRevisionHashLabelKey: "stranger"}
	}
	if at[appsv1.ControllerRevision](&c.state, revisions, squatter.Name) == nil {
		must(c.create(revisions, squatter))
	}
	editSet(c, name, edit)
}

// orphanPod puts a pod without an owner on a node, that runs and that a set selects.
func orphanPod(c *cluster, set, node string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "orphan-", Labels: map[string]string{"app": set}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "img:orphan"}}
	p.Spec.Affinity = util.ReplaceDaemonSetPodNodeNameNodeAffinity(nil, node)
	must(c.create(pods, p))
}

// podOn is the oldest pod of a set on a node; nil when there is none.
func podOn(s *state, set, node string) *corev1.Pod {
	var oldest *corev1.Pod
	for _, name := range s.names(pods) {
		p := at[corev1.Pod](s, pods, name)
		on, _ := util.GetTargetNodeName(p)
		if on != node || p.Labels["app"] != set || p.Namespace != namespace || p.DeletionTimestamp != nil {
			continue
		}
		if oldest == nil || p.CreationTimestamp.Before(&oldest.CreationTimestamp) {
			oldest = p
		}
	}
	return oldest
}

// changePod changes the pod of a set on a node.
func changePod(set, node string, how func(c *cluster, p *corev1.Pod)) func(*cluster) {
	return func(c *cluster) {
		if p := podOn(&c.state, set, node); p != nil {
			how(c, p.DeepCopy())
		}
	}
}

// podActs are what can happen to one pod.
func podActs(set, node string) []act {
	phase := func(to corev1.PodPhase) func(c *cluster, p *corev1.Pod) {
		return func(c *cluster, p *corev1.Pod) {
			p.Status.Phase = to
			c.setReady(p, false)
			c.commit(pods, watch.Modified, p)
		}
	}
	on := fmt.Sprintf("the pod of %s on %s ", set, node)
	return []act{
		{words: on + "is deleted", do: changePod(set, node, func(c *cluster, p *corev1.Pod) { byUser(c, pods, p.Name) })},
		{words: on + "fails", do: changePod(set, node, phase(corev1.PodFailed))},
		{words: on + "succeeds", do: changePod(set, node, phase(corev1.PodSucceeded))},
		{words: on + "breaks", do: changePod(set, node, func(c *cluster, p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: sick, Status: corev1.ConditionTrue})
			c.commit(pods, watch.Modified, p)
		})},
		{words: on + "is healed", do: changePod(set, node, func(c *cluster, p *corev1.Pod) {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == sick })
			c.commit(pods, watch.Modified, p)
		})},
		{words: on + "loses its label", do: changePod(set, node, func(c *cluster, p *corev1.Pod) {
			p.Labels["app"] = "nobody"
			c.commit(pods, watch.Modified, p)
		})},
		{words: on + "is joined by an orphan", do: func(c *cluster) { orphanPod(c, set, node) }},
		{words: on + "is deleted, and an orphan comes", do: changePod(set, node, func(c *cluster, p *corev1.Pod) {
			byUser(c, pods, p.Name)
			orphanPod(c, set, node)
		})},
	}
}

// nodeActs are what can happen to one node.
func nodeActs(node string) []act {
	taint := func(effect corev1.TaintEffect) func(*cluster) {
		return func(c *cluster) {
			change(c, nodes, node, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: effect}} })
		}
	}
	ready := func(ready bool) func(*cluster) {
		return func(c *cluster) { change(c, nodes, node, func(n *corev1.Node) { setNodeReady(n, ready) }) }
	}
	label := func(zone string) func(*cluster) {
		return func(c *cluster) {
			change(c, nodes, node, func(n *corev1.Node) { n.Labels = map[string]string{"zone": zone} })
		}
	}
	return []act{
		{words: node + " is tainted NoSchedule", do: taint(corev1.TaintEffectNoSchedule)},
		{words: node + " is tainted NoExecute", do: taint(corev1.TaintEffectNoExecute)},
		{words: node + " has no taint", do: func(c *cluster) { change(c, nodes, node, func(n *corev1.Node) { n.Spec.Taints = nil }) }},
		{words: node + " is not ready", do: ready(false)},
		{words: node + " is ready", do: ready(true)},
		{words: node + " is in zone a", do: label("a")},
		{words: node + " is in zone b", do: label("b")},
		{words: node + " is gone", do: func(c *cluster) { byUser(c, nodes, node) }},
		{words: node + " joins", do: func(c *cluster) {
			if at[corev1.Node](&c.state, nodes, node) == nil {
				must(c.create(nodes, newNode(node, map[string]string{"zone": "a"})))
			}
		}},
	}
}
