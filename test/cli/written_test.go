// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// pageEdge is typed by test/edge, which reads it in its own way, and pageFirstDay by test/install, on real nodes.
const (
	pageEdge     = "docs/edge.md"
	pageFirstDay = "docs/first-day.md"
)

// pagesTyped are the pages with commands that tests of this package type.
func pagesTyped() []string {
	return append(pagesOfOperators(), pageTutorial, "docs/dialects/advanced.md", "docs/dialects/native.md", "docs/dialects/openyurt.md", "docs/dialects/policy.md",
		"docs/local-cluster.md", "docs/migration.md", "docs/operations.md", "docs/plan.md", "docs/rollout-policy.md")
}

// pagesOfOperators are those that TestPagesOfOperators types.
func pagesOfOperators() []string {
	return []string{
		"docs/differences-from-openkruise.md", "docs/image-pulls.md", "docs/install.md", "docs/node-api.md",
		"docs/runbooks/agent-store.md", "docs/runbooks/another-controller.md", "docs/runbooks/api-server-slow.md", "docs/runbooks/approval-forgotten.md", "docs/runbooks/clock-wrong.md", "docs/runbooks/definition-deleted.md",
		"docs/runbooks/hook-not-released.md", "docs/runbooks/no-leader.md", "docs/runbooks/node-blocked.md", "docs/runbooks/outside-window.md", "docs/runbooks/pulls-fail.md",
		"docs/runbooks/restored-from-backup.md", "docs/runbooks/rollout-failed.md", "docs/runbooks/rollout-stuck.md", "docs/runbooks/too-few-pods.md", "docs/runbooks/versions.md",
		"docs/runbooks/wave-overdue.md", "docs/runbooks/webhook-certificate.md", "docs/security.md",
	}
}

