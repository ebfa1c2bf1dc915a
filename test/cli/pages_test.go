// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// What the pages are about.
const (
	sample  = "sample"
	three   = "registry.example/sample:3"
	canary  = "sample-canary"
	inPlace = "sample-in-place"
	nginx   = "nginx"
	// The images of an agent; the last one cannot be pulled.
	agentOne, agentTwo, agentNone = "registry.example/agent:1", "registry.example/agent:2", "registry.example/agent:non-existent"
	oldNginx, newNginx            = "nginx:1.19.4", "nginx:1.19.5"
)

// TestPageNative types docs/dialects/native.md.
func TestPageNative(t *testing.T) {
	u := opens(t, "docs/dialects/native.md", "native,kruise")
	u.types("kubectl create -f docs/samples/daemonset.yaml", "created")
	before := u.runs(sample, one, pageNodes)
	u.types("kubectl everynode plan daemonset/sample", "nothing has been changed", fmt.Sprintf("recreate   %d", pageNodes))

	// The first node is away, and uses the budget up: so the others wait for as long as they are looked at.
	u.cuts("node-0001")
	u.types("kubectl set image daemonset/sample", "image updated")
	u.watches("kubectl everynode status daemonset/sample -w", "wait-budget 9")
	u.types("kubectl everynode explain-node node-0007 daemonset/sample", "node-0007, default/daemonset/sample: wait-budget", "which is 1; 1 used")
	u.observed(sample)
	u.types("kubectl rollout undo daemonset/sample", "rolled back")
	u.Type("bin/localplane node heal node-0001")
	after := u.runs(sample, one, pageNodes)
	u.stays(before, after, "node-0001")

	u.stopsByOnDelete()
	before = u.runs(sample, three, pageNodes)
	u.mentioned("kubectl everynode migrate daemonset/sample", "", "manages the pods now")
	u.stays(before, u.runs(sample, three, pageNodes))
	u.closes()
}

