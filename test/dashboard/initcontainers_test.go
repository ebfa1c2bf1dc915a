// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestTheImageOfAnInitContainer can be planned, as that of another container.
func TestTheImageOfAnInitContainer(t *testing.T) {
	b := browse(t)
	r := fakecluster.Roll{Name: set, Advanced: true, Letters: "uuu"}
	template := r.Template("")
	list := func(name string) []any {
		return []any{map[string]any{"name": name, "image": "registry.example/" + name + ":2"}}
	}
	template["spec"] = map[string]any{"containers": list("agent"), "initContainers": list("prepare")}
	r.Spec = map[string]any{"template": template}
	cluster := fakecluster.New(t, r.Objects(t)...)
	address := served(t, cluster)
	const second = ".foresight label:nth-of-type(2)"
	b.Does("the form", firstSet(address), chrome.Press(chrome.Find(".foresight summary")), chromedp.Evaluate(answering, nil),
		chrome.Until(shows(second, "Image of init container prepare")), chrome.Enter(second+" input", "registry.example/prepare:3"), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(`sent[0]?.flags.image === "prepare=registry.example/prepare:3"`))
	b.Quiet()
}