// TestPagesAreTyped: each command of each page that people have written is marked, with the reason, or on a page that a test types.
func TestPagesAreTyped(t *testing.T) {
	pages := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/dialects/*.md", "docs/runbooks/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("found no page %s: %v", pattern, err)
		}
		for _, name := range found {
			if page := path.Join(path.Dir(pattern), filepath.Base(name)); page != pageEdge && page != pageFirstDay {
				pages = append(pages, page)
			}
		}
	}
	typed := pagesTyped()
	for _, name := range pages {
		of := slices.Index(typed, name)
		left := 0
		for _, c := range harness.ReadPage(t, name).Commands {
			if c.Untyped != "" {
				continue
			}
			if left++; of < 0 {
				t.Errorf("line %d of %s is a command, which nobody types: %s", c.Line, name, c.Text)
			}
		}
		if of >= 0 {
			typed = slices.Delete(typed, of, of+1)
			if left == 0 {
				t.Errorf("%s has no command to be typed", name)
			}
		}
	}
	if len(typed) > 0 {
		t.Errorf("there are no pages %q", typed)
	}
}

// reads turns to another page, whose commands are about these things.
func (u *typist) reads(page string, things ...string) {
	u.t.Helper()
	u.page, u.at = harness.ReadPage(u.t, page), 0
	u.read = append(u.read, page)
	names := strings.NewReplacer(things...)
	for i := range u.page.Commands {
		u.page.Commands[i].Text = names.Replace(u.page.Commands[i].Text)
	}
}

// leavesAll passes over all commands that are marked, up to the next one that is not.
func (u *typist) leavesAll() {
	u.t.Helper()
	for u.at < len(u.page.Commands) && u.page.Commands[u.at].Untyped != "" {
		u.at++
	}
}

// typesUntilItSays types the next command until it prints that.
func (u *typist) typesUntilItSays(begins string, texts ...string) {
	u.t.Helper()
	u.TypeUntil(u.typable(begins).Text, func(out string) error { return shows(out, texts...) })
}

// TestPagesOfOperators types the runbooks, and what other pages have those do who look after the cluster: where something is the matter for each of them.
func TestPagesOfOperators(t *testing.T) {
	u := opens(t, "docs/install.md", "native,kruise,openyurt")
	u.installs()
	u.Type("kubectl create namespace shop")
	u.runsAdvanced()
	u.holds()
	u.isStuck()
	u.isBlocked()
	u.isGated()
	u.looksAround()
	u.looksAtManagers()
	if slices.Sort(u.read); !slices.Equal(u.read, pagesOfOperators()) {
		t.Errorf("the pages %q are typed, want %q", u.read, pagesOfOperators())
	}
}

// installs types what pages have people do once.
func (u *typist) installs() {
	u.t.Helper()
	u.reads("docs/install.md")
	u.leavesAll()
	u.types("kubectl create clusterrolebinding everynode-viewers", "created")
	u.leavesAll()
	u.types("kubectl everynode doctor --before-uninstall", "0 failed, 0 skipped")
	u.leavesAll()
	u.closes()
	u.reads("docs/node-api.md", "NAME", "default")
	u.leavesAll()
	u.types("kubectl create token default --audience everynode-agent/NODE", "ey")
	u.leavesAll()
	u.closes()
	u.Type("kubectl create namespace agents")
	u.reads("docs/image-pulls.md")
	u.types("kubectl create rolebinding everynode-pull-secrets", "created")
	u.types("kubectl create clusterrolebinding everynode-manager-image-pulls", "created")
	u.closes()
}

// runsAdvanced types what is said of an Advanced DaemonSet with which all is well, beside a DaemonSet of that name.
func (u *typist) runsAdvanced() {
	u.t.Helper()
	u.Type("sed -e s,apps/v1,apps.kruise.io/v1beta1, -e s/sample/agent/g docs/samples/daemonset.yaml | kubectl create -f -")
	u.Type("sed -e 's/app: sample/app: native/' -e s/sample/agent/g docs/samples/daemonset.yaml | kubectl create -f -")
	u.runs("agent", agentOne, pageNodes)
	u.runs("native", agentOne, pageNodes)
	u.reads("docs/differences-from-openkruise.md")
	u.types("kubectl wait --for=condition=Progressing=false", "condition met")
	u.types("kubectl get ads agent", "agent")
	u.types("kubectl get controllerrevisions -l app=agent", "daemonset.apps.kruise.io/agent")
	u.leaves("kubectl drain ")
	u.closes()
	u.reads("docs/security.md")
	u.types("kubectl label daemonsets agent ", "labeled")
	u.types("kubectl label customresourcedefinitions ", "labeled")
	u.closes()
}

// holds types the runbook of a hook that holds a pod.
func (u *typist) holds() {
	u.t.Helper()
	u.Type(`sed -e s,apps/v1,apps.kruise.io/v1beta1, -e 's/ labels: {app: sample}/ labels: {app: sample, hold: "yes"}/' -e s/sample/held/g ` +
		"docs/samples/daemonset.yaml | kubectl create -n shop -f -")
	u.Type(`kubectl patch ads held -n shop --type merge -p '{"spec":{"lifecycle":{"preDelete":{"labelsHandler":{"hold":"yes"}}}}}'`)
	u.TypeUntil("kubectl everynode status ads/held -n shop", func(out string) error { return shows(out, "finished") })
	u.Type("kubectl everynode set-image ads/held held=registry.example/held:2 -n shop")
	u.reads("docs/runbooks/hook-not-released.md", "NAMESPACE", "shop", "NAME", "held")
	u.typesUntil("kubectl everynode pre-delete list ads/held -n shop", `^ads/held .*hold=yes`, 1)
	u.types("kubectl get pods -n shop", "PreparingDelete", `hold: "yes"`)
	u.types("kubectl get ads held -n shop", `{"labelsHandler":{"hold":"yes"}}`)
	u.closes()
}

// isStuck types the runbook of an update whose first wave fails.
func (u *typist) isStuck() {
	u.t.Helper()
	u.Type("sed s/sample/stuck/g docs/samples/daemonset.yaml | kubectl create -n shop -f -")
	u.TypeUntil("kubectl everynode status daemonset/stuck -n shop", func(out string) error { return shows(out, "finished") })
	u.Type("kubectl set image daemonset/stuck -n shop stuck=registry.example/stuck:non-existent")
	u.reads("docs/runbooks/rollout-stuck.md", "NAMESPACE", "shop", "NAME", "stuck", "NODE", "node-0007")
	u.typesUntilItSays("kubectl everynode status daemonset/stuck -n shop", "rolling: ", "1 of budget 1 used")
	u.typesUntilItSays("kubectl everynode explain-node node-0007 daemonset/stuck -n shop", "wait-budget")
	u.typesUntilItSays("kubectl get pods -n shop", "ImagePull")
	u.closes()
}

// isBlocked types the runbook of writes that are refused: a quota lets no pod be made.
func (u *typist) isBlocked() {
	u.t.Helper()
	u.Type("kubectl create namespace full")
	u.Type("kubectl create quota none --hard=pods=0 -n full")
	u.Type("sed s/sample/more/g docs/samples/daemonset.yaml | kubectl create -n full -f -")
	u.reads("docs/runbooks/node-blocked.md", "NAMESPACE", "full", "NAME", "more")
	u.typesUntilItSays("kubectl everynode status daemonset/more -n full", "FailedCreate", "exceeded quota")
	u.typesUntilItSays("kubectl get events -n full", "FailedCreate", "exceeded quota")
	u.closes()
	u.reads("docs/runbooks/too-few-pods.md", "NAMESPACE", "full", "NAME", "more")
	u.typesUntilItSays("kubectl everynode status daemonset/more -n full", "exceeded quota")
	u.types("kubectl get events -n full", "FailedCreate")
	u.closes()
}

// isGated types the runbooks of rollouts that their policy holds.
func (u *typist) isGated() {
	u.t.Helper()
	gated := []string{"NAMESPACE", "gated", "NAME", "gate", "NODE", "node-0007"}
	u.Type("kubectl create namespace gated")
	u.Type("sed s/sample/gate/g docs/samples/daemonset.yaml | kubectl create -n gated -f -")
	u.TypeUntil("kubectl everynode status daemonset/gate -n gated", func(out string) error { return shows(out, "finished") })
	u.Type("kubectl everynode policy init daemonset/gate -n gated --canary 1 --soak 1s --approval | kubectl apply -n gated -f -")
	u.Type("kubectl wait --for=condition=Ready rolloutpolicy/gate -n gated --timeout 60s")
	u.Type("kubectl everynode set-image daemonset/gate gate=registry.example/gate:non-existent -n gated")
	u.reads("docs/runbooks/wave-overdue.md", gated...)
	u.typesUntilItSays("kubectl get rolloutpolicies -A", "Rolling")
	u.typesUntilItSays("kubectl everynode status daemonset/gate -n gated", "Rolling, wave canary (1 of")
	u.typesUntilItSays("kubectl everynode explain-node node-0007 daemonset/gate -n gated", "wait-wave")
	u.closes()
	u.Type("kubectl everynode set-image daemonset/gate gate=registry.example/gate:2 -n gated")
	u.reads("docs/runbooks/approval-forgotten.md", gated...)
	u.typesUntilItSays("kubectl get rolloutpolicies -A", "WaitingForApproval")
	u.types("kubectl get rolloutpolicies -A -o jsonpath", "gated/gate 2")
	u.types("kubectl everynode status daemonset/gate -n gated", "WaitingForApproval")
	u.closes()
	u.TypeUntil("kubectl everynode status daemonset/gate -n gated", func(out string) error { return shows(out, "Complete") })
	u.Type(`kubectl patch rolloutpolicy gate -n gated --type merge -p '{"spec":{"windows":[{"schedule":"0 0 29 2 *","duration":"1m"}]}}'`)
	u.Type("kubectl everynode set-image daemonset/gate gate=registry.example/gate:3 -n gated")
	u.reads("docs/runbooks/outside-window.md", gated...)
	u.typesUntilItSays("kubectl get rolloutpolicies -A", "WaitingForWindow")
	u.types("kubectl everynode status daemonset/gate -n gated", "a window opens in")
	u.closes()
	u.Type(`kubectl patch rolloutpolicy gate -n gated --type merge -p '{"spec":{"windows":null,"failure":{"waitingReasons":["ImagePullBackOff"]}}}'`)
	u.Type("kubectl everynode set-image daemonset/gate gate=registry.example/gate-4:non-existent -n gated")
	u.reads("docs/runbooks/rollout-failed.md", gated...)
	u.typesUntilItSays("kubectl get rolloutpolicies -A", "Failed")
	u.types("kubectl everynode status daemonset/gate -n gated", "ImagePullBackOff")
	u.typesUntilItSays("kubectl everynode explain-node node-0007 daemonset/gate -n gated", "wait-failed")
	u.closes()
}

// looksAround types the runbooks of what may be wrong around the manager.
func (u *typist) looksAround() {
	u.t.Helper()
	u.reads("docs/runbooks/api-server-slow.md")
	u.types("kubectl get --raw '/readyz", "readyz check passed")
	u.types("kubectl get --raw /api/v1/", "PodList")
	u.types("kubectl get validatingwebhookconfigurations", "everynode-validating")
	u.closes()
	u.reads("docs/runbooks/pulls-fail.md")
	u.types("kubectl get imagepulljobs -A")
	u.types("kubectl get nodeimages", "node-0001")
	u.types("kubectl everynode images")
	u.closes()
	u.reads("docs/runbooks/agent-store.md")
	u.types("kubectl get pods -A -o wide")
	u.leaves("kubectl logs ")
	u.closes()
	u.reads("docs/runbooks/restored-from-backup.md")
	u.types("kubectl get lease everynode-manager -n everynode-system", "holderIdentity: ")
	u.types("kubectl get daemonsets.apps,daemonsets.apps.kruise.io -A", "agent")
	u.closes()
	u.reads("docs/runbooks/definition-deleted.md")
	u.types("kubectl get customresourcedefinitions", "daemonsets.apps.kruise.io")
	u.types("kubectl everynode doctor", " 0 failed")
	u.closes()
	u.reads("docs/runbooks/versions.md")
	u.types("kubectl version", "Server Version")
	u.types("kubectl everynode version")
	u.types("kubectl everynode doctor", " 0 failed")
	u.closes()
	u.reads("docs/runbooks/clock-wrong.md")
	u.types("kubectl get lease everynode-manager -n everynode-system", "renewTime: ")
	u.types("kubectl get leases -n kube-node-lease", "node-0001")
	u.closes()
}

// looksAtManagers types the runbooks about managers and their webhooks.
func (u *typist) looksAtManagers() {
	u.t.Helper()
	u.reads("docs/runbooks/no-leader.md")
	u.types("kubectl get pods -n everynode-system")
	u.types("kubectl get lease everynode-manager -n everynode-system", "holderIdentity: ")
	u.leaves("kubectl logs ")
	u.closes()

	u.reads("docs/runbooks/webhook-certificate.md")
	u.types("kubectl everynode doctor", "a manager is active", " 0 failed")
	u.types("kubectl get endpointslices -n everynode-system")
	u.leaves("kubectl get secret everynode-webhook-certs ")
	u.leaves("kubectl logs ")
	u.closes()

	u.reads("docs/runbooks/another-controller.md")
	u.types("kubectl everynode doctor")
	u.typesUntil("kubectl get daemonset everynode-probe -n everynode-system", `^\d+ \d*$`, 1)
	u.Type(`echo '{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "yurt-manager", "namespace": "kube-system"}}' | kubectl create -f -`)
	u.types("kubectl get lease -A | grep ", "yurt-manager")
	u.closes()
}
