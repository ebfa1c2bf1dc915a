// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/approve"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

const waitingPolicy = `{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "agents", "namespace": "default", "uid": "uid-policy", "generation": 1}, "spec": {
	"targets": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": "agent"}], "waves": [{"name": "canary", "nodes": {"count": 1}, "after": [{"type": "Approval"}]}]},
	"status": {"sets": [{"apiVersion": "apps.kruise.io/v1beta1", "name": "agent", "enforcement": "Full", "phase": "WaitingForApproval", "wave": "canary", "targetRevision": "agent-7f", "targetNumber": 2,
	"committedRevision": "agent-6c", "waves": [{"name": "canary", "nodes": 1, "updated": 1, "available": 1, "phase": "WaitingForApproval"}]}]}}`

// A decision about a revision that a person has seen is not made about another one that has begun to roll out before the confirmation.
func TestADecisionIsAboutTheRevisionThatWasShown(t *testing.T) {
	for verb, wave := range map[string]string{"approve": "canary", "reject": "", undoToCommitted: ""} {
		cluster := zoned(t, roll())
		cluster.HonourDryRun(t)
		if err := cluster.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, waitingPolicy), "default"); err != nil {
			t.Fatal(err)
		}
		a := &toApply{window: open(t, cluster), request: map[string]any{"verb": verb, "namespace": "default", "set": "ads/agent", "dryRun": true}}
		a.s.verbs = func(o *options.Options) *cobra.Command {
			root := program(o)
			root.AddCommand(approve.Commands(o)...)
			for _, c := range root.Commands() {
				if c.Name() == "undo" {
					approve.AddUndo(o, c)
				}
			}
			return root
		}
		tried := a.post(t, verbPath)
		if verb != undoToCommitted && !strings.Contains(tried.Output, "agent-7f") || !strings.Contains(tried.Line, " --revision=agent-7f ") || tried.Exact["revision"] != "agent-7f" || tried.Exact["wave"] != wave {
			t.Fatalf("%s, tried: %+v", verb, tried)
		}
		if verb == undoToCommitted && !strings.HasPrefix(tried.Line, "kubectl everynode undo --to-committed -n default ") {
			t.Errorf("the command is %s", tried.Line)
		}
		a.edit(t, policies.Resource(), "agents", func(u *unstructured.Unstructured) {
			sets, _, _ := unstructured.NestedSlice(u.Object, "status", "sets")
			sets[0].(map[string]any)["targetRevision"], sets[0].(map[string]any)["targetNumber"] = "agent-8a", int64(3)
			_ = unstructured.SetNestedSlice(u.Object, sets, "status", "sets")
		})
		a.request["dryRun"] = false
		if got := a.post(t, verbPath); got.Error == "" {
			t.Errorf("%s of agent-7f was shown and confirmed, and stored is: %s", verb, got.Output)
		}
		a.request["flags"] = tried.Exact // what the page sends with the confirmation
		if got := a.post(t, verbPath); !strings.Contains(got.Error, "is of revision agent-8a now") {
			t.Errorf("%s with the revision that was shown: %+v", verb, got)
		}
	}
}
