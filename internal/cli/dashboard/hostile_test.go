// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// named is a cluster whose objects have a text wherever an object can have one. The API server refuses many of these names; the page does not rely on that.
func named(t *testing.T, text string) *fakecluster.Cluster {
	t.Helper()
	r := roll()
	r.Letters = "ua"
	objects := r.Objects(t)
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Node:
			o.Labels["label"], o.Annotations = text, map[string]string{"annotation": text}
			o.Spec.Taints = []corev1.Taint{{Key: "taint", Value: text, Effect: corev1.TaintEffectPreferNoSchedule}}
			o.Status.NodeInfo.KubeletVersion = text
			o.Status.Conditions = append(o.Status.Conditions, corev1.NodeCondition{Type: "Own", Status: corev1.ConditionFalse, Reason: "Own", Message: text})
		case *corev1.Pod:
			o.Spec.Containers = []corev1.Container{{Name: "agent", Image: text}}
			o.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: text},
			}}}
		}
	}
	return fakecluster.New(t, append(objects, runtime.Object(&corev1.Event{
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet", Namespace: "default", Name: r.Name, UID: r.UID()},
		Reason:         "Own", Message: text, Type: corev1.EventTypeWarning,
	}))...)
}

// FuzzTexts: whatever text objects have, each answer is JSON of which a browser makes no markup, also if it is opened by itself; it has the text unchanged; and a message
// of a stream is one line.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		hostile, "", "plain", "<svg/onload=alert(1)>", "\"><b>", "'-alert(1)-'", "&lt;script&gt;", "\u2028\u2029", "\r\ndata: {}\r\n\r\n", "\x00\x1b[31m", "\xff\xfe", "]]>", "<!--", "%3Cscript%3E", "{{7*7}}", "javascript:alert(1)",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := open(t, named(t, text))
		whole := string([]rune(text)) // JSON has a replacement for each byte that is no UTF-8
		for _, path := range []string{"/api/sets", "/api/set" + setQuery, "/api/node?name=node-2", "/api/cell" + setQuery + "&node=node-2", "/api/rights" + setQuery, "/api/set?namespace=default&set=" + url.QueryEscape(text), "/api/node?name=" + url.QueryEscape(text)} {
			checkAnswer(t, w.request(t.Context(), http.MethodGet, path, "")) //nolint:bodyclose // checkAnswer closes it
		}
		body, err := json.Marshal(map[string]string{"verb": text, "namespace": "default", "set": text})
		if err != nil {
			t.Fatal(err)
		}
		checkAnswer(t, w.request(t.Context(), http.MethodPost, "/api/verb", string(body))) //nolint:bodyclose // checkAnswer closes it

		m := w.page("/api/node?name=node-2", "node")
		n := part[nodeDetails](t, m, "node")
		for field, got := range map[string]string{"label": n.Labels["label"], "message": n.Conditions[len(n.Conditions)-1].Message, "image": n.Pods[0].Containers[0].Image, "version": n.Version} {
			if got != whole {
				t.Errorf("%s is %q, want %q", field, got, whole)
			}
		}
		line, err := json.Marshal(m)
		if err != nil || bytes.ContainsAny(line, "\n\r") {
			t.Errorf("a message of a stream has more than one line: %q, %v", line, err)
		}
	})
}

func checkAnswer(t *testing.T, answer *http.Response) {
	t.Helper()
	defer func() { _ = answer.Body.Close() }()
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); kind != "application/json" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the answer is %s, and browsers may guess another type: %q", kind, answer.Header.Get("X-Content-Type-Options"))
	}
	if !json.Valid(raw.Bytes()) || bytes.ContainsAny(raw.Bytes(), "<>&") || bytes.Contains(raw.Bytes(), []byte("\u2028")) {
		t.Errorf("the answer can be read as markup: %s", raw.Bytes())
	}
}
