// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/test/harness"
)

// What others in the cluster do, and no fault of its parts.
const (
	protectNodes  kind = "nodes protected by a policy"
	refuseCreates kind = "creates refused by a policy"
	refuseChanges kind = "changes in place refused by a policy"
	webhookDown   kind = "webhook down"
	webhookSlow   kind = "webhook slow"
	fillQuota     kind = "quota exceeded"
	runStrangers  kind = "pods of strangers"
	changePods    kind = "new pods changed by a policy"
	takeLabels    kind = "labels taken from new pods by a policy"
	finalize      kind = "pods and revisions with finalizers deleted"
	dropAdvanced  kind = "definition of Advanced DaemonSets deleted"
	dropPolicies  kind = "definitions of rollout policies deleted"
)

// neighbours are all of them.
func neighbours() []kind {
	return []kind{
		protectNodes, refuseCreates, refuseChanges, webhookDown, webhookSlow, fillQuota, runStrangers, changePods, takeLabels, finalize, dropAdvanced, dropPolicies,
	}
}

// fromManager is what admission looks for in a request, to leave those of users, nodes and the garbage collector alone.
const fromManager = "request.userInfo.username.contains('everynode')"

// someNodes are the nodes that a fault is about, as a list of CEL.
func (p *play) someNodes(f fault) string {
	var nodes []string
	for _, i := range p.random.Perm(len(p.Nodes))[:max(1, len(p.Nodes)*f.nodes/100)] {
		nodes = append(nodes, "'"+p.Nodes[i]+"'")
	}
	return "[" + strings.Join(nodes, ", ") + "]"
}

// protect has a policy refuse managers the deletes of the pods of some nodes. In the middle of a roll it comes, and goes.
func (p *play) protect(f fault) {
	p.t.Helper()
	p.refuse(f, "DELETE", fmt.Sprintf("!has(oldObject.spec.nodeName) || !(oldObject.spec.nodeName in %s)", p.someNodes(f)))
}

// refuseCreates has a policy refuse managers the creates of pods for some nodes.
func (p *play) refuseCreates(f fault) {
	p.t.Helper()
	const terms = "object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	p.refuse(f, "CREATE", fmt.Sprintf("%s.all(t, t.matchFields.all(f, f.values.all(v, !(v in %s))))", terms, p.someNodes(f)))
}

// refuseChanges has a policy refuse managers the changes of the pods of some nodes, in the middle of a roll in place.
func (p *play) refuseChanges(f fault) {
	p.t.Helper()
	remove := p.Apply(p.PodPolicy("UPDATE", fmt.Sprintf("!%s || !has(oldObject.spec.nodeName) || !(oldObject.spec.nodeName in %s)", fromManager, p.someNodes(f))))
	i := slices.IndexFunc(p.members, func(m *member) bool { return m.name == "in-place" })
	p.show(p.members[i], 1+p.members[i].image%images)
	p.busy(f.hold + grace)
	remove()
}

func (p *play) refuse(f fault, operation, expression string) {
	p.t.Helper()
	remove := p.Apply(p.PodPolicy(operation, "!"+fromManager+" || "+expression))
	p.beginRoll()
	p.busy(f.hold + grace)
	remove()
}

// webhookDown has creates or deletes of managers fail, because a webhook for them cannot be called.
func (p *play) webhookDown(f fault) {
	p.t.Helper()
	operation := []string{"CREATE", "DELETE"}[p.random.IntN(2)]
	p.beginRoll()
	remove := p.Webhook(harness.WebhookThatIsDown(), operation, "Fail", fromManager)
	p.busy(f.hold + grace)
	remove()
}

// webhookSlow has creates and deletes of managers take longer than a pass waits for them.
func (p *play) webhookSlow(f fault) {
	p.t.Helper()
	const late = 6 * time.Second
	remove := p.Webhook(harness.LateWebhook(p.t, late, true, ""), "CREATE, DELETE", "Ignore", fromManager)
	p.beginRoll()
	p.busy(f.hold + grace)
	remove()
}

// fillQuota gives the namespace a quota that has room for all pods but some, and none for those that surge.
func (p *play) fillQuota(f fault) {
	p.t.Helper()
	p.beginRoll()
	remove := p.Apply(fmt.Sprintf(`
apiVersion: v1
kind: ResourceQuota
metadata: {name: pods, namespace: %s}
spec: {hard: {pods: "%d"}}
`, p.Name, len(p.members)*len(p.Nodes)-max(1, len(p.Nodes)*f.nodes/100)))
	p.busy(f.hold + grace)
	remove()
}

// strangers has a tenant run pods in a namespace of their own that name a set as their owner, and delete them.
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
  finalizers: [example.com/user]
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

// TestNeighbours: policies, webhooks, a quota and strangers come and go in the middle of rolls, and the leader dies meanwhile.
func TestNeighbours(t *testing.T) {
	const nodes, rounds = 60, 1
	p := newPlay(t, nodes)
	began := time.Now()
	for _, f := range schedule(*seed, rounds, append(neighbours(), killLeader)...) {
		p.suffer(f)
	}
	p.settle("all updates end")
	p.rest(quiet)
	p.judge(time.Since(began), 2*longestGap)
	p.judgeNeighbours()
}

// judgeNeighbours fails where what the neighbours did was not noticed by any manager, so that nothing is known of it.
func (p *play) judgeNeighbours() {
	p.t.Helper()
	refused, slow := map[string]int{}, map[string]int{}
	for _, w := range p.writes() {
		if w.Manager == "" || w.Namespace != p.Name || w.Resource != "pods" {
			continue
		}
		refused[fmt.Sprint(w.Verb, " ", w.Code)]++
		if w.Done.Sub(w.Sent) > executor.Fence {
			slow[w.Verb]++
		}
	}
	p.judgePeople()
	p.t.Logf("writes of pods by their answers %v; those that took more than %s: %v", refused, executor.Fence, slow)
	for who, count := range map[string]int{
		string(protectNodes): refused[fmt.Sprint("delete ", http.StatusUnprocessableEntity)], string(refuseCreates): refused[fmt.Sprint("create ", http.StatusUnprocessableEntity)],
		string(refuseChanges):             refused[fmt.Sprint("patch ", http.StatusUnprocessableEntity)],
		string(webhookDown):               refused[fmt.Sprint("create ", http.StatusInternalServerError)] + refused[fmt.Sprint("delete ", http.StatusInternalServerError)],
		string(webhookSlow) + ", creates": slow["create"], string(webhookSlow) + ", deletes": slow["delete"], string(fillQuota): refused[fmt.Sprint("create ", http.StatusForbidden)],
	} {
		if count == 0 {
			p.t.Errorf("%s: no write of a manager has met it, so nothing is known of it", who)
		}
	}
}
