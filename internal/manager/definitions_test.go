// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/dialects"
)

// The definitions that there may be of a resource.
const (
	ours     = "ours"
	theirs   = "theirs"
	applied  = "theirs, applied over ours by server-side apply"
	unserved = "ours, but it is not served" // as where another definition has its names
)

// definition is one of these.
func definition(name, whose string) *unstructured.Unstructured {
	labels, text, status := map[string]any{"everynode.dev/part-of": "everynode"}, "DaemonSet keeps one pod on every node that should have one", "True"
	switch whose {
	case theirs:
		labels = map[string]any{"app": "kruise"}
	case applied:
		text = "DaemonSet is the Schema for the daemonsets API"
	case unserved:
		status = "False"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name, "labels": labels},
		"spec": map[string]any{"versions": []any{map[string]any{
			"name": "v1beta1", "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"description": text}},
		}}},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": status}, map[string]any{"type": "Established", "status": status},
		}},
	}}
}

// definitionsClient is a client of a cluster with these definitions, by the plural names of their resources.
func definitionsClient(whose map[string]string) *fake.FakeDynamicClient {
	var objects []runtime.Object
	for plural, by := range whose {
		objects = append(objects, definition(plural+".apps.kruise.io", by))
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{kruise.Definitions(): "CustomResourceDefinitionList"}, objects...)
}

// TestDefinitionsThatComeAndGo: a manager begins again when a definition comes that was missing, and when one goes, and at nothing else.
func TestDefinitionsThatComeAndGo(t *testing.T) {
	client := definitionsClient(nil)
	create := func(name string) {
		t.Helper()
		if err := client.Tracker().Create(kruise.Definitions(), definition(name, ours), ""); err != nil {
			t.Fatal(err)
		}
	}
	names := kruiseDefinitions()
	create(names[0])
	w := &definitionWatch{client: client, every: time.Millisecond}
	var err error
	if w.known, err = readDefinitions(t.Context(), client); err != nil || !slices.Equal(w.known.missing, names[1:]) {
		t.Fatalf("missing %q, error %v", w.known.missing, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		t.Errorf("nothing has changed, and it ends with %v", err)
	}
	create(names[2])
	if err := w.Start(t.Context()); !errors.Is(err, errDefinitions) {
		t.Errorf("%s has come: %v", names[2], err)
	}
	w.known, _ = readDefinitions(t.Context(), client)
	if err := client.Tracker().Delete(kruise.Definitions(), "", names[0]); err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); !errors.Is(err, errDefinitions) {
		t.Errorf("%s has gone: %v", names[0], err)
	}
}

// TestADefinitionThatIsCreatedAgain between two looks is another one, and all its objects are gone.
func TestADefinitionThatIsCreatedAgain(t *testing.T) {
	name, client := kruiseDefinitions()[0], definitionsClient(nil)
	create := func(uid types.UID) {
		t.Helper()
		of := definition(name, ours)
		of.SetUID(uid)
		if err := client.Tracker().Create(kruise.Definitions(), of, ""); err != nil {
			t.Fatal(err)
		}
	}
	create("1")
	w := &definitionWatch{client: client, every: time.Millisecond}
	w.known, _ = readDefinitions(t.Context(), client)
	w.known.uids = nil // it could not be read at first
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		t.Errorf("nothing has changed, and it ends with %v", err)
	}
	if err := client.Tracker().Delete(kruise.Definitions(), "", name); err != nil {
		t.Fatal(err)
	}
	create("2")
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.Start(ctx); !errors.Is(err, errDefinitions) {
		t.Errorf("it was created again: %v", err)
	}
}

// TestDefinitionsThatMayNotBeRead: the other dialects work, and the manager begins again when it may read them.
func TestDefinitionsThatMayNotBeRead(t *testing.T) {
	client := definitionsClient(map[string]string{"daemonsets": ours, "imagepulljobs": ours, "nodeimages": ours})
	var allowed atomic.Bool
	client.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !allowed.Load(), nil, apierrors.NewForbidden(kruise.Definitions().GroupResource(), "x", errors.New("no"))
	})
	o := newOptions()
	o.dialects = []string{dialects.Native, dialects.Kruise}
	if err := checkDefinitions(t.Context(), client, o); err != nil {
		t.Fatalf("the manager ends: %v", err)
	}
	if !slices.Equal(o.dialects, []string{dialects.Native}) || o.leftOut == nil || !strings.Contains(o.leftOut.Error(), "not allowed to read CRDs") {
		t.Errorf("it serves %q, and leaves a dialect out because of %v", o.dialects, o.leftOut)
	}
	w := &definitionWatch{client: client, known: o.definitions, every: time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		t.Errorf("nothing has changed, and it ends with %v", err)
	}
	allowed.Store(true)
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.Start(ctx); !errors.Is(err, errDefinitions) {
		t.Errorf("it may read them now: %v", err)
	}
}

