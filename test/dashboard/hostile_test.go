// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// hostileTexts do harm as markup, as a script, as an address, or as an attribute.
func hostileTexts() []string {
	return []string{
		hostile,
		`<svg/onload=window.hacked=1>`,
		`"><iframe srcdoc="<script>parent.hacked=1</script>">`,
		`' onmouseover='window.hacked=1`,
		`javascript:window.hacked=1`,
		`</textarea><object data=x onerror=window.hacked=1>`,
		`<a href="javascript:window.hacked=1">x</a>`,
		`<style>*{display:none}</style><meta http-equiv=refresh content=0>`,
		`{{constructor.constructor('window.hacked=1')()}}`,
		"&lt;img src=x onerror=window.hacked=1&gt;",
		"../../api/verb?x=#/set/a/b",
		"__proto__",
	}
}

// hostileObjects are a roll on one node for each text, which has the text in its name, labels, annotations, taints and conditions, and in the image and the messages of its
// pod. An API server refuses most of these names: the page does not rely on that.
func hostileObjects(t *testing.T, texts []string) []runtime.Object {
	t.Helper()
	objects := fakecluster.Roll{Name: set, Advanced: true, Letters: strings.Repeat("a", len(texts))}.Objects(t)
	at := func(node string) (i int) {
		if _, err := fmt.Sscanf(node, "node-%d", &i); err != nil {
			t.Fatal(err)
		}
		return i - 1
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Node:
			text := texts[at(o.Name)]
			o.Name, o.Labels["label"], o.Labels[text], o.Annotations = text, text, "key", map[string]string{text: text}
			o.Spec.Taints = []corev1.Taint{{Key: text, Value: text, Effect: corev1.TaintEffectPreferNoSchedule}}
			o.Status.Conditions = append(o.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(text), Status: corev1.ConditionFalse, Reason: text, Message: text})
		case *corev1.Pod:
			text := texts[at(o.Spec.NodeName)]
			o.Name, o.Spec.NodeName, o.Annotations = "pod of "+text, text, map[string]string{text: text}
			o.Spec.Containers = []corev1.Container{{Name: text, Image: text}}
			o.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: text, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: text, Message: text}}}}
		case *unstructured.Unstructured:
			if o.GetKind() != "DaemonSet" {
				continue
			}
			var conditions []any
			for _, text := range texts {
				conditions = append(conditions, map[string]any{"type": text, "status": "False", "reason": text, "message": text})
			}
			if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
				t.Fatal(err)
			}
			o.SetAnnotations(map[string]string{"x": texts[0]})
		}
	}
	for i, text := range texts {
		objects = append(objects, &corev1.Event{
			ObjectMeta:     fakecluster.Node(fmt.Sprint("event-", i), true).ObjectMeta,
			InvolvedObject: corev1.ObjectReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", Namespace: "default", Name: set, UID: fakecluster.Roll{Name: set}.UID()},
			Reason:         text, Message: text, Type: text,
		})
		objects[len(objects)-1].(*corev1.Event).Namespace = "default"
	}
	return objects
}

// strange are elements that the page does not make, and attributes that it does not set: any of them came from a text.
const strange = `document.querySelectorAll("img, iframe, object, embed, svg, meta[http-equiv], style, base, #app script, [onerror], [onload], [onmouseover], [onclick], a[href^='javascript']").length`

// TestHostileTexts: names and messages are shown as they are, on the list, in the picture, in the panel of a node, in a filter and on the page of a node, and none of them
// becomes markup.
func TestHostileTexts(t *testing.T) {
	texts := hostileTexts()
	b := browse(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cluster := fakecluster.New(t, hostileObjects(t, texts)...)
	watched := cluster.Watched("pods")
	address := serve(ctx, t, cluster)
	<-watched
	harmless := func(where string) {
		t.Helper()
		var hacked bool
		var found int
		b.Does(where, chromedp.Evaluate(`"hacked" in window`, &hacked), chromedp.Evaluate(strange, &found))
		if hacked || found > 0 {
			t.Errorf("%s: a script ran: %t, and there are %d elements that a text made", where, hacked, found)
		}
	}
	shows := func(selector, text string) chromedp.Action {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return chrome.Until(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%s))", selector, quoted))
	}
	b.Does("the list", log.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("table.sets a"))
	harmless("the list")
	b.Does("the set", chrome.Press(chrome.Find("table.sets a")), chrome.Until(fmt.Sprintf("%s === %d", chrome.Count(".cell"), len(texts))))
	harmless("the set")
	b.Does("groups by a label", chromedp.SetValue(".tools select", "label:label"), chromedp.Evaluate(`document.querySelector(".tools select").dispatchEvent(new Event("change", {bubbles: true}))`, nil),
		chrome.Until(fmt.Sprintf("%s === %d", chrome.Count(".group"), len(texts))))
	harmless("groups")
	for _, text := range texts {
		quoted, _ := json.Marshal(text)
		cell := fmt.Sprintf("[...document.querySelectorAll('.cell')].find((c) => c.dataset.node === %s)", quoted)
		b.Does("the panel of "+text, shows("td", text), shows(".group h3", text), chrome.Press(cell), shows(".panel h3 a", text), shows(".panel td code", text), chrome.Enter(".tools input[type=search]", text))
		harmless("the panel of " + text)
		b.Does("the node "+text, chrome.Press(chrome.Find(".panel h3 a")), shows("h1", text), shows("td code", text), shows("li code", text), shows("p", text+"="+text))
		harmless("the node " + text)
		b.Does("back", chromedp.NavigateBack(), chrome.Until(fmt.Sprintf("%s === %d", chrome.Count(".cell"), len(texts))),
			chromedp.SetValue(".tools select", "label:label"), chromedp.Evaluate(`document.querySelector(".tools select").dispatchEvent(new Event("change", {bubbles: true}))`, nil))
	}
	b.Quiet()
}
