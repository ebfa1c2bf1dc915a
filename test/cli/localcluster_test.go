// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"everynode.dev/everynode/test/harness"
)

// TestPageLocalCluster types docs/local-cluster.md: what a user does with any cluster, and the commands that break this one.
func TestPageLocalCluster(t *testing.T) {
	u := sits(t, harness.ReadPage(t, "docs/local-cluster.md"), 20)
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
	u.leavesAll()
	u.closes()
}
