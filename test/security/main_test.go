// SPDX-License-Identifier: Apache-2.0

// Package security tests on a plane that the manager does everything with exactly the rights that it is shipped with, that it tells nobody a secret,
// that it changes the certificate of its webhooks without a request that fails, and that a daemon set which is protected stays.
//
// The rule: what was asked is read in the audit log of the API server, and what was told in everything that the manager writes: its log at the highest
// level, its metrics, events, and every object in the cluster but secrets.
package security

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/rbac"
	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

const (
	nodes    = 4
	patience = 2 * time.Minute
	team     = "team"
)

// world is a plane with a manager that serves everything, logs everything, and whose requests are kept.
type world struct {
	t *testing.T
	*localplane.Plane
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
	// byHand is what the test has bound to the manager.
	byHand []string
}

// newWorld starts a plane with a manager of these dialects.
func newWorld(t *testing.T, dialects ...string) *world {
	t.Helper()
	return newWorldOf(t, localplane.Manager{Args: []string{
		"--pull-secret-namespaces=" + team, "-v=10",
	}}, dialects...)
}

func newWorldOf(t *testing.T, managers localplane.Manager, dialects ...string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: this starts a plane; run without -short (make test SUITE=security)")
	}
	w := &world{t: t}
	profile := simkubelet.Realistic()
	profile.ImagePull, profile.ContainerStart, profile.ContainerReady, profile.ImageReport = 500*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	w.Plane, err = localplane.Start(ctx, localplane.Options{
		Dir: filepath.Join(t.TempDir(), "plane"), Nodes: nodes, Sim: &profile, Dialects: dialects,
		Manager:    managers,
		Kubernetes: localplane.Kubernetes{Audit: []string{rbac.User(rbac.Manager), rbac.User(rbac.Agent)}},
		Programs: localplane.Programs{
			Localplane: filepath.Join(harness.BinDir(), "localplane"),
			Manager:    filepath.Join(harness.BinDir(), "everynode-manager"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := harness.StopPlane(context.Background(), w.Plane, w.byHand...); err != nil {
			t.Error(err)
		}
	})
	w.client = kubernetes.NewForConfigOrDie(w.RESTConfig())
	w.dynamic = dynamic.NewForConfigOrDie(w.RESTConfig())
	w.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(w.RESTConfig())))
	return w
}

// of is where an object is.
func (w *world) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	w.t.Helper()
	kind := o.GroupVersionKind()
	mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		w.t.Fatal(err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return w.dynamic.Resource(mapping.Resource)
	}
	return w.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

// object reads an object of a text.
func (w *world) object(text string) *unstructured.Unstructured {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		w.t.Fatalf("%v in\n%s", err, text)
	}
	return o
}

// apply creates objects, or changes them. They may be refused for as long as the webhooks are not there yet.
func (w *world) apply(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		o := w.object(text)
		force := true
		data, err := o.MarshalJSON()
		if err != nil {
			w.t.Fatal(err)
		}
		w.until("applying "+o.GetKind()+" "+o.GetName(), func() error {
			_, err := w.of(o).Patch(w.t.Context(), o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "test", Force: &force})
			return err
		})
	}
}

// remove deletes an object, and waits until it is gone.
func (w *world) remove(text string, propagation metav1.DeletionPropagation) {
	w.t.Helper()
	o := w.object(text)
	if err := w.of(o).Delete(w.t.Context(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
		w.t.Fatal(err)
	}
	w.gone(text)
}

func (w *world) gone(text string) {
	w.t.Helper()
	o := w.object(text)
	w.until("the end of "+o.GetKind()+" "+o.GetName(), func() error {
		_, err := w.of(o).Get(w.t.Context(), o.GetName(), metav1.GetOptions{})
		switch {
		case err == nil:
			return fmt.Errorf("%s is there", o.GetName())
		case strings.Contains(err.Error(), "not found"):
			return nil
		}
		return err
	})
}

// number waits until a field of an object is a number.
func (w *world) number(text string, want int64, field ...string) {
	w.t.Helper()
	o := w.object(text)
	w.until(fmt.Sprintf("%s %s: %s = %d", o.GetKind(), o.GetName(), strings.Join(field, "."), want), func() error {
		found, err := w.of(o).Get(w.t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		generation, _, _ := unstructured.NestedInt64(found.Object, "status", "observedGeneration")
		if got, _, _ := unstructured.NestedInt64(found.Object, field...); got != want || generation != 0 && generation != found.GetGeneration() {
			return fmt.Errorf("the status is %v", found.Object["status"])
		}
		return nil
	})
}

// until waits until something holds.
func (w *world) until(what string, holds func() error) {
	w.t.Helper()
	w.within(patience, what, holds)
}

// within is the same for what takes longer.
func (w *world) within(most time.Duration, what string, holds func() error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), most)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("waited in vain for %s: %v", what, err)
		}
	}
}
