// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/dialect"
)

// client is a typed client of the cluster.
func (c *cluster) client() kubernetes.Interface {
	set := &fake.Clientset{}
	set.AddReactor("*", "*", c.react)
	set.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := c.watch(action.GetResource().Resource, action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
		return true, w, err
	})
	return slowClient{set, c}
}

// react answers one request. Events are taken and forgotten.
func (c *cluster) react(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := action.GetResource().Resource
	if resource == "events" {
		return true, &corev1.Event{}, nil
	}
	if c.tables[resource] == nil {
		return true, nil, fmt.Errorf("no such resource: %s", resource)
	}
	if err := c.admit(action); err != nil {
		return true, nil, err
	}
	o, err := c.answer(resource, action)
	return true, o, err
}

func (c *cluster) answer(resource string, action clienttesting.Action) (runtime.Object, error) {
	var o object
	var err error
	switch a := action.(type) {
	case clienttesting.ListActionImpl:
		return c.list(resource, a.GetNamespace()), nil
	case clienttesting.DeleteActionImpl:
		return nil, c.delete(resource, a.Name, a.DeleteOptions)
	case clienttesting.GetActionImpl:
		o, err = c.get(resource, a.Name)
	case clienttesting.CreateActionImpl:
		o, err = c.create(resource, a.Object.(object))
	case clienttesting.UpdateActionImpl:
		o, err = c.replace(resource, a.Subresource, a.Object.(object))
	case clienttesting.PatchActionImpl:
		if a.PatchType != types.StrategicMergePatchType {
			return nil, fmt.Errorf("a patch of type %s: nobody sends one", a.PatchType)
		}
		o, err = c.patch(resource, a.Subresource, a.Name, a.Patch)
	default:
		return nil, fmt.Errorf("no answer to %T", action)
	}
	if err != nil {
		return nil, err // and not a nil of a type
	}
	return o, nil
}

// dynamicSets is a dynamic client that knows DaemonSets, and what is asked of them.
type dynamicSets struct {
	dynamic.NamespaceableResourceInterface
	client kubernetes.Interface
}

// Resource implements dynamic.Interface.
func (d dynamicSets) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return d
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (d dynamicSets) Namespace(string) dynamic.ResourceInterface { return d }

// IsWatchListSemanticsUnSupported tells reflectors to list first.
func (d dynamicSets) IsWatchListSemanticsUnSupported() bool { return true }

// List implements dynamic.ResourceInterface.
func (d dynamicSets) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := d.client.AppsV1().DaemonSets(namespace).List(ctx, o)
	if err != nil {
		return nil, err
	}
	raw := &unstructured.UnstructuredList{}
	raw.SetResourceVersion(list.ResourceVersion)
	for i := range list.Items {
		raw.Items = append(raw.Items, *rawSet(&list.Items[i]))
	}
	return raw, nil
}

// Watch implements dynamic.ResourceInterface.
func (d dynamicSets) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := d.client.AppsV1().DaemonSets(namespace).Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		e.Object = rawSet(e.Object.(*appsv1.DaemonSet))
		return e, true
	}), nil
}

// Get implements dynamic.ResourceInterface.
func (d dynamicSets) Get(ctx context.Context, name string, o metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	ds, err := d.client.AppsV1().DaemonSets(namespace).Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return rawSet(ds), nil
}

// Patch implements dynamic.ResourceInterface.
func (d dynamicSets) Patch(
	ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, of ...string,
) (*unstructured.Unstructured, error) {
	ds, err := d.client.AppsV1().DaemonSets(namespace).Patch(ctx, name, kind, patch, o, of...)
	if err != nil {
		return nil, err
	}
	return rawSet(ds), nil
}

// rawSet is a set as it comes from the API server, undecoded.
func rawSet(ds *appsv1.DaemonSet) *unstructured.Unstructured {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ds)
	if err != nil {
		panic(err) // a DaemonSet can always be encoded
	}
	u := &unstructured.Unstructured{Object: raw}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	return u
}

// rawPods writes and reads pods as executor.NewPods does, whose client speaks HTTP.
type rawPods struct{ client kubernetes.Interface }

// Create implements executor.Pods.
func (r rawPods) Create(ctx context.Context, u *unstructured.Unstructured) (*corev1.Pod, error) {
	body, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	p := &corev1.Pod{}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, err
	}
	return r.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
}

// Delete implements executor.Pods.
func (r rawPods) Delete(ctx context.Context, _, name string, only metav1.Preconditions) error {
	return r.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &only})
}

// Get implements executor.Pods.
func (r rawPods) Get(ctx context.Context, _, name string) (*corev1.Pod, error) {
	return r.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// GetSince implements executor.Pods.
func (r rawPods) GetSince(ctx context.Context, ns, name, _ string) (*corev1.Pod, error) {
	return r.Get(ctx, ns, name)
}

// Find implements executor.Pods.
func (r rawPods) Find(ctx context.Context, ns, name string) (*corev1.Pod, string, error) {
	p, err := r.Get(ctx, ns, name)
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	return p, "", err
}

// List implements executor.Pods.
func (r rawPods) List(ctx context.Context, ns string, selector labels.Selector, each func(*corev1.Pod)) error {
	return executor.NewPods(r.client).List(ctx, ns, selector, each)
}

// Patch implements executor.Pods.
func (r rawPods) Patch(ctx context.Context, p executor.PodPatch) (*corev1.Pod, error) {
	if p.Of != dialect.Whole {
		return nil, fmt.Errorf("a patch of %s: the native dialect sends none", p.Of)
	}
	return r.client.CoreV1().Pods(namespace).Patch(ctx, p.Pod, types.StrategicMergePatchType, p.Body, metav1.PatchOptions{})
}
