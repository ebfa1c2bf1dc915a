// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// hostileNames are names that no API server accepts, of markup, of other scripts, and longer than any; and the longest one that it accepts.
func hostileNames() map[string]string {
	return map[string]string{
		"markup":           `<img src=x onerror=window.hacked=1>`,
		"an attribute":     `"><b onmouseover=window.hacked=1>`,
		"an address":       `javascript:window.hacked=1`,
		"a template":       "${window.hacked=1}{{window.hacked=1}}",
		"parts of a URL":   "a?b&c#d%25 e;f+g=h",
		"a property":       "__proto__",
		"right to left":    "שָׁלוֹם-مرحبا",
		"an override":      "agent\u202egpj.exe\u202c",
		"other scripts":    "名前-ёлка-🦄-ﷺ",
		"zero width":       "a\u200bb\u200dc\ufeff",
		"the longest":      strings.Repeat("a", 63) + strings.Repeat(".x-y-z0123456789", 11) + strings.Repeat("b", 14),
		"one without ends": strings.Repeat("w", 2000),
	}
}

// hostileSet is a rollout under a policy, where the namespace, the set and the policy have a name.
func hostileSet(t *testing.T, name string) (objects []runtime.Object) {
	t.Helper()
	for _, object := range (fakecluster.Roll{Name: set, Advanced: true, Letters: "uao"}).Objects(t) {
		o := object.(metav1.Object)
		if o.GetNamespace() != "" {
			o.SetNamespace(name)
		}
		if o.GetName() == set {
			o.SetName(name)
		}
		owners := o.GetOwnerReferences()
		for i := range owners {
			owners[i].Name = name
		}
		if len(owners) > 0 {
			o.SetOwnerReferences(owners)
		}
		objects = append(objects, object)
	}
	policy := fakecluster.Object(t, `{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "x", "namespace": "x", "generation": 1}, "spec": {
		"targets": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": "x"}], "waves": [{"name": "one", "nodes": {"count": 1}}, {"name": "rest", "nodes": {"percent": 100}}]}}`)
	policy.SetName(name)
	policy.SetNamespace(name)
	spec := policy.Object["spec"].(map[string]any)
	spec["targets"].([]any)[0].(map[string]any)["name"] = name
	return append(objects, policy)
}

// shown is a name as the page shows it: characters that change the order of others have their numbers instead.
func shown(name string) string {
	return strings.NewReplacer("\u202e", `\u202e`, "\u202c", `\u202c`).Replace(name)
}

// wide is an expression for whether a page is wider than its window.
const wide = `document.documentElement.scrollWidth > document.documentElement.clientWidth`

// TestHostileNames: names of namespaces, sets and policies are shown as they are, on the list, on the page of a set, in the dialog of an action and on the page of a
// node. None of them becomes markup, leads elsewhere, or makes a page wider than a phone.
func TestHostileNames(t *testing.T) {
	b := browse(t)
	for what, name := range hostileNames() {
		t.Run(what, func(t *testing.T) {
			b := &browser{b.On(t), t}
			cluster := fakecluster.New(t, hostileSet(t, name)...)
			address := served(t, cluster)
			quoted, err := json.Marshal(shown(name))
			if err != nil {
				t.Fatal(err)
			}
			has := func(selector string) chromedp.Action {
				return chrome.Until(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%s))", selector, quoted))
			}
			harmless := func(where string) {
				t.Helper()
				var hacked, tooWide bool
				var found int
				b.Does(where, chromedp.Evaluate(`"hacked" in window`, &hacked), chromedp.Evaluate(strange, &found), chromedp.Evaluate(wide, &tooWide))
				if hacked || found > 0 || tooWide {
					t.Errorf("%s: a script ran: %t; %d elements are made of the name; the page is too wide: %t", where, hacked, found, tooWide)
				}
			}
			b.Does("a phone", log.Enable(), emulation.SetDeviceMetricsOverride(390, 844, 1, true))
			b.Does("the list", chromedp.Navigate(address), has("table.sets a"))
			harmless("the list")
			if shown(name) != name {
				return // no address leads to it
			}
			b.Does("the set", chrome.Press(chrome.Find("table.sets a")), has("h1"), has("h2"), chrome.Until(chrome.Count(".cell")+" === 3"))
			harmless("the set")
			b.Does("an action", chrome.Press(chrome.Named(".actions > button", "suspend")), has("dialog h2"), chrome.Until(chrome.Find("dialog .line, dialog [role=alert]")))
			harmless("the dialog")
			b.Does("a node", chrome.Press(chrome.Named("dialog .buttons button", "Cancel")), chrome.Press(chrome.Find(".cell")), chrome.Press(chrome.Find(".panel h3 a")), has("td a"))
			harmless("the node")
			b.Does("back to the set", chrome.Press(chrome.Find("td a")), has("h1"), chrome.Until(chrome.Count(".cell")+" === 3"))
			b.Quiet()
		})
	}
}
