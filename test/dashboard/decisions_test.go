// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/test/chrome"
	"everynode.dev/everynode/test/harness"
)

// confirms opens the dialog of an action, and confirms what it would do. It has the command for a shell, and names the set.
func (b *browser) confirms(verb string, s *harness.Space) {
	b.t.Helper()
	b.Does(verb, chrome.Press(chrome.Named(".actions > button", verb)), chrome.Until(`(document.querySelector("dialog pre")?.innerText || "") !== ""`),
		chrome.Until(fmt.Sprintf("document.querySelector('dialog h2').innerText === %q", verb+" "+s.Name+"/daemonset/"+set+"?")),
		chrome.Until(fmt.Sprintf("document.querySelector('dialog .line code').innerText.startsWith(%q)", "kubectl everynode "+verb+" -n "+s.Name+onPlane+" ")),
		chrome.Press(chrome.Find("dialog button.main")), chrome.Until(chrome.Named("dialog .buttons button", "Close")), chrome.Until(`!document.querySelector("dialog [role=alert]")`),
		chrome.Press(chrome.Named("dialog .buttons button", "Close")), chrome.Until(`!document.querySelector("dialog")`))
}

// decided waits until the decisions about the set are these, in the order in which they were made.
func decided(s *harness.Space, want string) {
	s.Poll("the decisions", func() error {
		now := s.Kubectl("get", "rolloutapprovals.everynode.dev", "--sort-by=.metadata.creationTimestamp", "-o", "jsonpath={.items[*].spec.decision}")
		if now != want {
			return fmt.Errorf("they are %q", now)
		}
		return nil
	})
}

// all waits until the pods of all nodes have an image.
func all(t *testing.T, s *harness.Space, want string) {
	t.Helper()
	s.Poll("all nodes have the image "+want, func() error {
		for node, image := range images(t, s) {
			if image != want {
				return fmt.Errorf("%s has %s", node, image)
			}
		}
		return ready(t, s, nodes)
	})
}

// TestDecisionsAboutARollout makes by the page each decision about a rollout with a policy, and each takes effect: a soak ends, a revision is rejected, the set returns to
// the revision before, all pods are restarted, and a failed revision is tried again.
func TestDecisionsAboutARollout(t *testing.T) {
	b := browse(t)
	s := shared.Cluster(t).Space(t, nodes)
	s.Run(set, harness.WithBudget("100%", "0"))
	defer s.Apply(fmt.Sprintf(`{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "waves", "namespace": %q}, "spec": {
		"targets": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": %q}],
		"waves": [{"name": "canary", "nodes": {"count": 2}, "soak": "10h"}, {"name": "rest", "nodes": {"percent": 100}}],
		"failure": {"nodeDeadline": "2m", "waitingReasons": ["ImagePullBackOff"], "action": "Pause"}}}`, s.Name, set))()
	d := start(t, s)
	b.Does("the set at rest", firstSet(d.url), chrome.Until(chrome.Count(".cell.g1")+" === 6"),
		chrome.Until(shows("main", "Waves of rolloutpolicy/waves")))
	soaks := chrome.Until(shows(".waves li.active", "Soaking") + " && " + chrome.Count(".cell.g1") + " === 2")
	s.Update(set, harness.WithImage(harness.Image2))
	b.Does("the soak", soaks)
	b.confirms("promote", s)
	decided(s, "Promote")
	all(t, s, harness.Image2)
	b.Does("the end", chrome.Until(chrome.Count(".cell.g1")+" === 6"), chrome.Until(shows("h1", "finished")))

	b.confirms("restart", s)
	b.Does("the soak of the restart", soaks)
	b.confirms("reject", s)
	b.Does("the rejection", chrome.Until(shows("h1", "Rejected")))
	b.confirms("undo", s)
	b.Does("the end of the undo", chrome.Until(chrome.Count(".cell.g1")+" === 6"), chrome.Until(shows("h1", "finished")))
	all(t, s, harness.Image2)

	s.Update(set, harness.WithImage(harness.BrokenImage))
	b.Does("a failure", chrome.Until(shows("h1", "Failed")))
	b.confirms("retry", s)
	b.confirms("undo", s)
	b.Does("the end of the last undo", chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	all(t, s, harness.Image2)
	if now := s.Kubectl("get", "rolloutapprovals.everynode.dev", "-o", "jsonpath={.items[*].spec.decision}"); !strings.Contains(now, "Reject") || !strings.Contains(now, "Retry") {
		t.Errorf("the decisions are %s", now)
	}
	b.Quiet()
}
