// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// ReadOptions define what to read.
type ReadOptions struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Namespace is the namespace of the sets, pods and ControllerRevisions; empty means all namespaces.
	Namespace string
	Facts     dialect.FactsFunc
	Sets      []ReadSet
}

// ReadSet is a set that has already been read.
type ReadSet struct {
	Source  dialect.Source
	InPlace InPlaceFunc
	Object  *unstructured.Unstructured
}

// Reading is the state of a cluster at the time of the read.
type Reading struct {
	index   *clustercache.Index
	inPlace map[clustercache.Key]InPlaceFunc
	nodes   []corev1.Node
	// workloads are the sets, which adopt orphans.
	workloads []*dialect.Workload
}

// ListError is the error of a list.
type ListError struct {
	Resource  schema.GroupResource
	Namespace string
	Err       error
}

// Error implements error.
func (e *ListError) Error() string { return fmt.Sprintf("listing %s: %v", e.Resource, e.Err) }

// Unwrap returns the cause.
func (e *ListError) Unwrap() error { return e.Err }

// Read reads the data of the sets, page by page. An error of the API server is a *ListError.
func Read(ctx context.Context, o ReadOptions) (*Reading, error) {
	r := &Reading{index: clustercache.NewIndex(func(clustercache.Key) {}), inPlace: map[clustercache.Key]InPlaceFunc{}}
	r.index.ReadFacts(o.Facts)
	for _, set := range o.Sets {
		workload := set.Source.Digest(set.Object.Object)
		key := clustercache.Key{Dialect: set.Source.Dialect, Namespace: workload.Namespace, Name: workload.Name}
		r.index.PutSet(key, &workload)
		r.inPlace[key] = set.InPlace
		r.workloads = append(r.workloads, &workload)
	}
	nodes := func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
		return o.Client.CoreV1().Nodes().List(ctx, l)
	}
	err := each(ctx, nodes, ListError{Resource: schema.GroupResource{Resource: "nodes"}}, func(n *corev1.Node) {
		r.nodes = append(r.nodes, *n)
		r.index.PutNode(clustercache.NodeFrom(n))
	})
	if err != nil {
		return nil, err
	}
	revisions := func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
		return o.Client.AppsV1().ControllerRevisions(o.Namespace).List(ctx, l)
	}
	err = each(ctx, revisions, ListError{Resource: schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, Namespace: o.Namespace}, func(c *appsv1.ControllerRevision) {
		if rec, ours := informers.RevisionFrom(c); ours {
			if rec.Owner == "" && !rec.Deleting {
				rec.Owner, rec.Advanced = r.adopter(rec.Namespace, rec.Labels)
			}
			r.index.PutRevision(rec)
		}
	})
	if err != nil {
		return nil, err
	}
	pods := func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
		return o.Client.CoreV1().Pods(o.Namespace).List(ctx, l)
	}
	err = each(ctx, pods, ListError{Resource: schema.GroupResource{Resource: "pods"}, Namespace: o.Namespace}, func(p *corev1.Pod) {
		if rec, ours := r.index.PodFrom(p); ours {
			if rec.Owner == "" && !rec.Deleting && !rec.Phase.Terminal() {
				rec.Owner, rec.Advanced = r.adopter(rec.Namespace, rec.Labels)
			}
			r.index.PutPod(rec)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(r.nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// adopter returns the set that will adopt an orphan with these labels, or "".
func (r *Reading) adopter(namespace string, of map[string]string) (owner types.UID, advanced bool) {
	for _, w := range r.workloads {
		if w.Namespace == namespace && !w.Deleting && !w.SelectsAll && w.Selector != nil && w.Selector.Matches(labels.Set(of)) {
			return w.UID, w.Advanced
		}
	}
	return "", false
}

// each calls take for every object of a list, without keeping it. If the list fails, it returns failure with the cause.
func each[T any](ctx context.Context, list pager.ListPageFunc, failure ListError, take func(*T)) error {
	err := pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if typed, ok := any(object).(*T); ok {
			take(typed)
		}
		return nil
	})
	if err != nil {
		failure.Err = err
		return &failure
	}
	return nil
}

// Nodes returns the nodes of the cluster, sorted by name.
func (r *Reading) Nodes() []corev1.Node { return r.nodes }

// Govern records that a rollout policy may hold nodes of a set: then the previous revision of a node matters.
func (r *Reading) Govern(key clustercache.Key) { r.index.Govern(key, true) }

// Evaluate returns what is known about a set at now; ok is false for a set that was not read.
func (r *Reading) Evaluate(key clustercache.Key, now rollout.Time) (View, bool) {
	return evaluate(r.index, key, r.inPlace[key], now)
}
