// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spf13/cobra"

	"everynode.dev/everynode/internal/cli/edit"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/plan"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// hostile is a text that would be markup, or break a line of a stream.
const hostile = "</script><img src=x onerror=alert(1)>\ndata: {\"full\":true}\n\n"

// program has the verbs that these tests use.
func program(o *options.Options) *cobra.Command {
	root := &cobra.Command{Use: options.Program, SilenceErrors: true, SilenceUsage: true}
	o.AddFlags(root)
	root.AddCommand(edit.Commands(o)...)
	root.AddCommand(plan.New(o), plan.NewApply(o))
	return root
}

// window is a browser with the page.
type window struct {
	t       *testing.T
	s       *server
	guard   *guard
	cluster *fakecluster.Cluster
	address string
}

func open(t *testing.T, cluster *fakecluster.Cluster) *window {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &asked{Options: cluster.Options, verbs: program}
	web := httptest.NewUnstartedServer(nil)
	u, err := url.Parse("http://" + web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.start(ctx, cluster.Options.Given)
	if err != nil {
		t.Fatal(err)
	}
	guard := newGuard(u.Port())
	web.Config.Handler = s.handler(guard)
	web.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	web.Start()
	t.Cleanup(func() {
		cancel()
		web.Close()
		s.fleet.Wait()
	})
	return &window{t: t, s: s, guard: guard, cluster: cluster, address: web.URL}
}

func (w *window) request(ctx context.Context, method, path, body string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, w.address+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set(header, "1")
	r.Header.Set("Content-Type", "application/json")
	r.AddCookie(&http.Cookie{Name: w.guard.cookie(), Value: w.guard.session})
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer
}

// read decodes an answer.
func (w *window) read(method, path, body string, into any) int {
	w.t.Helper()
	answer := w.request(w.t.Context(), method, path, body)
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
	return answer.StatusCode
}

// page reads a page until it has a part: a page comes without details that take long.
func (w *window) page(path, part string) (m message) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); m.Parts[part] == nil && time.Now().Before(end); {
		m = message{}
		w.read(http.MethodGet, path, "", &m)
	}
	return m
}

// follow returns the messages of a stream.
func (w *window) follow(ctx context.Context, path string) <-chan message {
	w.t.Helper()
	answer := w.request(ctx, http.MethodGet, path, "") //nolint:bodyclose // the goroutine closes it
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%s: %s", path, answer.Status)
	}
	messages := make(chan message)
	go func() {
		defer close(messages)
		defer func() { _ = answer.Body.Close() }()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			data, is := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !is {
				continue
			}
			var m message
			if json.Unmarshal(data, &m) != nil {
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return messages
}

func items[T any](t *testing.T, m message) (all []T) {
	t.Helper()
	for _, data := range m.Items {
		var one T
		if err := json.Unmarshal(data, &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

func part[T any](t *testing.T, m message, name string) (one T) {
	t.Helper()
	if err := json.Unmarshal(m.Parts[name], &one); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return one
}

const setQuery = "?namespace=default&set=ads/agent"

func roll() fakecluster.Roll {
	return fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuatO-oon"}
}

// zoned puts nodes into two zones, and lets the pod of one restart.
func zoned(t *testing.T, r fakecluster.Roll) *fakecluster.Cluster {
	t.Helper()
	objects := r.Objects(t)
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Node:
			o.Labels[corev1.LabelTopologyZone] = []string{"a", "b"}[o.Name[len(o.Name)-1]%2]
		case *corev1.Pod:
			if o.Spec.NodeName == "node-3" {
				o.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", RestartCount: 4, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: hostile},
				}}}
			}
		}
	}
	return fakecluster.New(t, objects...)
}

