// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// patches answers patches of sets as the API server does, and counts those that it stores.
func patches(cluster *fakecluster.Cluster) (stored *int) {
	stored = new(int)
	cluster.Dynamic.PrependReactor("patch", "daemonsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := action.(clienttesting.PatchActionImpl)
		object, err := cluster.Dynamic.Tracker().Get(p.GetResource(), p.GetNamespace(), p.GetName())
		if err != nil {
			return true, nil, err
		}
		before, err := object.(*unstructured.Unstructured).MarshalJSON()
		if err != nil {
			return true, nil, err
		}
		steps, err := jsonpatch.DecodePatch(p.GetPatch())
		if err != nil {
			return true, nil, err
		}
		after, err := steps.Apply(before)
		if err != nil {
			return true, nil, err
		}
		edited := &unstructured.Unstructured{}
		if err := edited.UnmarshalJSON(after); err != nil {
			return true, nil, err
		}
		edited.SetGeneration(edited.GetGeneration() + 1)
		if len(p.PatchOptions.DryRun) > 0 {
			return true, edited, nil
		}
		*stored++
		return true, edited, cluster.Dynamic.Tracker().Update(p.GetResource(), edited, p.GetNamespace())
	})
	return stored
}

const rolloutPolicy = `{"apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "agents", "namespace": "default", "uid": "uid-policy", "generation": 1}, "spec": {
	"targets": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": "agent"}], "waves": [{"name": "canary", "nodes": {"count": 1}}]}}`

// toApply is a window with a plan for another image, as the page holds it.
type toApply struct {
	*window
	stored  *int
	request map[string]any
}

func newToApply(t *testing.T) *toApply {
	t.Helper()
	cluster := zoned(t, roll())
	if err := cluster.Dynamic.Tracker().Create(policies.Resource(), fakecluster.Object(t, rolloutPolicy), "default"); err != nil {
		t.Fatal(err)
	}
	a := &toApply{stored: patches(cluster), window: open(t, cluster)}
	a.request = map[string]any{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": map[string]string{"image": "agent=x:3"}}
	planned := a.post(t, "/api/verb")
	if planned.Error != "" {
		t.Fatal(planned.Error)
	}
	var document map[string]any // the page decodes it and encodes it again
	if err := json.Unmarshal(planned.Data, &document); err != nil {
		t.Fatal(err)
	}
	a.request["verb"], a.request["plan"] = "apply", document
	return a
}

func (a *toApply) post(t *testing.T, path string) (got outcome) {
	t.Helper()
	body, err := json.Marshal(a.request)
	if err != nil {
		t.Fatal(err)
	}
	a.read(http.MethodPost, path, string(body), &got)
	return got
}

func (a *toApply) document() map[string]any { return a.request["plan"].(map[string]any) }

// edit changes an object of the cluster.
func (a *toApply) edit(t *testing.T, resource schema.GroupVersionResource, name string, edit func(*unstructured.Unstructured)) {
	t.Helper()
	object, err := a.cluster.Dynamic.Tracker().Get(resource, "default", name)
	if err != nil {
		t.Fatal(err)
	}
	changed := object.(*unstructured.Unstructured).DeepCopy()
	edit(changed)
	if err := a.cluster.Dynamic.Tracker().Update(resource, changed, "default"); err != nil {
		t.Fatal(err)
	}
}

// A plan is tried first, which stores nothing, and then applied. The command for a shell applies the plan that the page saves.
func TestApplyThePlan(t *testing.T) {
	a := newToApply(t)
	a.request["dryRun"] = true
	if got := a.post(t, applyPath); got.Error != "" || got.Stale != nil || !strings.Contains(got.Output, "is still valid; nothing has been changed") || *a.stored != 0 ||
		got.Line != "kubectl everynode apply -n default --dry-run=server --plan=plan.json" {
		t.Errorf("%d writes were stored: %+v", *a.stored, got)
	}
	a.request["dryRun"] = false
	if got := a.post(t, applyPath); got.Error != "" || !strings.Contains(got.Output, "default/ads/agent was edited") || *a.stored != 1 || got.Line != "kubectl everynode apply -n default --plan=plan.json" {
		t.Errorf("%d writes were stored: %+v", *a.stored, got)
	}
	if got := a.post(t, applyPath); len(got.Stale) != 1 || !strings.Contains(got.Stale[0], "default/ads/agent has been changed (generation") || *a.stored != 1 {
		t.Errorf("a second time %d writes were stored: %+v", *a.stored, got)
	}
}

// Of a plan that does not hold any more, what has changed is listed, and nothing is stored.
func TestAPlanThatDoesNotHold(t *testing.T) {
	sets := schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}
	for name, c := range map[string]struct {
		change func(*testing.T, *toApply)
		says   string
	}{
		"the set": {func(t *testing.T, a *toApply) {
			a.edit(t, sets, "agent", func(u *unstructured.Unstructured) { u.SetGeneration(77) })
		}, "default/ads/agent has been changed (generation 77"},
		"the policy": {func(t *testing.T, a *toApply) {
			a.edit(t, policies.Resource(), "agents", func(u *unstructured.Unstructured) { u.SetGeneration(2) })
		}, "rolloutpolicy/agents has been changed (generation 2, not 1)"},
		"the nodes": {func(t *testing.T, a *toApply) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fresh\x1b[31m", Labels: map[string]string{corev1.LabelHostname: "fresh"}}}
			if _, err := a.cluster.Kubernetes.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}, "[31m is new (create)"},
	} {
		for _, dryRun := range []bool{true, false} {
			a := newToApply(t)
			c.change(t, a)
			a.request["dryRun"] = dryRun
			got := a.post(t, applyPath)
			if len(got.Stale) == 0 || !strings.Contains(got.Stale[0], c.says) || strings.Contains(got.Stale[0], "\x1b") || *a.stored != 0 ||
				!strings.Contains(got.Error, "the plan is no longer valid, and nothing has been changed") {
				t.Errorf("%s: %d writes were stored: %+v", name, *a.stored, got)
			}
		}
	}
}

