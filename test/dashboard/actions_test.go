// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/chrome"
	"everynode.dev/everynode/test/harness"
)

// field is a field of the set, as kubectl prints it.
func field(s *harness.Space, path string) string {
	return s.Kubectl("get", "daemonsets.apps.kruise.io", set, "-o", "jsonpath={"+path+"}")
}

// fields waits until fields of the set have values.
func fields(s *harness.Space, what string, want map[string]string) {
	s.Poll(what, func() error {
		for path, value := range want {
			if now := field(s, path); now != value {
				return fmt.Errorf("%s is %q", path, now)
			}
		}
		return nil
	})
}

// acts opens the dialog of an action, enters a value, if there is one, looks at what it would do, and does it.
func (b *browser) acts(verb, value, would, line string) {
	b.t.Helper()
	steps := []chromedp.Action{chrome.Press(chrome.Named(".actions > button", verb)), chromedp.WaitVisible("dialog[open]")}
	if value != "" {
		steps = append(steps, chrome.Until(chrome.Find("dialog button.main")+".disabled"), chrome.Enter("dialog input", value), chrome.Press(chrome.Find("dialog button[type=submit]")))
	}
	steps = append(steps,
		chrome.Until(fmt.Sprintf("(document.querySelector('dialog pre')?.innerText || '').includes(%q)", would)),
		chrome.Until(fmt.Sprintf("document.querySelector('dialog h2').innerText.startsWith(%q)", verb+" ")),
		chrome.Until(fmt.Sprintf("document.querySelector('dialog .line code').innerText === %q", line)))
	b.Does(verb, steps...)
	b.accessible(verb)
	b.Does(verb+", confirmed", chrome.Press(chrome.Find("dialog button.main")), chrome.Press(chrome.Named("dialog .buttons button", "Close")), chrome.Until(`!document.querySelector("dialog")`))
}

const rolling = ".spec.updateStrategy.rollingUpdate."

// TestActions does by the page what the verbs of the plugin do: each says first what it would do, and has the command for a shell.
func TestActions(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, nodes)
	s.LabelNode(s.Nodes[0], "dashboard-canary", "yes")
	s.Apply(strings.Replace(advancedSet(s), `"spec": {`, `"spec": {"lifecycle": {"preDelete": {"labelsHandler": {"hold": "yes"}}},`, 1))
	defer s.Apply(onePolicy(s))()
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	of := " -n " + s.Name + onPlane + " ads/" + set
	b.acts("partition", "50%", "partition set to 50%", "kubectl everynode partition"+of+" 50%")
	b.acts("canary", "dashboard-canary=yes", "canary on nodes that match dashboard-canary=yes", "kubectl everynode canary"+of+" dashboard-canary=yes")
	fields(s, "a partition and a canary", map[string]string{rolling + "partition": "50%", rolling + "selector.matchLabels.dashboard-canary": "yes"})
	b.Does("what a form begins with", chrome.Until(`document.querySelector(".foresight input:not(.wide)").placeholder === "50%"`))
	b.acts("partition", "0", "partition set to 0", "kubectl everynode partition"+of+" 0")
	b.acts("suspend", "", "suspended", "kubectl everynode suspend"+of)
	b.acts("resume", "", "resumed", "kubectl everynode resume"+of)
	b.acts("pause", "", "paused", "kubectl everynode pause"+of)
	fields(s, "a pause", map[string]string{rolling + "paused": "true"})
	b.acts("resume", "", "resumed", "kubectl everynode resume"+of)

	s.Kubectl("label", "pods", "--all", "hold=yes")
	b.acts("set-image", "agent="+harness.Image2, "image updated", "kubectl everynode set-image"+of+" agent="+harness.Image2)
	b.Does("the pod of the canary, which waits for its hook", chrome.Until(chrome.Count(".cell.g4")+" === 1"), chrome.Press(chrome.Find(".cell.g4")),
		chrome.Press(chrome.Named(".panel button", "release the pod from its hook")), chrome.Until(`(document.querySelector("dialog pre")?.innerText || "").includes("released: removed label hold=yes")`),
		chrome.Until(`document.querySelector("dialog .line code").innerText.startsWith("kubectl everynode pre-delete release -n `+s.Name+onPlane+` pod/`+set+`-")`),
		chrome.Press(chrome.Find("dialog button.main")), chrome.Press(chrome.Named("dialog .buttons button", "Close")))
	s.Poll("the pod of the canary is updated", func() error {
		if now := images(t, s)[s.Nodes[0]]; now != harness.Image2 {
			return fmt.Errorf("its image is %q", now)
		}
		return nil
	})
	b.Quiet()
}

