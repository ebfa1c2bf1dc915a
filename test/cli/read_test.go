// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// report is what status prints as JSON, as far as it is looked at.
type report struct {
	Set, State, Revision                      string
	Desired, Updated, Available, Misscheduled int
	Nodes                                     []struct{ Name, Verdict string }
}

// sees is what status says of a set.
func (p *person) sees(arg string) (r report) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.types("", "status", arg, "-o", "json")), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// agrees compares what status says with what the controller of the cluster has written.
func (p *person) agrees(name string) error {
	r := p.sees("daemonset/" + name)
	now, err := p.s.Cluster.Client.AppsV1().DaemonSets(p.s.Name).Get(p.s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := now.Status
	wrote := [4]int{int(s.DesiredNumberScheduled), int(s.UpdatedNumberScheduled), int(s.NumberAvailable), int(s.NumberMisscheduled)}
	if said := [4]int{r.Desired, r.Updated, r.Available, r.Misscheduled}; s.ObservedGeneration != now.Generation || said != wrote {
		return missing("desired, updated, available and misscheduled are said to be %v, and the controller says %v", said, wrote)
	}
	return nil
}

// TestReadWithoutManager: on a cluster with the controller of Kubernetes alone, without a manager of Everynode and without the definitions of
// OpenKruise, everything that only reads works.
func TestReadWithoutManager(t *testing.T) {
	cluster := harness.Own(t, harness.Options{Nodes: nodes, Controller: harness.Native, Sim: quick()})
	p := &person{t, cluster.Space(t, nodes)}
	p.s.Kubectl("delete", "customresourcedefinitions", "-l", "everynode.dev/part-of=everynode") // a plane always has them
	p.s.Run(set, harness.WithBudget("2", "0"))
	p.s.Poll("status says what the controller says", func() error { return p.agrees(set) })
	p.types("finished", "status", set, "--exit-status", "--timeout", "1m")

	p.s.Update(set, harness.WithImage(harness.BrokenImage))
	p.s.Poll("two nodes are stuck", func() error {
		if r := p.sees(set); r.State != "rolling" || r.Updated != 2 || r.Available != nodes-2 {
			return missing("it is %+v", r)
		}
		return p.agrees(set)
	})
	p.isRefused(3, "has not finished within", "status", set, "--exit-status", "--timeout", "1s")
	stuck := ""
	for _, n := range p.sees(set).Nodes {
		if n.Verdict == "wait-available" {
			stuck = n.Name
		}
	}
	p.types("container daemon waits: ", "explain-node", stuck, set)
	p.types("this node uses 1 of it", "explain-node", stuck, set)
	p.types("daemonset/"+set, "explain-node", stuck)
	p.types("rolling", "top")
	p.types("2 *", "history", set)
	p.types(harness.Image, "history", set, "--revision", "1")
	p.types("+  - image: "+harness.BrokenImage, "diff", set, "1", "2")
	p.types("there is no manager", "doctor")
	p.isRefused(1, "this cluster has no Advanced DaemonSets", "status", "ads/"+set)
	p.isRefused(1, `ask for the verb "list" on "daemonsets.apps"`, "top", "--as", "nobody")
	p.isRefused(1, `ask for the verb "get" on "daemonsets.apps"`, "status", set, "--as", "nobody")

	p.types("rolled back to revision 1", "undo", set)
	p.types("finished", "status", set, "--exit-status", "--timeout", "1m")
	p.s.Poll("and the controller agrees", func() error { return p.agrees(set) })
}

// reads plays the verbs that only read on an Advanced DaemonSet whose update is under way, and looks the installation over.
func reads(p *person) {
	p.create(`{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 5, "partition": 3}}`, "")
	p.types("image updated", "set-image", set, "*="+harness.Image2)
	p.types("3 excluded by the set itself", "status", set, "--exit-status", "--timeout", "1m")
	kept := ""
	for _, n := range p.sees(advanced).Nodes {
		if n.Verdict == "wait-partition" {
			kept = n.Name
		}
	}
	p.types("partition 3: that many nodes keep their old pod", "explain-node", kept, set)
	p.types("finished", "top")
	p.types("2 *", "history", advanced, "-o", "wide")
	p.types("+  - image: "+harness.Image2, "diff", set, "1", "now")
	if out := p.types("a manager is active", "doctor"); strings.Contains(out, "failed  ") {
		p.t.Errorf("a plane is said to be broken:\n%s", out)
	}
	p.types("partition set to 0", "partition", set, "0")
	p.types("finished", "status", set, "--exit-status", "--timeout", "1m")
}