// stopsByOnDelete stops an update with one patch of the page, and has it go on with the other one.
func (u *typist) stopsByOnDelete() {
	u.t.Helper()
	u.Type("kubectl set image daemonset/sample sample=" + three)
	u.Poll("the update has begun", func() error {
		pods, err := u.pods(sample)
		for i := range pods {
			if pods[i].Spec.Containers[0].Image == three {
				return nil
			}
		}
		if err == nil {
			err = missing("no pod has the new image")
		}
		return err
	})
	u.types(`kubectl patch daemonset sample -p '{"spec":{"updateStrategy":{"type":"OnDelete"}}}'`, "patched")
	u.observed(sample)
	stopped := u.settled("what has begun comes to its end", sample, func(map[string]placed) error { return nil })
	old := with(stopped, one)
	if len(old) < 2 {
		u.t.Fatalf("only the nodes %v were left when the update was stopped: it was over before", old)
	}
	// Who deletes a pod gets the new version, so the manager is at work; but it deletes none.
	last := old[len(old)-1]
	u.Type("kubectl delete pod " + stopped[last].name)
	u.stays(stopped, u.runs(sample, three, pageNodes-len(old)+1), last)

	u.types(`kubectl patch daemonset sample -p '{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}'`, "patched")
	u.runs(sample, three, pageNodes)
	set, err := u.Client.AppsV1().DaemonSets("default").Get(u.t.Context(), sample, metav1.GetOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	if r := set.Spec.UpdateStrategy.RollingUpdate; r == nil || r.MaxUnavailable == nil || r.MaxUnavailable.String() != "10%" {
		u.t.Errorf("the budget was 10%%, and both patches have made this of it: %+v", set.Spec.UpdateStrategy)
	}
}

// TestPageAdvanced types docs/dialects/advanced.md.
func TestPageAdvanced(t *testing.T) {
	u := opens(t, "docs/dialects/advanced.md", "native,kruise")
	u.types("kubectl apply -f docs/samples/advanced/canary.yaml", "created")
	before := u.runs(canary, agentOne, pageNodes)
	u.types("kubectl label node node-0001 node-0002 canary=true", "node/node-0001 labeled", "node/node-0002 labeled")
	u.types("kubectl everynode set-image sample-canary", "image updated", "only nodes that match canary=true are updated")
	u.types("kubectl everynode status sample-canary --exit-status", "finished", "2 of 10 nodes are updated and available, 8 excluded by the set itself")
	u.types("kubectl wait --for=condition=Ready ads/sample-canary", "condition met")
	half := u.runs(canary, agentTwo, 2)
	if have := with(half, agentTwo); !slices.Equal(have, []string{"node-0001", "node-0002"}) {
		t.Errorf("the nodes %v were updated, and not those with the label", have)
	}
	u.stays(before, half) // in place

	u.types("kubectl everynode canary sample-canary --off", "canary off")
	u.types("kubectl everynode pause sample-canary", "paused")
	u.types("kubectl everynode explain-node node-0003 sample-canary", "node-0003, default/ads/sample-canary: wait-paused", "kubectl everynode resume ads/sample-canary")
	u.types("kubectl everynode resume sample-canary", "resumed")
	u.types("kubectl everynode undo sample-canary", "rolled back to revision 1")
	u.stays(before, u.runs(canary, agentOne, pageNodes))
	u.updatesInPlace()
	u.closes()
}

// updatesInPlace types the section on updates in place.
func (u *typist) updatesInPlace() {
	u.t.Helper()
	u.types("kubectl apply -f docs/samples/advanced/in-place.yaml", "created")
	before := u.runs(inPlace, agentOne, u.nodes)
	u.types("kubectl get ads -o wide", inPlace, agentOne)
	u.types("sed s/agent:1/agent:2/ ", "configured")
	u.stays(before, u.runs(inPlace, agentTwo, u.nodes))
	u.typesUntil("kubectl get ads,pods", `^pod/`+inPlace+`-\S+ +1/1 +Running +1 `, u.nodes)
	described := u.typable("kubectl describe ads sample-in-place").Text
	u.TypeUntil(described, func(out string) error {
		return shows(out, "Conditions:", "Reason:", "Events:", "SuccessfulUpdatePodInPlace")
	})
	u.types("kubectl explain ads.spec.updateStrategy.rollingUpdate", "FIELD: rollingUpdate", "partition", "rollingUpdateType")
}

// TestPageRolloutPolicy types docs/rollout-policy.md.
func TestPageRolloutPolicy(t *testing.T) {
	u := opens(t, "docs/rollout-policy.md", "native,kruise")
	u.leavesAll()
	u.types("kubectl create -f docs/samples/daemonset.yaml", "created")
	u.types("kubectl rollout status daemonset/sample", "successfully rolled out")
	u.types("kubectl everynode policy init daemonset/sample")
	u.types("kubectl everynode plan daemonset/sample", "nothing has been changed", "canary", "percent-50")
	u.types("kubectl apply -f policy.yaml", "created")
	u.types("kubectl wait --for=condition=Ready rolloutpolicy/sample", "condition met")
	u.types("kubectl everynode set-image daemonset/sample", "image updated")
	u.typesUntilItSays("kubectl everynode status daemonset/sample", "WaitingForApproval", "wait-approval")
	u.runs(sample, two, 1)
	u.types("kubectl everynode explain-node node-0009 daemonset/sample", "the node belongs to wave rest (3 of 3)")
	u.types("kubectl everynode approve daemonset/sample", "is approved")
	u.typesUntilItSays("kubectl everynode status daemonset/sample", "Soaking, wave percent-50")
	u.runs(sample, two, pageNodes/2)
	u.types("kubectl everynode promote daemonset/sample", "ends")
	u.types("kubectl everynode status daemonset/sample --exit-status", "finished")
	u.runs(sample, two, pageNodes)
	u.types("kubectl everynode suspend daemonset/sample", "suspended")
	u.types("kubectl everynode resume rolloutpolicy/sample", "resumed", "applies to daemonset/sample")
	u.types("kubectl everynode set-image daemonset/sample", "image updated")
	u.typesUntilItSays("kubectl everynode status daemonset/sample", "rolloutpolicy/sample: ", "wave canary")
	u.types("kubectl everynode reject daemonset/sample", "is rejected")
	u.types("kubectl everynode undo daemonset/sample", "rolled back")
	u.types("kubectl everynode status daemonset/sample --exit-status", "finished")
	u.runs(sample, two, pageNodes)
	u.leaves("kubectl create secret generic analysis")
	u.closes()
}

// TestPagePolicy types docs/dialects/policy.md, next to the DaemonSet controller of Kubernetes.
func TestPagePolicy(t *testing.T) {
	u := sits(t, harness.ReadPage(t, "docs/dialects/policy.md"), pageNodes)
	u.leavesAll()
	u.types("bin/localplane up --nodes 10 --dialects policy --native-controller")
	u.types("export KUBECONFIG=")
	u.types("kubectl create -f docs/samples/daemonset.yaml", "created")
	u.types("kubectl rollout status daemonset/sample", "successfully rolled out")
	before := u.runs(sample, one, pageNodes)
	u.types("kubectl patch daemonset sample", "patched")
	u.types("kubectl everynode policy init daemonset/sample")
	u.types("kubectl apply -f policy.yaml", "created")
	u.types("kubectl wait --for=condition=Ready rolloutpolicy/sample", "condition met")
	u.stays(before, u.runs(sample, one, pageNodes))
	u.types("kubectl set image daemonset/sample", "image updated")
	shown := u.page.Commands[u.at].Shows
	u.typesUntilItSays("kubectl everynode status daemonset/sample", shown...)
	if fresh := with(u.runs(sample, two, 1), two); len(fresh) != 1 {
		t.Errorf("the nodes %v run the new version before the canary is approved", fresh)
	}
	u.types("kubectl everynode explain-node node-0009 daemonset/sample", "wait-approval", "kubectl everynode approve daemonset/sample")
	u.types("kubectl get rolloutpolicies", "WaitingForApproval", "canary")
	u.types("kubectl everynode approve daemonset/sample", "is approved")
	u.types("kubectl everynode status daemonset/sample --exit-status", "finished")
	u.runs(sample, two, pageNodes)
	u.types("bin/localplane down", "stopped")
	u.closes()
}

// TestPageOpenYurt types docs/dialects/openyurt.md. What the page says of yurt-manager is played by TestVerbs/TakeOverOpenYurt.
func TestPageOpenYurt(t *testing.T) {
	u := opens(t, "docs/dialects/openyurt.md", "native,openyurt")
	u.types("kubectl apply -f docs/samples/edge/advanced-rolling-update.yaml", "created")
	before := u.runs(nginx, oldNginx, pageNodes)
	u.cuts("node-0002")
	u.types("kubectl set image daemonset/nginx-daemonset", "image updated")
	u.types("kubectl everynode status nginx-daemonset --exit-status --ignore-unreachable", "not ready: node-0002", "finished", "1 left and not ready (node-0002)")
	u.allBut("node-0002", before)
	u.types("kubectl everynode explain-node node-0002 nginx-daemonset", "node-0002, default/daemonset/nginx-daemonset: wait-unreachable",
		"it went down before the update touched it")
	u.types("kubectl rollout undo daemonset/nginx-daemonset", "rolled back")
	u.Type("bin/localplane node heal node-0002")
	before = u.runs(nginx, oldNginx, pageNodes)

	u.types("kubectl apply -f docs/samples/edge/ota.yaml", "configured")
	u.types("kubectl set image daemonset/nginx-daemonset", "image updated")
	u.typesUntil("kubectl everynode ota list", `^daemonset/nginx-daemonset +node-\d+ .* NotRequested$`, pageNodes)
	u.Type("bin/localplane node api node-0002") // where there is a node there is an agent; here it has to be started
	u.types("kubectl everynode ota pull node-0002", "asked for")
	u.TypeUntil("kubectl everynode ota list", lines(`^daemonset/nginx-daemonset +node-0002 .* Ready$`, 1))
	u.types("kubectl everynode ota upgrade node-0002", "to be upgraded to")
	after := u.runs(nginx, newNginx, 1)
	u.stays(before, after, "node-0002")
	if after["node-0002"].image != newNginx {
		t.Errorf("another node than node-0002 was upgraded: %v", after)
	}
	u.closes()
}

// allBut fails unless all nodes have the new version but one that is away, which has the pod from before.
func (u *typist) allBut(away string, before map[string]placed) {
	u.t.Helper()
	pods, err := u.pods(nginx)
	if err != nil || len(pods) != pageNodes {
		u.t.Fatalf("there are %d pods, want %d (%v)", len(pods), pageNodes, err)
	}
	for i := range pods {
		pod := &pods[i]
		image, want := pod.Spec.Containers[0].Image, newNginx
		if pod.Spec.NodeName == away {
			want = oldNginx
		}
		if image != want || pod.DeletionTimestamp != nil || (pod.UID == before[pod.Spec.NodeName].uid) != (want == oldNginx) {
			u.t.Errorf("pod %s on %s is of %s, want %s", pod.Name, pod.Spec.NodeName, image, want)
		}
	}
}

// TestPagePlan types docs/plan.md, about a set of each kind that have the same name.
func TestPagePlan(t *testing.T) {
	u := opens(t, "docs/plan.md", "native,kruise")
	const written = "sed -e s,apps/v1,apps.kruise.io/v1beta1, -e s/sample/agent/g docs/samples/daemonset.yaml"
	u.Type(written + " | kubectl apply -f -")
	u.Type("sed -e 's/app: sample/app: native/' -e s/10%/1/ -e s/sample/agent/g docs/samples/daemonset.yaml | kubectl create -f -")
	before := u.runs(agent, agentOne, u.nodes)
	u.runs("native", agentOne, u.nodes)
	u.types("kubectl everynode plan ads/agent --image", "nothing has been changed", "recreate   10 ")
	u.types("kubectl everynode plan ads/agent --image", "recreate   1 ", "wait       9 ", "node-0007   wait ")
	u.types("kubectl everynode plan daemonset/agent --max-unavailable 10%", "nothing has been changed", "leave     10 ")
	u.stays(before, u.runs(agent, agentOne, u.nodes))

	u.Type(written + " | sed s/agent:1/agent:2/ >agent.yaml")
	u.types("kubectl everynode plan -f agent.yaml -o json >plan.json")
	u.stays(before, u.runs(agent, agentOne, u.nodes))
	u.types("kubectl everynode apply --plan plan.json", "default/ads/agent was edited")
	u.runs(agent, agentTwo, u.nodes)
	u.closes()
}

// TestPageOperations types docs/operations.md: about a set whose update has stopped at the budget, beside one with which all is well.
func TestPageOperations(t *testing.T) {
	u := opens(t, "docs/operations.md", "native,kruise,openyurt")
	u.Type("kubectl create -f docs/samples/daemonset.yaml")
	u.Type("sed -e s/sample/agent/g -e s/10%/2/ docs/samples/daemonset.yaml | kubectl create -f -")
	u.runs(sample, one, pageNodes)
	u.runs("agent", agentOne, pageNodes)
	u.Type("kubectl set image daemonset/agent agent=" + agentNone)
	u.Poll("two nodes have a pod that does not start, and the others the one from before", func() error {
		pods, err := u.pods("agent")
		bad, well := 0, 0
		for i := range pods {
			switch image := pods[i].Spec.Containers[0].Image; {
			case pods[i].DeletionTimestamp != nil:
			case image == agentNone:
				bad++
			case image == agentOne:
				well++
			}
		}
		if err == nil && (len(pods) != pageNodes || bad != 2 || well != pageNodes-2) {
			err = missing("of %d pods %d are bad and %d are well", len(pods), bad, well)
		}
		return err
	})

	u.types("kubectl everynode doctor", "a manager is active", " 0 failed")
	top := strings.Split(u.types("kubectl everynode top -A", "daemonset/agent", "daemonset/sample"), "\n")
	if !strings.Contains(top[1], "daemonset/agent") || !strings.Contains(top[1], "rolling") || strings.Count(strings.Join(top, "\n"), "rolling") != 1 {
		t.Errorf("the set that is in trouble is not the first one, and the only one that is rolling:\n%s", strings.Join(top, "\n"))
	}
	u.types("kubectl everynode status daemonset/agent", "rolling: 0 of 10 nodes are updated and available, 10 left", "2 of budget 2 used")
	u.types("kubectl everynode explain-node node-0007 daemonset/agent")
	u.leaves("kubectl logs -n everynode-system ")
	u.leaves("kubectl logs -n everynode-agents ")
	u.closes()
	u.inTheText()
}

// inTheText types what the page names within its sentences and tables.
func (u *typist) inTheText() {
	u.t.Helper()
	u.mentioned("kubectl everynode images daemonset/agent -o wide", "", agentNone)
	u.mentioned("kubectl everynode pre-delete list", "", "No pod waits for a hook.")
	u.mentioned("kubectl everynode ota list", "", "No pod has a newer version.")

	u.Type("kubectl delete daemonset agent")
	u.Poll("its pods are gone", func() error {
		pods, err := u.pods("agent")
		if err == nil && len(pods) > 0 {
			err = missing("%d are left", len(pods))
		}
		return err
	})
	u.Type("sed -e s,apps/v1,apps.kruise.io/v1beta1, -e s/sample/agent/g docs/samples/daemonset.yaml | kubectl create -f -")
	u.runs("agent", agentOne, pageNodes)
	const name = "ads/agent"
	u.mentioned("kubectl everynode plan ads/agent --image agent=registry.example/agent:2", name, fmt.Sprintf("recreate   %d", pageNodes))
	u.Type("kubectl everynode set-image ads/agent agent=" + agentTwo)
	u.mentioned("kubectl everynode pause NAME", name, "paused")
	u.mentioned("kubectl everynode resume NAME", name, "resumed")
	u.mentioned("kubectl everynode undo NAME", name, "rolled back to revision")
	u.mentioned("kubectl everynode status NAME --exit-status --timeout 10m", name, "finished")
	u.runs("agent", agentOne, pageNodes)
}