// TestForesightOfAPolicy edits the canary, and then the rollout policy, in the page: the plan shows what would come of it, and nothing is changed before it is
// applied. Then the rollout goes as the new policy says.
func TestForesightOfAPolicy(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, nodes)
	s.LabelNode(s.Nodes[0], "dashboard-canary", "yes")
	s.Apply(advancedSet(s))
	defer s.Apply(onePolicy(s))()
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	const selector = ".foresight label:nth-of-type(3) input"
	b.Does("a plan for a canary", chrome.Press(chrome.Find(".foresight summary")), chrome.Enter(".foresight input.wide", harness.Image2), chrome.Enter(selector, "dashboard-canary=yes"),
		chrome.Press(chrome.Find(".foresight button[type=submit]")), chrome.Until(`(document.querySelector("[data-plan]")?.innerText || "").includes("1 recreate, 5 wait")`),
		chrome.Until(`document.querySelector("[data-plan] .line").innerText.includes("--selector=dashboard-canary=yes")`))
	b.Does("a plan for the policy of the cluster", chromedp.Evaluate(chrome.Find(selector)+".focus(); "+chrome.Find(selector)+".select(); document.execCommand('delete')", nil),
		chrome.Press(chrome.Find(".foresight input[type=checkbox]")), chrome.Until(`document.querySelector(".foresight textarea").value.includes("name: waves")`))
	two := strings.Replace(onePolicy(s), `{"name": "all", "nodes": {"percent": 100}}`,
		`{"name": "two", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}, {"name": "rest", "nodes": {"percent": 100}}`, 1)
	two = strings.Join(strings.Fields(two), " ") // an input gets what a person types
	b.Does("a plan for another policy", chrome.Enter(".foresight textarea", two), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(`(document.querySelector("[data-plan]")?.innerText || "").includes("wave two: 2 nodes")`), chrome.Until(`document.querySelector("[data-plan]").innerText.includes("then needs an approval")`),
		chrome.Until(`document.querySelector("[data-plan] .line code").innerText.includes("--policy=policy.yaml")`))
	b.accessible("a plan for a policy")
	if now := s.Kubectl("get", "rolloutpolicies.everynode.dev", "waves", "-o", "jsonpath={.spec.waves[*].name}"); now != "all" || field(s, ".spec.template.spec.containers[0].image") != harness.Image {
		t.Fatalf("a plan has changed the policy to %s, or the set", now)
	}
	s.Kubectl("patch", "rolloutpolicies.everynode.dev", "waves", "--type=merge", "-p", `{"spec": {"waves": [{"name": "every", "nodes": {"percent": 100}}]}}`)
	b.refused("rolloutpolicy/waves has been changed (generation 2, not 1)", "wave two: 2 nodes")
	b.Does("the change", chrome.Press(chrome.Find("[data-plan] button.main")), chrome.Until(`(document.querySelector("dialog pre")?.innerText || "").includes("rolloutpolicy/waves would be edited:")`),
		chrome.Until(`document.querySelector("dialog .line code").innerText === "kubectl everynode apply -n `+s.Name+onPlane+` --with-policy --plan=plan.json"`),
		chrome.Press(chrome.Find("dialog button.main")), chrome.Until(`document.querySelector("dialog pre").innerText.includes("rolloutpolicy/waves was edited: generation 3")`),
		chrome.Press(chrome.Named("dialog .buttons button", "Close")))
	b.Does("the first wave, and no more", chrome.Until(`document.querySelector(".waves")?.innerText.includes("needs an approval, waits")`), chrome.Until(chrome.Count(".cell.g1")+" === 2"))
	updated := 0
	for _, image := range images(t, s) {
		if image == harness.Image2 {
			updated++
		}
	}
	if updated != 2 {
		t.Errorf("%d nodes are updated before the approval, and the plan has 2", updated)
	}
	s.Poll("the status of the policy has the wait that the page foresees", func() error {
		if phase := s.Kubectl("get", "rolloutpolicies.everynode.dev", "waves", "-o", "jsonpath={.status.sets[0].phase}"); phase != string(v1alpha1.PhaseWaitingForApproval) {
			return fmt.Errorf("its phase is %q", phase)
		}
		return nil
	})
	revision := s.Kubectl("get", "rolloutpolicies.everynode.dev", "waves", "-o", "jsonpath={.status.sets[0].targetRevision}")
	wave := s.Kubectl("get", "rolloutpolicies.everynode.dev", "waves", "-o", "jsonpath={.status.sets[0].wave}")
	b.acts("approve", "", "approved", "kubectl everynode approve -n "+s.Name+onPlane+" --revision="+revision+" --wave="+wave+" ads/"+set)
	b.Does("the rest, and the outcome", chrome.Until(chrome.Count(".cell.g1")+" === 6"), chrome.Until(`(document.querySelector("[data-applied='as planned']")?.innerText || "").includes("6 of 6 nodes")`))
	b.Quiet()
}