func TestSetPage(t *testing.T) {
	w := open(t, zoned(t, roll()))
	var m message
	if code := w.read(http.MethodGet, "/api/set"+setQuery, "", &m); code != http.StatusOK || !m.Full {
		t.Fatalf("%d %+v", code, m)
	}
	h, facets, cells := part[head](t, m, "head"), part[[]facet](t, m, "facets"), items[cell](t, m)
	if h.State != "rolling" || h.Desired != 8 || h.Updated != 3 || h.Aside != 1 || h.Restarts.New != 4 || h.Restarts.OldPods != 3 || h.Revision != fakecluster.NewHash {
		t.Errorf("the head is %+v", h)
	}
	if !slices.ContainsFunc(facets, func(f facet) bool { return f.Key == corev1.LabelTopologyZone && len(f.Values) == 2 }) {
		t.Errorf("the facets are %+v", facets)
	}
	byName := map[string]cell{}
	for _, c := range cells {
		byName[c.Node] = c
	}
	if len(cells) != 8 || byName["node-1"].Verdict != "up-to-date" || byName["node-1"].Reason != "" || byName["node-5"].NotReady == 0 || byName["node-4"].Verdict != "wait-terminating" {
		t.Errorf("the cells are %+v", cells)
	}
	if c := byName["node-3"]; c.Verdict != "wait-available" || !strings.Contains(c.Reason, "CrashLoopBackOff") || c.Pods[0].Restarts != 4 || c.Pods[0].Revision != fakecluster.NewHash {
		t.Errorf("the crashing pod is %+v", c)
	}
	revisions := part[[]revisionRow](t, m, "revisions")
	if len(revisions) != 2 || !revisions[0].Current || revisions[0].Images[0] != "registry.example/agent:2" || revisions[0].Pods != 3 {
		t.Errorf("the revisions are %+v", revisions)
	}
	for _, action := range append(w.cluster.Kubernetes.Actions(), w.cluster.Dynamic.Actions()...) {
		if action.GetResource().Resource == "secrets" {
			t.Errorf("it reads secrets: %v", action)
		}
	}
}

func TestPages(t *testing.T) {
	w := open(t, zoned(t, roll()))
	var m message
	w.read(http.MethodGet, "/api/sets", "", &m)
	if rows := items[row](t, m); len(rows) != 1 || rows[0].Key != "default/ads/agent" || rows[0].State != "rolling" || rows[0].Dialect != "kruise" || rows[0].Waits == "" {
		t.Errorf("the list is %+v", rows)
	}
	m = w.page("/api/node?name=node-3", "node")
	rows, node := items[nodeRow](t, m), part[nodeDetails](t, m, "node")
	if len(rows) != 1 || rows[0].Verdict != "wait-available" || len(node.Pods) != 1 || !strings.Contains(node.Pods[0].Containers[0].State, "CrashLoopBackOff") {
		t.Errorf("the node is %+v, %+v", rows, node)
	}
	for path, code := range map[string]int{
		"/api/set?namespace=default&set=ads/none": http.StatusNotFound, "/api/set?namespace=default&set=x/y/z": http.StatusBadRequest,
		"/api/node?name=none": http.StatusNotFound, "/api/none": http.StatusNotFound, "/static/app.js": http.StatusNotFound,
	} {
		answer := w.request(t.Context(), http.MethodGet, path, "")
		if _ = answer.Body.Close(); answer.StatusCode != code {
			t.Errorf("%s: %s, want %d", path, answer.Status, code)
		}
	}
	for path, file := range files() {
		answer := w.request(t.Context(), http.MethodGet, path, "")
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != file[1] {
			t.Errorf("%s: %s as %s", path, answer.Status, answer.Header.Get("Content-Type"))
		}
	}
}

