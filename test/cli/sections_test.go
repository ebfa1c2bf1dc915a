// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// The sections of the README that are typed here; TestSmokeCanary types the one of the plugin.
const (
	sectionPlay     = "A cluster to play with"
	sectionAdvanced = "The Advanced DaemonSet"
	sectionEdge     = "The edge"
)

// inPlace is the set of the section on the Advanced DaemonSet.
const inPlace = "sample-in-place"

// readme is the README with the commands of one section.
func readme(t *testing.T, name string) *harness.Page {
	t.Helper()
	page := harness.ReadPage(t, "README.md")
	page.Commands = slices.DeleteFunc(page.Commands, func(c harness.PageCommand) bool { return c.Section != name })
	return page
}

// TestReadmeIsTyped: each command of the README is marked, or in a section that a test types.
func TestReadmeIsTyped(t *testing.T) {
	for _, c := range harness.ReadPage(t, "README.md").Commands {
		if c.Untyped == "" && !slices.Contains([]string{heading, sectionPlay, sectionAdvanced, sectionEdge}, c.Section) {
			t.Errorf("line %d of the README is not typed: %s", c.Line, c.Text)
		}
	}
}

// TestReadmeCluster types the section on a plane: what is done with any cluster, and what hurts this one.
func TestReadmeCluster(t *testing.T) {
	u := sits(t, readme(t, sectionPlay), 20)
	u.leaves("make up NODES=20")
	u.Type("bin/localplane up --nodes 20") // what make does when all is built
	u.types("export KUBECONFIG=")
	u.typesUntil("kubectl get nodes", `^node-\d+ +Ready `, u.nodes)
	u.types("kubectl create -f docs/samples/daemonset.yaml", "created")
	u.types("kubectl rollout status daemonset/sample", "successfully rolled out")
	before := u.runs(sample, one, u.nodes)
	u.types("kubectl set image daemonset/sample", "image updated", "successfully rolled out")
	for node, pod := range u.runs(sample, two, u.nodes) {
		if pod.uid == before[node].uid {
			t.Errorf("node %s has the pod %s from before the update", node, pod.name)
		}
	}
	u.types("kubectl rollout undo daemonset/sample", "rolled back")
	u.runs(sample, one, u.nodes)

	const allReady = "nodes: 20 Ready, 0 NotReady, 0 cut"
	u.types("bin/localplane status", "manager ", allReady)
	u.types("bin/localplane node cut node-0007", "cut node-0007")
	u.goesDark("node-0007")
	u.Type("bin/localplane node heal node-0007")
	u.TypeUntil("bin/localplane status", func(out string) error { return shows(out, allReady) })
	u.types("bin/localplane node api node-0007", "http://127.0.0.1:", "token of the owner in ")
	u.types("bin/localplane component kill manager", "killed manager")
	u.TypeUntil("bin/localplane status", lines(`^manager +killed `, 1))
	u.Type("bin/localplane component start manager")
	u.types("bin/localplane nodes add 80", "added node-0021 to node-0100")
	u.nodes += 80
	u.runs(sample, one, u.nodes) // so the manager is back
	u.types("bin/localplane down", "stopped")
	u.closes()
}

// TestReadmeAdvanced types the section on the Advanced DaemonSet.
func TestReadmeAdvanced(t *testing.T) {
	u := opens(t, "README.md", "native,kruise")
	u.page = readme(t, sectionAdvanced)
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
	u.closes()
}

// TestReadmeEdge types the section on the edge; NAME is the pod of node-0002.
func TestReadmeEdge(t *testing.T) {
	const node = "node-0002"
	u := sits(t, readme(t, sectionEdge), 3)
	u.types("bin/localplane up --nodes 3 --dialects native,openyurt")
	u.types("kubectl apply -f docs/samples/edge/ota.yaml", "created")
	before := u.runs(nginx, oldNginx, u.nodes)
	u.types("kubectl set image daemonset/nginx-daemonset", "image updated")
	u.typesUntil("kubectl describe pods | grep PodNeedUpgrade", `^ +PodNeedUpgrade +True *$`, u.nodes)
	u.stays(before, u.runs(nginx, oldNginx, u.nodes))

	address, token := u.TypeNodeAPI(u.typable("bin/localplane node api --listen " + harness.NodeAPIAddress + " " + node).Text)
	upgrade := u.typable("curl -X POST " + harness.NodeAPIAddress + "/").Text
	code, body, err := u.Curl(strings.NewReplacer(harness.NodeAPIAddress, address, "NAME", before[node].name).Replace(upgrade), token)
	if err != nil || code != 200 || body != "Start updating pod default/"+before[node].name {
		t.Fatalf("$ %s\nis answered %d %s (%v)", upgrade, code, body, err)
	}
	after := u.runs(nginx, newNginx, 1)
	u.stays(before, after, node)
	if after[node].image != newNginx {
		t.Errorf("another node than %s was upgraded: %v", node, after)
	}
	u.closes()
}