// TestAFailedVersionIsUndone: the policy undoes a version that cannot start; the page says that it failed and why, in the list, for the revision, and at the wave.
func TestAFailedVersionIsUndone(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, nodes)
	s.Run(set, harness.WithBudget("2", "0"))
	defer s.Apply(fmt.Sprintf(`{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "waves", "namespace": %q}, "spec": {
		"targets": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": %q}],
		"waves": [{"name": "canary", "nodes": {"count": 2}}, {"name": "rest", "nodes": {"percent": 100}}],
		"failure": {"nodeDeadline": "2m", "waitingReasons": ["ImagePullBackOff"], "action": "Undo"}}}`, s.Name, set))()
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"),
		chrome.Until(`document.body.innerText.includes("Waves of rolloutpolicy/waves")`))
	s.Update(set, harness.WithImage(harness.BrokenImage))
	b.Does("the failure", chrome.Until(`document.querySelector(".summary").innerText.includes("The revision has failed: Wave canary failed")`),
		chrome.Until(`document.querySelector(".waves").innerText.includes("failed")`), chrome.Until(`[...document.querySelectorAll("td")].some((e) => e.innerText.includes("failed: Wave canary failed"))`))
	s.Poll("the nodes have returned", func() error {
		for node, image := range images(t, s) {
			if image != harness.Image {
				return fmt.Errorf("%s has %s", node, image)
			}
		}
		return nil
	})
	b.Does("the offer to try it again, and none to approve", chrome.Until(`[...document.querySelectorAll(".actions > button")].map((e) => e.innerText).includes("retry")`),
		chrome.Until(`![...document.querySelectorAll(".actions > button")].map((e) => e.innerText).includes("approve")`))
	b.accessible("a failed version")
	b.Does("the list", chrome.Press(chrome.Find(`main a[href="#/"]`)), chrome.Until(`[...document.querySelectorAll("table.sets td")].some((e) => e.innerText.includes("Failed"))`))
	b.accessible("the list with a failure")
	b.Quiet()
}

// TestCutNodes: nodes that cannot be reached are shown as such, with the reason, on the page of the set and on that of the node.
func TestCutNodes(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, nodes)
	s.Run(set, harness.WithBudget("1", "0"))
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	defer func() {
		for _, node := range s.Nodes[:2] {
			s.HealNode(node)
		}
	}()
	for _, node := range s.Nodes[:2] {
		s.CutNode(node)
	}
	s.Poll("the nodes are not ready", func() error {
		for _, node := range s.Nodes[:2] {
			if out := s.Kubectl("get", "node", node, "-o", `jsonpath={.status.conditions[?(@.type=="`+string(corev1.NodeReady)+`")].status}`); out == "True" {
				return fmt.Errorf("%s is ready", node)
			}
		}
		return nil
	})
	s.Update(set, harness.WithImage(harness.Image2))
	b.Does("the cut nodes", chrome.Until(chrome.Count(".cell.x")+" === 2"), chrome.Until(`document.querySelector(".legend").innerText.includes("node not ready 2")`),
		chrome.Until(`document.querySelector(".waits").innerText.includes("not ready for")`),
		chrome.Press(chrome.Find(".cell.x")), chrome.Until(`document.querySelector(".panel").innerText.includes("The node is not ready for")`))
	b.accessible("cut nodes")
	b.Does("a cut node", chrome.Press(chrome.Find(".panel h3 a")), chrome.Until(`document.querySelector("h2")?.innerText === "Sets on this node" && document.body.innerText.includes("Kubelet stopped posting node status")`))
	b.Quiet()
}