// A stream begins with the whole page; after that come only the cells that have changed. Without a viewer nothing is computed.
func TestStream(t *testing.T) {
	cluster := zoned(t, roll())
	watched := cluster.Watched("pods")
	w := open(t, cluster)
	<-watched
	ctx, leave := context.WithCancel(t.Context())
	messages := w.follow(ctx, "/api/set/stream"+setQuery)
	if first := <-messages; !first.Full || len(first.Items) != 8 {
		t.Fatalf("the first message is %+v", first)
	}
	pods := cluster.Kubernetes.CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), "agent-node-3-"+fakecluster.NewHash[:3], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.ResourceVersion, pod.Status.ContainerStatuses = "9", nil
	pod.Status.Conditions[0].Status = corev1.ConditionTrue
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for m := range messages {
		if m.Full {
			t.Fatal("the whole page comes again")
		}
		cells := items[cell](t, m)
		for _, c := range cells {
			if c.Node != "node-3" {
				t.Errorf("%+v has not changed", c)
			}
		}
		if len(cells) == 1 && cells[0].Verdict == "up-to-date" {
			break
		}
	}
	w.s.hubs.mu.Lock()
	hub := w.s.hubs.all["set/kruise/default/agent"]
	w.s.hubs.mu.Unlock()
	leave()
	for range messages {
	}
	<-hub.done
	if n := w.s.hubs.count(); n != 0 {
		t.Errorf("%d hubs are left", n)
	}
}

func TestVerbs(t *testing.T) {
	w := open(t, zoned(t, roll()))
	var missing map[string]string
	w.cluster.Denied = true
	if w.read(http.MethodGet, "/api/rights"+setQuery, "", &missing); !strings.Contains(missing["pause"], `"patch" on "daemonsets.apps.kruise.io"`) ||
		!strings.Contains(missing["approve"], `"create" on "rolloutapprovals`) || missing["plan"] != "" {
		t.Errorf("the missing rights are %v", missing)
	}
	w.cluster.Denied = false
	var got outcome
	w.read(http.MethodPost, "/api/verb", `{"verb": "pause", "namespace": "default", "set": "ads/agent", "dryRun": true}`, &got)
	if got.Error != "" || !strings.Contains(got.Output, "agent paused (server dry run)") || got.Line != "kubectl everynode pause -n default --dry-run=server ads/agent" {
		t.Errorf("pause: %+v", got)
	}
	got = outcome{}
	w.read(http.MethodPost, "/api/verb", `{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": {"image": "agent=x:3", "partition": "50%"}}`, &got)
	var d plan.Document
	if err := json.Unmarshal(got.Data, &d); err != nil || len(d.Nodes) == 0 || got.Line != "kubectl everynode plan -n default --image=agent=x:3 --partition=50% ads/agent" {
		t.Errorf("plan: %v, %+v", err, got)
	}
	for body, want := range map[string]string{
		`{"verb": "adopt", "namespace": "default", "set": "x"}`:                                                            "does not offer the command",
		`{"verb": "pause", "namespace": "default", "set": "x", "flags": {"kubeconfig": "y"}}`:                              "does not offer --kubeconfig",
		`{"verb": "pause", "namespace": "default", "set": "x", "arguments": ["y"]}`:                                        "takes 0 arguments",
		`{"verb": "pause", "namespace": "default", "set": "--kubeconfig=y"}`:                                               "there is neither",
		`{"verb": "pause", "namespace": "default", "set": "x", "node": "y"}`:                                               "explain-node and release only",
		`{"verb": "pause", "surprise": 1}`:                                                                                 "cannot be read",
		`{"verb": "plan", "namespace": "default", "set": "x", "dryRun": true}`:                                             "changes nothing",
		`{"verb": "plan", "namespace": "default", "set": "ads/agent", "flags": {"image": "-f", "filename": "/etc/hosts"}}`: "does not offer --filename",
	} {
		got = outcome{}
		if w.read(http.MethodPost, "/api/verb", body, &got); !strings.Contains(got.Error, want) {
			t.Errorf("%s: %+v, want %q", body, got, want)
		}
	}
	for word, want := range map[string]string{"ads/x": "ads/x", "": "''", "it's $(id)": `'it'\''s $(id)'`, "--reason=a b": "'--reason=a b'"} {
		if got := quote(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}
