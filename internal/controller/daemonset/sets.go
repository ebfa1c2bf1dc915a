// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/base"
)

// Sets are the reads and writes of daemon sets that the loop needs.
type Sets interface {
	// Get asks the API server itself, not a cache.
	Get(ctx context.Context, key clustercache.Key) (*unstructured.Unstructured, error)
	// PatchStatus sends a patch to the status subresource, and returns the object as it is then: a strategic merge patch of Kubernetes' own
	// DaemonSets, so that conditions of others stay as they are, and a JSON merge patch of others.
	PatchStatus(ctx context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error)
}

// NewSets returns Sets on a real API server, where resources gives the resource of each dialect. The loop
// enforces the rate limit of the client and the timeout of requests, so that waiting for the rate limit does
// not count toward the timeout.
func NewSets(c dynamic.Interface, resources map[string]schema.GroupVersionResource) Sets {
	return liveSets{client: c, resources: resources}
}

type liveSets struct {
	client    dynamic.Interface
	resources map[string]schema.GroupVersionResource
}

func (l liveSets) Get(ctx context.Context, key clustercache.Key) (*unstructured.Unstructured, error) {
	r, ok := l.resources[key.Dialect]
	if !ok {
		return nil, fmt.Errorf("the dialect %q has no resource", key.Dialect)
	}
	return l.client.Resource(r).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

func (l liveSets) PatchStatus(ctx context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	r, ok := l.resources[key.Dialect]
	if !ok {
		return nil, fmt.Errorf("the dialect %q has no resource", key.Dialect)
	}
	kind := types.MergePatchType
	if r.Group == appsv1.GroupName {
		kind = types.StrategicMergePatchType
	}
	return l.client.Resource(r).Namespace(key.Namespace).Patch(ctx, key.Name, kind, patch, metav1.PatchOptions{}, "status")
}

// NewTemplates returns Templates on a real API server, with resources as for NewSets.
func NewTemplates(c dynamic.Interface, resources map[string]schema.GroupVersionResource) Templates {
	return liveSets{client: c, resources: resources}
}

func (l liveSets) PatchTemplate(ctx context.Context, key clustercache.Key, patch []byte) (*unstructured.Unstructured, error) {
	return l.client.Resource(l.resources[key.Dialect]).Namespace(key.Namespace).
		Patch(ctx, key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: base.FieldManager})
}

// live is the set as the API server itself has it.
func (p *pass) live(ctx context.Context) (*unstructured.Unstructured, error) {
	return read(ctx, p.c, func(ctx context.Context) (*unstructured.Unstructured, error) { return p.c.Sets.Get(ctx, p.key) })
}

// object is the set as owner and as subject of events.
func (p *pass) object() *metav1.PartialObjectMetadata {
	apiVersion, kind := p.d.GVK.ToAPIVersionAndKind()
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.w.Namespace, Name: p.w.Name, UID: p.w.UID},
	}
}

// owner is the reference by which the set controls its pods and revisions.
func (p *pass) owner() metav1.OwnerReference { return *metav1.NewControllerRef(p.object(), p.d.GVK) }
