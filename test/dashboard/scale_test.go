// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

const (
	// pixels is an expression for what is drawn, colours one for how many colours the cell in the corner has.
	pixels  = `document.querySelector("canvas").toDataURL()`
	colours = `new Set(new Uint32Array(document.querySelector("canvas").getContext("2d").getImageData(0, 0, 12, 12).data.buffer)).size`
)

// zoomTo moves the slider of the zoom.
func zoomTo(size int) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`((e) => { e.value = %d; e.dispatchEvent(new Event("input", {bubbles: true})); })(document.querySelector(".tools input[type=range]"))`, size), nil)
}

// TestTenThousandCells: 10,000 cells have characters, zoom, search and reasons as few have. Only cells that change are drawn again, and what is drawn is the same as if all were.
func TestTenThousandCells(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, strings.Repeat("u", 9_990)+strings.Repeat("o", 10), set)
	base, _, _ := strings.Cut(address, "#")
	b.Does("the picture", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"), chromedp.Navigate(base+"#/set/default/ads/"+set), chromedp.WaitVisible("[data-picture=canvas]"),
		chrome.Until(`document.querySelector(".legend").innerText.includes("up to date 9990")`), chrome.Until(colours+" > 2"))
	b.Does("a reason by name", chrome.Enter(".tools input[type=search]", "node-10000"), chrome.Until(`document.querySelector(".found")?.innerText.startsWith("node-10000: the pod is old; ")`),
		chrome.Enter(".tools input[type=search]", " "))
	mouse := func(event string) chromedp.Action {
		return chromedp.Evaluate(fmt.Sprintf(`((e, r) => e.dispatchEvent(new MouseEvent(%q, {bubbles: true, clientX: r.x + 5, clientY: r.y + 5})))(document.querySelector("canvas"), document.querySelector("canvas").getBoundingClientRect())`, event), nil)
	}
	b.Does("a reason under the mouse", mouse("mousemove"), chrome.Until(`document.querySelector(".tip:not(.away)")?.innerText.startsWith("node-1: ")`), mouse("mouseout"),
		chromedp.Evaluate(`document.querySelector("canvas").dispatchEvent(new MouseEvent("mouseleave"))`, nil), chrome.Until(chrome.Find(".tip.away")))
	b.Does("a node", mouse("click"), chrome.Until(`document.querySelector(".panel h3")?.innerText === "node-1"`), chrome.Press(chrome.Find(".panel button")), chrome.Until(`!document.querySelector(".panel")`))

	b.Does("before a change", chromedp.Evaluate("window.before = "+pixels, nil))
	changePod(t, cluster, 40, corev1.ConditionFalse)
	b.Does("a change", chrome.Until(`document.querySelector(".legend").innerText.includes("starting 1")`), chrome.Until(pixels+" !== before"))
	b.Does("all cells again", chromedp.Evaluate("window.after = "+pixels+"; window.high = document.querySelector('canvas').height", nil),
		zoomTo(20), chrome.Until("document.querySelector('canvas').height > high"), zoomTo(12), chrome.Until("document.querySelector('canvas').height === high && "+pixels+" === after"))
	b.Does("the other colours", emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}), chrome.Until(pixels+" !== after"))
	b.Quiet()
}

// TestThousandsOfSets: the list of 2,000 sets can be filtered, sorted by any column, and seen whole.
func TestThousandsOfSets(t *testing.T) {
	b := browse(t)
	names := []string{}
	for i := range 2000 {
		names = append(names, fmt.Sprintf("set-%04d", i))
	}
	_, address := imagine(t, "u", names...)
	rows := chrome.Count("table.sets tbody tr")
	first := func(name string) string {
		return `document.querySelector("table.sets tbody a")?.innerText === "default/ads/` + name + `"`
	}
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chrome.Until(`[...document.querySelectorAll("[role=status]")].some((e) => e.innerText === "2000 sets, 0 with a rollout in progress; 500 of 2000 that match are shown")`),
		chrome.Until(rows+" === 500"))
	b.Does("all rows", chrome.Press(chrome.Named("button", "Show 500 more")), chrome.Until(rows+" === 1000"), chrome.Press(chrome.Named("button", "Show 500 more")), chrome.Until(rows+" === 1500"),
		chrome.Press(chrome.Named("button", "Show 500 more")), chrome.Until(rows+" === 2000 && !"+chrome.Named("button", "Show 500 more")))
	b.Does("one of them", chrome.Enter("input[type=search]", "set-1234"), chrome.Until(rows+" === 1 && "+first("set-1234")), chrome.Enter("input[type=search]", " "), chrome.Until(rows+" === 2000"))
	b.Does("sorted by name, and the other way", chrome.Press(chrome.Named("button.sort", "Set")), chrome.Until(first("set-0000")), chrome.Press(chrome.Find("button.sort")), chrome.Until(first("set-1999")))
	b.Quiet()
}

// TestALabelWithoutAValue: nodes that have a label without a value, as those of roles, are another group than those that do not have it.
func TestALabelWithoutAValue(t *testing.T) {
	b := browse(t)
	objects := fakecluster.Roll{Name: set, Advanced: true, Letters: "uuu"}.Objects(t)
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok && node.Name == "node-2" {
			node.Labels["example.com/edge"] = ""
		}
	}
	cluster := fakecluster.New(t, objects...)
	address := served(t, cluster)
	b.Does("the groups", firstSet(address), chrome.Until(chrome.Count(".cell")+" === 3"), chromedp.SetValue(".tools select", "label:example.com/edge"),
		chromedp.Evaluate(`document.querySelector(".tools select").dispatchEvent(new Event("change", {bubbles: true}))`, nil),
		chrome.Until(`[...document.querySelectorAll(".group h3")].map((h) => h.innerText).join() === "with example.com/edge 1,without example.com/edge 2"`))
	b.Quiet()
}
