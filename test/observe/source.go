// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// source is one kind of object to list and watch.
type source struct {
	name string
	// list reads from etcd, not from a cache.
	list  func(ctx context.Context) (version string, objects []metav1.Object, err error)
	watch func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	holds func(object metav1.Object) bool
	// renewed reports whether the API server may forget old versions at any time; see Recorder.followRenewed.
	renewed bool
	// decode converts an object of the watch for the log; if nil, it is not converted.
	decode func(object metav1.Object) (metav1.Object, error)
}

func (s source) read(object metav1.Object) (metav1.Object, error) {
	if s.decode == nil {
		return object, nil
	}
	return s.decode(object)
}

// sourcesOf returns the sources for the pods of the namespace, all nodes, and the set.
func sourcesOf(client kubernetes.Interface, namespace, name string) []source {
	pods, nodes, sets := client.CoreV1().Pods(namespace), client.CoreV1().Nodes(), client.AppsV1().DaemonSets(namespace)
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return []source{
		{
			name: "daemonsets",
			list: func(ctx context.Context) (string, []metav1.Object, error) {
				list, err := sets.List(ctx, metav1.ListOptions{FieldSelector: only})
				if err != nil {
					return "", nil, err
				}
				return list.ResourceVersion, pointers(list.Items, func(o *appsv1.DaemonSet) metav1.Object { return o }), nil
			},
			watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = only
				return sets.Watch(ctx, options)
			},
			holds: func(object metav1.Object) bool { _, ok := object.(*appsv1.DaemonSet); return ok },
		},
		{
			name: "nodes",
			list: func(ctx context.Context) (string, []metav1.Object, error) {
				list, err := nodes.List(ctx, metav1.ListOptions{})
				if err != nil {
					return "", nil, err
				}
				return list.ResourceVersion, pointers(list.Items, func(o *corev1.Node) metav1.Object { return o }), nil
			},
			watch: nodes.Watch,
			holds: func(object metav1.Object) bool { _, ok := object.(*corev1.Node); return ok },
		},
		{
			name: "pods",
			list: func(ctx context.Context) (string, []metav1.Object, error) {
				list, err := pods.List(ctx, metav1.ListOptions{})
				if err != nil {
					return "", nil, err
				}
				return list.ResourceVersion, pointers(list.Items, func(o *corev1.Pod) metav1.Object { return o }), nil
			},
			watch: pods.Watch,
			holds: func(object metav1.Object) bool { _, ok := object.(*corev1.Pod); return ok },
		},
	}
}

// advancedSource is the source for the set of apps.kruise.io, in the stored version.
func advancedSource(client dynamic.Interface, namespace, name string) source {
	resource := v1beta1.GroupVersion().WithResource(kruise.Resource)
	sets, only := client.Resource(resource).Namespace(namespace), fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return source{
		name: "daemonsets." + kruise.Group,
		list: func(ctx context.Context) (string, []metav1.Object, error) {
			list, err := sets.List(ctx, metav1.ListOptions{FieldSelector: only})
			if err != nil {
				return "", nil, err
			}
			objects := make([]metav1.Object, len(list.Items))
			for i := range list.Items {
				if objects[i], err = decodeAdvanced(&list.Items[i]); err != nil {
					return "", nil, err
				}
			}
			return list.GetResourceVersion(), objects, nil
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = only
			return sets.Watch(ctx, options)
		},
		holds:   func(object metav1.Object) bool { _, ok := object.(*Advanced); return ok },
		renewed: true,
		decode:  decodeAdvanced,
	}
}

func decodeAdvanced(object metav1.Object) (metav1.Object, error) {
	undecoded, ok := object.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("reading an Advanced DaemonSet: it is a %T", object)
	}
	set, err := ReadAdvanced(undecoded)
	if err != nil {
		return nil, err
	}
	return NewAdvanced(set)
}

func pointers[T any](items []T, object func(*T) metav1.Object) []metav1.Object {
	out := make([]metav1.Object, len(items))
	for i := range items {
		out[i] = object(&items[i])
	}
	return out
}
