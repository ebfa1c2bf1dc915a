// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What others in the cluster do, and no fault of its parts.
const (
	protectNodes kind = "nodes protected by a policy"
	runStrangers kind = "pods of strangers"
)

// protect has a policy refuse what managers do to the pods of some nodes: deletes, or creates of pods for them. In the middle of a roll it comes, and goes.
func (p *play) protect(f fault) {
	p.t.Helper()
	var nodes []string
	for _, i := range p.random.Perm(len(p.Nodes))[:max(1, len(p.Nodes)*f.nodes/100)] {
		nodes = append(nodes, "'"+p.Nodes[i]+"'")
	}
	list := "[" + strings.Join(nodes, ", ") + "]"
	remove := p.Apply(p.PodPolicy("DELETE", fmt.Sprintf(
		"!request.userInfo.username.contains('everynode') || !has(oldObject.spec.nodeName) || !(oldObject.spec.nodeName in %s)", list)))
	p.beginRoll()
	p.busy(f.hold + grace)
	remove()
}

// strangers has somebody run pods in a namespace of his own that name a set as their owner, and delete them.
func (p *play) strangers(f fault) {
	p.t.Helper()
	set, err := p.Cluster.Client.AppsV1().DaemonSets(p.Name).Get(p.Context(), p.members[0].name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	text := ""
	for i, node := range p.Nodes[:max(1, len(p.Nodes)*f.nodes/100)] {
		text += fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: stranger-%d-%d
  namespace: default
  labels: {app: %s, by: strangers}
  finalizers: [example.com/somebody]
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: %s, uid: %s, controller: true}]
spec:
  nodeName: %s
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: registry.example/stranger}]
---
`, p.faults[f.kind], i, set.Name, set.Name, set.UID, node)
	}
	if out, err := p.KubectlWith(text, "create", "--namespace", "default", "-f", "-"); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	p.beginRoll()
	p.busy(f.hold)
	pods := p.Cluster.Client.CoreV1().Pods("default")
	if err := pods.DeleteCollection(p.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "by=strangers"}); err != nil {
		p.t.Fatal(err)
	}
	p.busy(f.hold)
	list, err := pods.List(p.Context(), metav1.ListOptions{LabelSelector: "by=strangers"})
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range list.Items {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"finalizers":null}}`, list.Items[i].UID)
		if _, err := pods.Patch(context.WithoutCancel(p.Context()), list.Items[i].Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			p.t.Errorf("letting a pod go: %v", err)
		}
	}
}

// TestNeighbours: policies and strangers come and go in the middle of rolls, and the leader dies meanwhile.
func TestNeighbours(t *testing.T) {
	const nodes, rounds = 60, 3
	p := newPlay(t, nodes)
	began := time.Now()
	for _, f := range schedule(*seed, rounds, protectNodes, runStrangers, killLeader) {
		p.suffer(f)
	}
	p.settle("all updates end")
	p.rest(quiet)
	p.judge(time.Since(began), 2*longestGap)
}
