// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/test/harness"
)

const groupNodes = 8

// groupPolicies are a policy for each of two sets.
const groupPolicies = `
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: ds}
spec:
  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: ds}]
  pace: {maxUnavailable: 50%%}
  concurrencyGroup: {name: network, scope: %[1]s}
---
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: in-place}
spec:
  targets: [{apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, name: in-place}]
  concurrencyGroup: {name: network, scope: %[1]s}
`

// TestConcurrencyGroup rolls a DaemonSet, by apps/v1, by AdvancedRollingUpdate and by deletes next to the controller of Kubernetes, and an Advanced DaemonSet of one
// group at the same time: by the watch of the API server, they never have a pod down at one place at once. The manager is killed in the middle.
func TestConcurrencyGroup(t *testing.T) {
	onlyEverynode(t, cluster(t), "only Everynode has rollout policies")
	c := harness.Own(t, harness.Options{Nodes: 2 * groupNodes, Controller: harness.Everynode, Advanced: true, Edge: true})
	for name, edits := range map[string][]harness.Edit{
		"RollingUpdate": {harness.WithBudget("50%", "0")},
		"AdvancedRollingUpdate": {
			harness.WithOnDelete, harness.WithAnnotation(openyurt.UpdateStrategy, openyurt.AdvancedRollingUpdate.Format()), harness.WithAnnotation(openyurt.MaxUnavailable, "50%"),
		},
	} {
		t.Run(name, func(t *testing.T) { rollTogether(t, c, edits...) })
	}
	t.Run("OnDelete", func(t *testing.T) {
		c := harness.Own(t, harness.Options{Nodes: groupNodes, Controller: harness.Native, Advanced: true, Alongside: true})
		rollTogether(t, c, harness.WithOnDelete)
	})
}

// rollTogether rolls a DaemonSet with these edits and an Advanced DaemonSet of one group, with each scope.
func rollTogether(t *testing.T, c *harness.Cluster, edits ...harness.Edit) {
	s := c.Space(t, groupNodes)
	group := &groupWatch{space: s, zones: map[string]string{}}
	for i, node := range s.Nodes {
		group.zones[node] = fmt.Sprintf("zone-%d", i%2)
		s.EditNode(node, func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = group.zones[node] })
	}
	must(t, s, fmt.Sprintf(groupPolicies, "Node"), "apply", "-f", "-")
	s.Run("ds", edits...)
	must(t, s, strings.ReplaceAll(fmt.Sprintf(inPlaceSet, harness.PoolLabel, s.Name, harness.Image), "maxUnavailable: 1", "maxUnavailable: 50%"), "apply", "-f", "-")
	s.Wait("both sets run", group.rolled(harness.Image))
	s.Kubectl("wait", "--for=condition=Ready", "rolloutpolicy", "--all", "--timeout=30s")

	group.during(t, "Node", harness.Image2, func() { group.roll(harness.Image2) })
	must(t, s, fmt.Sprintf(groupPolicies, "Zone"), "apply", "-f", "-")
	group.during(t, "Zone", harness.Image3, func() { group.roll(harness.Image3) })
	must(t, s, fmt.Sprintf(groupPolicies, "Cluster"), "apply", "-f", "-")
	group.during(t, "Cluster", harness.Image, func() {
		group.roll(harness.Image)
		s.Wait("some nodes are updated", group.begun(harness.Image))
		c.Kill(t, harness.ManagerComponent)
		c.StartComponent(t, harness.ManagerComponent)
	})
}

// groupWatch judges two sets.
type groupWatch struct {
	space *harness.Space
	zones map[string]string // of the nodes
}

// place is what a node shares with other nodes in a scope.
func (g *groupWatch) place(scope, node string) string {
	switch scope {
	case "Node":
		return node
	case "Zone":
		return g.zones[node]
	default:
		return "the cluster"
	}
}

// groupSets are the sets.
func groupSets() []string { return []string{"ds", "in-place"} }