// A plan that is not the one of the request is refused before anything is asked of the cluster.
func TestAPlanOfAnotherRequest(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a *toApply)
		path   string
		says   string
	}{
		"another set":       {func(a *toApply) { a.request["set"] = "ads/other" }, applyPath, "the plan is for default/ads/agent, and not for default/ads/other"},
		"another namespace": {func(a *toApply) { a.request["namespace"] = "other" }, applyPath, "and not for other/ads/agent"},
		"another image":     {func(a *toApply) { a.request["flags"] = map[string]string{"image": "agent=x:4"} }, applyPath, "is not the one of these values"},
		"no values":         {func(a *toApply) { delete(a.request, "flags") }, applyPath, "is not the one of these values"},
		"a new set":         {func(a *toApply) { a.document()["edit"].(map[string]any)["type"] = "create" }, applyPath, "the plan creates ads/agent"},
		"no plan":           {func(a *toApply) { delete(a.request, "plan") }, applyPath, "a plan is sent for apply only"},
		"an unknown field":  {func(a *toApply) { a.document()["surprise"] = 1 }, applyPath, "cannot be read"},
		"a flag of its own": {func(a *toApply) { a.request["flags"] = map[string]string{"force-conflicts": "true"} }, applyPath, "does not offer --force-conflicts"},
		"with another verb": {func(a *toApply) { a.request["verb"] = "pause"; a.request["flags"] = nil }, applyPath, "a plan is sent for apply only"},
		"a played failure":  {func(a *toApply) { a.document()["whatIf"] = map[string]any{} }, applyPath, "the plan plays a failure"},
		"where it may not":  {func(*toApply) {}, verbPath, "a plan is sent to /api/apply only"},
	} {
		a := newToApply(t)
		c.change(a)
		if got := a.post(t, c.path); !strings.Contains(got.Error, c.says) || *a.stored != 0 {
			t.Errorf("%s: %d writes were stored: %+v, want %q", name, *a.stored, got, c.says)
		}
	}
}

// A request with a plan may be large, and is read only when it comes from the page.
func TestTheSizeOfAPlan(t *testing.T) {
	w := open(t, zoned(t, roll()))
	for name, c := range map[string]struct {
		size    int
		session bool
		code    int
	}{
		"a large plan": {largestBody * 8, true, http.StatusBadRequest}, "too large": {largestPlan + 1, true, http.StatusRequestEntityTooLarge},
		"without a session": {largestPlan + 1, false, http.StatusUnauthorized},
	} {
		body := &counted{Reader: strings.NewReader(`{"verb": "` + strings.Repeat("x", c.size) + `"}`)}
		r := pageRequest(w.guard, http.MethodPost, applyPath, "")
		r.Host, r.Body = "127.0.0.1:"+w.guard.port, body
		if !c.session {
			r.Header.Del("Cookie")
		}
		answer := httptest.NewRecorder()
		w.s.handler(w.guard).ServeHTTP(answer, r)
		if answer.Code != c.code || !c.session && body.read > 0 {
			t.Errorf("%s: %d after %d bytes: %.100s", name, answer.Code, body.read, answer.Body)
		}
	}
}

// A rollout policy may have as much as the API server stores. A larger one is rejected with the name of its field, and none is read without a session.
func TestTheSizeOfAPolicy(t *testing.T) {
	w := open(t, zoned(t, roll()))
	for name, c := range map[string]struct {
		size    int
		session bool
		code    int
		says    string
	}{
		"more than 16 KiB":  {100 << 10, true, http.StatusOK, "kubectl everynode plan"},
		"too large":         {largestPolicy + 1, true, http.StatusRequestEntityTooLarge, "Rollout policy: it has 1048577 bytes, and may have 1048576"},
		"far too large":     {largestVerb, true, http.StatusRequestEntityTooLarge, "the request has more than 4194304 bytes"},
		"without a session": {100 << 10, false, http.StatusUnauthorized, "there is no session"},
	} {
		text := `{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": {"policy": "` + strings.Repeat("#", c.size) + `"}}`
		body := &counted{Reader: strings.NewReader(text)}
		r := pageRequest(w.guard, http.MethodPost, verbPath, "")
		r.Host, r.Body = "127.0.0.1:"+w.guard.port, body
		if !c.session {
			r.Header.Del("Cookie")
		}
		answer := httptest.NewRecorder()
		w.s.handler(w.guard).ServeHTTP(answer, r)
		if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.says) || !c.session && body.read > 0 {
			t.Errorf("%s: %d after %d bytes: %.200s", name, answer.Code, body.read, answer.Body)
		}
	}
}

// counted is a body that counts what is read of it.
type counted struct {
	*strings.Reader
	read int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counted) Close() error { return nil }
