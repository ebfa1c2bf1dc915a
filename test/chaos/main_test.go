// SPDX-License-Identifier: Apache-2.0

// Package chaos breaks a plane on purpose while sets of all dialects are rolled, and judges from outside what the managers do.
//
// Vocabulary: a fault is something that breaks and, a while later, is repaired again; a schedule is a list of faults that a seed alone
// decides; a troupe is the five sets that are rolled, and the users who roll, pause, undo and delete; the ledger is what etcd has
// written down of them (observe.Ledger), the audit log what the API server has (observe.JudgeWrites).
//
// The rule: what is asked of the managers is asked of the ledger and of the audit log, never of what a manager says of itself.
//
//	go test ./chaos -run TestSmoke                          a few faults on 60 nodes
//	go test ./chaos -run TestChaos -minutes 15 -seed 7      300 nodes
package chaos

import (
	"flag"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// Flags.
var (
	minutes = flag.Int("minutes", 15, "for how many minutes TestChaos breaks things")
	seed    = flag.Uint64("seed", 1, "which faults come when")
	out     = flag.String("out", "", "the directory in which TestChaos leaves chaos.json and chaos.md")
	docs    = flag.String("docs", "", "the directory whose reliability.md TestChaos writes its figures into")
)

const (
	firstManager  = harness.ManagerComponent
	secondManager = harness.ManagerComponent + "-2"
	apiServer     = "kube-apiserver"
	etcd          = "etcd"
	lease         = "everynode-manager"
)

// grace is how long a node may be silent before it is not ready.
const grace = 20 * time.Second

// plane is one with two managers of all three dialects, and an audit log.
func plane(t *testing.T, nodes, managers int) *harness.Cluster {
	t.Helper()
	return harness.Own(t, harness.Options{
		Nodes: nodes, Controller: harness.Everynode, Advanced: true, Edge: true, Managers: managers, Sim: quick(), Grace: grace, AuditWrites: true,
	})
}

// quick is a profile whose delays can be seen and not felt.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 300*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}