// roll has both sets run another image, one at once after the other.
func (g *groupWatch) roll(image string) {
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, image)
	g.space.Kubectl("patch", "daemonsets.apps", "ds", "--type=json", "-p", patch)
	g.space.Kubectl("patch", "daemonsets.apps.kruise.io", "in-place", "--type=json", "-p", patch)
}

// rolled is met when all nodes have a ready pod of both sets that runs the image: also by its status, since a pod that is changed in place is ready until its node
// begins.
func (g *groupWatch) rolled(image string) harness.Condition {
	return func(v harness.View) error { return rolledIn(slices.Values(v.AllPods()), image) }
}

func rolledIn(pods iter.Seq[*corev1.Pod], image string) error {
	ready := map[string]int{}
	for p := range pods {
		if runs := p.Status.ContainerStatuses; p.Spec.Containers[0].Image == image && len(runs) > 0 && runs[0].Image == image && harness.Ready(p) {
			ready[p.Name[:strings.LastIndex(p.Name, "-")]]++
		}
	}
	var errs []error
	for _, name := range groupSets() {
		if ready[name] != groupNodes {
			errs = append(errs, fmt.Errorf("%d pods of %s run %s", ready[name], name, image))
		}
	}
	return errors.Join(errs...)
}

// begun is met when a pod runs the image.
func (g *groupWatch) begun(image string) harness.Condition {
	return func(v harness.View) error {
		for _, p := range v.AllPods() {
			if p.Spec.Containers[0].Image == image {
				return nil
			}
		}
		return errors.New("no pod runs it")
	}
}

// during watches the pods while both sets roll to an image, and reports where both were down at once.
func (g *groupWatch) during(t *testing.T, scope, image string, roll func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pods := g.space.Cluster.Client.CoreV1().Pods(g.space.Name)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	j := &groupJudge{t: t, place: func(node string) string { return g.place(scope, node) }, nodes: g.space.Nodes, pods: map[string]*corev1.Pod{}, was: map[string]bool{}}
	for i := range list.Items {
		j.pods[list.Items[i].Name] = &list.Items[i]
	}
	var judging sync.WaitGroup
	judging.Go(func() {
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				j.see(event.Type, pod)
			} else if ctx.Err() == nil {
				t.Errorf("the watch ended: %v", event.Object)
			}
		}
	})
	roll()
	g.space.Poll("both sets are rolled, and that was judged", func() error { return j.rolled(image) })
	cancel()
	w.Stop()
	judging.Wait()
	if j.downs[0] < groupNodes || j.downs[1] < groupNodes {
		t.Errorf("pods were down %d and %d times: nothing was judged", j.downs[0], j.downs[1])
	}
	t.Logf("scope %s: pods were down %v times", scope, j.downs)
}

// groupJudge follows a watch of pods.
type groupJudge struct {
	t     *testing.T
	place func(node string) string
	nodes []string
	was   map[string]bool
	downs [2]int

	mu   sync.Mutex
	pods map[string]*corev1.Pod
}

// rolled is nil when both sets are rolled by the events that were judged.
func (j *groupJudge) rolled(image string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return rolledIn(maps.Values(j.pods), image)
}

// see takes an event.
func (j *groupJudge) see(kind watch.EventType, pod *corev1.Pod) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pods[pod.Name] = pod; kind == watch.Deleted {
		delete(j.pods, pod.Name)
	}
	down := [2]map[string]bool{{}, {}}
	for set, name := range groupSets() {
		for _, node := range j.nodes {
			is := !j.serves(name, node)
			if is {
				down[set][j.place(node)] = true
				if !j.was[name+node] {
					j.downs[set]++
				}
			}
			j.was[name+node] = is
		}
	}
	for place := range down[0] {
		if down[1][place] {
			j.t.Errorf("both sets are down in %s", place)
		}
	}
}

// serves is whether a set has a ready pod on a node.
func (j *groupJudge) serves(set, node string) bool {
	for _, p := range j.pods {
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil && harness.Ready(p) && strings.HasPrefix(p.Name, set+"-") {
			return true
		}
	}
	return false
}
