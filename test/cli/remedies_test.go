// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// remedy is a command within the text of a runbook.
type remedy struct {
	command string
	// typed is what TestPagesOfOperators types, about the things that it has; empty for the command as it stands there.
	typed string
	// says is what it has to print.
	says string
	// untyped is why it is not typed.
	untyped string
}

// remedies are all of them, by page.
func remedies() map[string][]remedy {
	const (
		held         = "$(kubectl get pods -n shop -l lifecycle.apps.kruise.io/state=PreparingDelete -o jsonpath='{.items[0].metadata.name}')"
		notInPods    = "on a local plane neither the manager nor the agents are pods"
		advancedOnes = "sed -e s,apps/v1,apps.kruise.io/v1beta1, -e s/sample/agent/g docs/samples/daemonset.yaml | "
	)
	return map[string][]remedy{
		"agent-store.md":        {{command: "kubectl everynode ota list"}},
		"another-controller.md": {{command: "kubectl everynode adopt openyurt", untyped: "TestVerbs/TakeOverOpenYurt types it next to a substitute for yurt-manager"}},
		"analysis-unknown.md":   {{command: "kubectl everynode promote daemonset/NAME -n NAMESPACE", untyped: "no analysis is measured on a local plane without a provider; TestPageRolloutPolicy types it"}},
		"api-server-slow.md":    {{command: "kubectl get flowschemas", says: "everynode"}},
		"approval-forgotten.md": {
			{command: "kubectl everynode approve daemonset/NAME -n NAMESPACE", typed: "kubectl everynode approve daemonset/gate -n gated --dry-run=server", says: "would be approved"},
			{command: "kubectl everynode reject daemonset/NAME -n NAMESPACE --reason TEXT", typed: "kubectl everynode reject daemonset/gate -n gated --reason slow", says: "is rejected"},
			{command: "kubectl get rolloutapprovals -n NAMESPACE -o wide", typed: "kubectl get rolloutapprovals -n gated -o wide", says: "Reject"},
			{command: "kubectl everynode undo daemonset/NAME -n NAMESPACE", typed: "kubectl everynode undo daemonset/gate -n gated --to-revision 1", says: "rolled back"},
		},
		"rollout-failed.md": {
			{command: "kubectl everynode undo daemonset/NAME -n NAMESPACE --to-committed", typed: "kubectl everynode undo daemonset/gate -n gated --to-committed --dry-run=server", says: "daemonset/gate"},
			{command: "kubectl everynode retry daemonset/NAME -n NAMESPACE", typed: "kubectl everynode retry daemonset/gate -n gated --dry-run=server", says: "daemonset/gate"},
			{command: "kubectl get daemonset NAME -n NAMESPACE -o yaml --show-managed-fields", typed: "kubectl get daemonset gate -n gated -o yaml --show-managed-fields", says: "manager: "},
		},
		"wave-overdue.md": {
			{command: "kubectl everynode promote daemonset/NAME -n NAMESPACE", untyped: "no step or zone is left out here; internal/cli/approve has what it prints"},
			{command: "kubectl everynode reject daemonset/NAME -n NAMESPACE --reason TEXT", typed: "kubectl everynode reject daemonset/gate -n gated --reason broken", says: "is rejected"},
		},
		"definition-deleted.md": {{command: "kubectl describe crd NAME", typed: "kubectl describe crd daemonsets.apps.kruise.io", says: "NamesAccepted"}},
		"hook-not-released.md": {
			{command: "kubectl everynode pre-delete release POD ads/NAME -n NAMESPACE", typed: "kubectl everynode pre-delete release " + held + " ads/held -n shop", says: "released"},
			{command: "kubectl label pod POD KEY-", typed: "kubectl label pod -n shop -l app=held hold-", says: "unlabeled"},
			{command: "kubectl edit pod POD", untyped: "it opens an editor"},
		},
		"no-leader.md": {
			{command: "kubectl everynode doctor --before-uninstall", typed: "kubectl everynode doctor --before-uninstall || true", says: ", 0 skipped"},
			{command: "kubectl describe replicaset -n everynode-system"},
		},
		"node-blocked.md": {{command: "kubectl everynode explain-node NODE", typed: "kubectl everynode explain-node node-0001 daemonset/more -n full", says: "exceeded quota"}},
		"restored-from-backup.md": {
			{command: "kubectl rollout restart deployment/everynode-manager -n everynode-system", untyped: notInPods},
			{command: "kubectl rollout restart daemonset/everynode-agent -n everynode-agents", untyped: notInPods},
		},
		"rollout-stuck.md": {
			{command: "kubectl everynode undo daemonset/NAME", typed: "kubectl everynode undo daemonset/stuck -n shop", says: "rolled back"},
			{command: "kubectl rollout undo daemonset/NAME", typed: "kubectl rollout undo daemonset/stuck -n shop", says: "rolled back"},
			{command: "kubectl everynode top", typed: "kubectl everynode top -A", says: "daemonset/stuck"},
		},
		"too-few-pods.md": {
			{command: "kubectl describe pod", typed: "kubectl describe pod -n shop -l app=stuck", says: "Conditions:"},
			{command: "kubectl describe node", typed: "kubectl describe node node-0001", says: "Conditions:"},
		},
		"versions.md": {{command: "kubectl get lease everynode-manager-slow-writes -n everynode-system --ignore-not-found"}},
		"webhook-certificate.md": {
			{command: "kubectl delete secret everynode-webhook-certs -n everynode-system", says: "deleted",
				typed: "kubectl delete secret everynode-webhook-certs -n everynode-system && kubectl wait --for=create secret/everynode-webhook-certs -n everynode-system --timeout=2m"},
			{command: "kubectl apply --dry-run=server", typed: advancedOnes + "kubectl apply --dry-run=server -f -", says: "(server dry run)"},
		},
	}
}

// TestRemediesAreTyped: each command within the text of a runbook is one that TestPagesOfOperators types, or that is listed with the reason.
func TestRemediesAreTyped(t *testing.T) {
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no runbooks: %v", err)
	}
	all, inText := remedies(), regexp.MustCompile("`(kubectl [^`]+)`")
	for _, file := range pages {
		name := filepath.Base(file)
		page := harness.ReadPage(t, "docs/runbooks/"+name)
		var want, have []string
		for _, found := range inText.FindAllStringSubmatch(page.Text, -1) {
			if !slices.ContainsFunc(page.Commands, func(c harness.PageCommand) bool { return c.Text == found[1] }) {
				want = append(want, found[1])
			}
		}
		for _, r := range all[name] {
			have = append(have, r.command)
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(slices.Compact(want), have) {
			t.Errorf("the text of %s has the commands %q, and %q are typed or listed with a reason", name, want, have)
		}
		delete(all, name)
	}
	if len(all) > 0 {
		t.Errorf("there are no such runbooks: %v", all)
	}
}

// remedies types the commands within the text of the runbook that it has read.
func (u *typist) remedies() {
	u.t.Helper()
	name, found := strings.CutPrefix(u.page.Name, "docs/runbooks/")
	if !found {
		return
	}
	for _, r := range remedies()[name] {
		if r.untyped != "" {
			u.t.Logf("%s: %s is not typed here (%s)", u.page.Name, r.command, r.untyped)
			continue
		}
		line := r.command
		if r.typed != "" {
			line = r.typed
		}
		if out := u.Type(line); !strings.Contains(out, r.says) {
			u.t.Errorf("%s:\n$ %s\n%sit should say %q", u.page.Name, line, out, r.says)
		}
	}
}