// cluster is an API server with the definitions of the dialect of OpenKruise and with no objects.
type cluster struct {
	mu    sync.Mutex
	whose string
	// closed is whether nobody may read the objects of apps.kruise.io.
	closed bool
}

func (c *cluster) become(whose string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whose = whose
}

func (c *cluster) serve(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: 1000, Burst: 1000}
}

// ServeHTTP implements http.Handler.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	whose := c.whose
	c.mu.Unlock()
	kinds := map[string]string{"nodes": "v1 NodeList", "pods": "v1 PodList", "daemonsets": "apps/v1 DaemonSetList", "controllerrevisions": "apps/v1 ControllerRevisionList"}
	last := path.Base(r.URL.Path)
	apiVersion, kind, known := strings.Cut(kinds[last], " ")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case c.closed && strings.Contains(r.URL.Path, "/apis/apps.kruise.io/"):
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(forbidden))
	case strings.Contains(r.URL.Path, "customresourcedefinitions"):
		_ = json.NewEncoder(w).Encode(definition(last, whose))
	case strings.Contains(r.URL.Path, "/apis/apps.kruise.io/") && whose != unserved && last == "daemonsets":
		apiVersion, kind = "apps.kruise.io/v1beta1", "DaemonSetList"
		fallthrough
	case known && !strings.Contains(r.URL.Path, "/apis/apps.kruise.io/"):
		if r.URL.Query().Has("sendInitialEvents") { // it does not stream lists
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
			return
		}
		if r.URL.Query().Has("watch") {
			<-r.Context().Done()
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"10"},"items":[]}`, kind, apiVersion)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(notFound))
	}
}

// TestDefinitionsThatChangeHands: a manager that has left the dialect of OpenKruise out for foreign definitions serves it when they have become Everynode's,
// and one that serves it leaves it out when they are OpenKruise's. What it serves does not depend on when it was started.
func TestDefinitionsThatChangeHands(t *testing.T) {
	for _, step := range []struct{ from, to string }{
		{theirs, ours}, {ours, theirs}, {ours, applied}, {applied, ours}, {ours, unserved}, {unserved, ours},
	} {
		t.Run("from "+step.from+" to "+step.to, func(t *testing.T) {
			c := &cluster{whose: step.from}
			cfg := c.serve(t)
			o, err := parse(t, "", "--dialects=native,kruise", "--webhook-url=https://127.0.0.1:19443")
			if err != nil {
				t.Fatal(err)
			}
			w, err := newDefinitionWatch(o, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkDefinitions(t.Context(), w.client, o); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(o.dialects, dialects.Kruise); got != (step.from == ours) {
				t.Errorf("at first it serves %q", o.dialects)
			}
			if w, err = newDefinitionWatch(o, cfg); err != nil {
				t.Fatal(err)
			}
			w.every = time.Millisecond
			c.become(step.to)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := w.Start(ctx); !errors.Is(err, errAgain) {
				t.Errorf("the manager continues with the dialects %q: %v", o.dialects, err)
			}
		})
	}
}

// TestADefinitionThatIsNotServed: the other dialects work, as where it is missing. A manager that begins again because of it would find the same again.
func TestADefinitionThatIsNotServed(t *testing.T) {
	cfg := (&cluster{whose: unserved}).serve(t)
	o, err := parse(t, "", "--leader-elect=false", "--dialects=native,kruise", "--webhook-url=https://127.0.0.1:19443")
	if err != nil {
		t.Fatal(err)
	}
	w, err := newDefinitionWatch(o, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkDefinitions(t.Context(), w.client, o); err != nil {
		t.Fatal(err)
	}
	if want := "the API server does not serve the version v1beta1 of the CRD daemonsets.apps.kruise.io"; o.leftOut == nil || !strings.Contains(o.leftOut.Error(), want) {
		t.Errorf("the dialect is left out because of %v, want %s", o.leftOut, want)
	}
	if l := reads(t, o, cfg); !slices.Equal(o.dialects, []string{dialects.Native}) || l.late.Load() {
		t.Errorf("it serves %q", o.dialects)
	}
}

// TestADialectThatCannotBeRead: the others work meanwhile, and the metric shows that it does not.
func TestADialectThatCannotBeRead(t *testing.T) {
	o, err := parse(t, "", "--leader-elect=false", "--dialects=native,kruise", "--webhook-url=https://127.0.0.1:19443")
	if err != nil {
		t.Fatal(err)
	}
	if l := reads(t, o, (&cluster{whose: ours, closed: true}).serve(t)); !l.late.Load() {
		t.Error("the sets of the dialect count as read")
	}
}

// reads has a leader read the cluster.
func reads(t *testing.T, o *options, cfg *rest.Config) *leader {
	t.Helper()
	l, err := newLeader(o, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- l.Start(ctx) }()
	for deadline := time.Now().Add(time.Minute); !l.synced.Load() && time.Now().Before(deadline) && len(done) == 0; {
		time.Sleep(10 * time.Millisecond)
	}
	if !l.synced.Load() {
		t.Error("it has not read the cluster")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it ends with %v", err)
	}
	return l
}
