// SPDX-License-Identifier: Apache-2.0

// Package install applies manifests to a plane: the plane's own and those of Everynode.
//
// They are applied unchanged, but without Deployments and DaemonSets: on a plane, the manager is a process and the
// agents are simulated. Without a manager, webhook configurations are omitted too, because otherwise all requests that
// they match would fail.
package install

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the field manager of applied objects.
const fieldManager = "localplane"

const (
	establishedTimeout = 30 * time.Second
	pollInterval       = 50 * time.Millisecond
)

//go:embed manifests/*.yaml
var own embed.FS

// Installer applies manifests to one plane.
type Installer struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// New returns an installer.
func New(config *rest.Config) (*Installer, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to install: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to install: %w", err)
	}
	return &Installer{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}, nil
}

// Own applies the plane's own manifests.
func (i *Installer) Own(ctx context.Context) error {
	_, err := i.Apply(ctx, own, nil)
	return err
}

// Apply applies all YAML files below root in the order of their names, except the omitted kinds, and returns the number
// of objects. It waits for each CRD to be established.
func (i *Installer) Apply(ctx context.Context, root fs.FS, leaveOut []string) (int, error) {
	objects, err := Read(root)
	if err != nil {
		return 0, err
	}
	objects = slices.DeleteFunc(objects, func(obj *unstructured.Unstructured) bool { return slices.Contains(leaveOut, obj.GetKind()) })
	return len(objects), i.ApplyAll(ctx, objects)
}

// ApplyAll applies objects in their order.
func (i *Installer) ApplyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if err := i.apply(ctx, obj); err != nil {
			return fmt.Errorf("installing %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

// Read reads the objects of all YAML files below root, in order.
func Read(root fs.FS) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		raw, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		list, err := decode(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, list...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	return objects, nil
}

func decode(raw []byte) ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := d.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if len(obj.Object) > 0 {
			list = append(list, obj)
		}
	}
}

func (i *Installer) apply(ctx context.Context, obj *unstructured.Unstructured) error {
	mapping, err := i.mapping(obj)
	if err != nil {
		return err
	}
	resource := i.client.Resource(mapping.Resource)
	var target dynamic.ResourceInterface = resource
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		target = resource.Namespace(obj.GetNamespace())
	}
	if err := keepClientConfig(ctx, target, obj); err != nil {
		return err
	}
	applied, err := target.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return err
	}
	if obj.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	return waitEstablished(ctx, target, applied.GetName())
}

// unsetURL is the URL of a webhook before the manager has published its address. The Service of the manifests would be
// looked up in the machine's DNS, and the result would not be the plane.
const unsetURL = "https://127.0.0.1:1/"

// keepClientConfig keeps the client configuration of an existing webhook, which the manager writes. A new one gets
// unsetURL.
func keepClientConfig(ctx context.Context, target dynamic.ResourceInterface, obj *unstructured.Unstructured) error {
	if !strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
		return nil
	}
	found, err := target.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			for _, w := range webhooks(obj) {
				w["clientConfig"] = map[string]any{"url": unsetURL}
			}
			return nil
		}
		return err
	}
	configs := map[any]any{}
	for _, w := range webhooks(found) {
		configs[w["name"]] = w["clientConfig"]
	}
	for _, w := range webhooks(obj) {
		if config := configs[w["name"]]; config != nil {
			w["clientConfig"] = config
		}
	}
	return nil
}

// webhooks returns the webhooks of a webhook configuration, to be changed in place.
func webhooks(obj *unstructured.Unstructured) []map[string]any {
	list, _ := obj.Object["webhooks"].([]any)
	var found []map[string]any
	for _, w := range list {
		if webhook, ok := w.(map[string]any); ok {
			found = append(found, webhook)
		}
	}
	return found
}

// mapping returns the resource of an object. An unknown kind may belong to a CRD that was just applied.
func (i *Installer) mapping(obj *unstructured.Unstructured) (*meta.RESTMapping, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := i.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		i.mapper.Reset()
		mapping, err = i.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	return mapping, err
}

func waitEstablished(ctx context.Context, crds dynamic.ResourceInterface, name string) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, establishedTimeout, true, func(ctx context.Context) (bool, error) {
		crd, err := crds.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return established(crd), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for it to be established: %w", err)
	}
	return nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}
