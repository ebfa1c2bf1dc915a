// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/podtemplate"
)

// Pods are the reads and writes of pods that the executor needs.
type Pods interface {
	Create(ctx context.Context, pod *unstructured.Unstructured) (*corev1.Pod, error)
	// Delete deletes the pod only if the preconditions are met: the UID, and perhaps the resourceVersion.
	Delete(ctx context.Context, namespace, name string, only metav1.Preconditions) error
	Get(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// GetSince is Get for callers that accept any version from rv on: the API server can answer from its cache.
	GetSince(ctx context.Context, namespace, name, rv string) (*corev1.Pod, error)
	// Find is like Get, but if no pod has the name, it returns nil and the resourceVersion at which the pod did not exist.
	Find(ctx context.Context, namespace, name string) (pod *corev1.Pod, rv string, err error)
	// List gives the pods of a namespace that a selector matches, from the API server itself.
	List(ctx context.Context, namespace string, selector labels.Selector, each func(*corev1.Pod)) error
	Patch(ctx context.Context, patch PodPatch) (*corev1.Pod, error)
}

// decodedPods are Pods that also send pods that were decoded without a loss.
type decodedPods interface {
	CreateDecoded(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
}

// create creates the pod that m makes with p: with our types, which cost the API server less, if these lose no fields of the template.
func create(ctx context.Context, pods Pods, m *podtemplate.Maker, p podtemplate.Params) (*corev1.Pod, error) {
	if d, ok := pods.(decodedPods); ok {
		if pod := m.Decoded(p); pod != nil {
			return d.CreateDecoded(ctx, pod)
		}
	}
	return pods.Create(ctx, m.Pod(p))
}

// PodPatch is a strategic merge patch of a pod, or of a subresource of it.
type PodPatch struct {
	Namespace, Pod string
	Of             dialect.Subresource
	Body           []byte
	// DryRun reports whether the patch is only tried: the API server answers as if it took effect.
	DryRun bool
}

// Revisions are the writes of ControllerRevisions that the controller needs.
type Revisions interface {
	Create(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error)
	Get(ctx context.Context, namespace, name string) (*appsv1.ControllerRevision, error)
	// List gives the revisions of a namespace that a selector matches, from the API server itself.
	List(ctx context.Context, namespace string, selector labels.Selector, each func(*appsv1.ControllerRevision)) error
	// Patch is a strategic merge patch.
	Patch(ctx context.Context, namespace, name string, patch []byte) (*appsv1.ControllerRevision, error)
	Delete(ctx context.Context, namespace, name string, uid types.UID) error
}

// NewPods returns Pods on a real API server. Pods are sent in the client's own encoding, protobuf, or as
// JSON, undecoded, where our types would lose fields of the template; answers come in the client's own
// encoding. But for List, the limit of the client is left to Pace, so that waiting for it does not look like
// a slow server; and so are answers that ask for a pause.
func NewPods(c kubernetes.Interface) Pods { return livePods{c, writeTimeout} }

// NewSlowPods is NewPods for a SlowLane.
func NewSlowPods(c kubernetes.Interface) Pods { return livePods{c, SlowWriteTimeout} }

// NewRevisions returns Revisions on a real API server. The caller enforces the limit of the client, and how long they may take.
func NewRevisions(c kubernetes.Interface) Revisions { return liveRevisions{c} }

// WriteTimeout is how long the API server may work on a write that a pass waits for. A new leader waits as long before it reads the
// cluster, so that no write of the old one can still be under way then (see Fence), and longer where there may be one of a SlowLane.
const WriteTimeout = writeTimeout

const writeTimeout = 5 * time.Second

// Fence is how long after the end of a leader a write of it can still take effect.
const Fence = WriteTimeout

type livePods struct {
	c       kubernetes.Interface
	timeout time.Duration
}

// once is a request that is sent at once, and not again.
func (l livePods) once(r *rest.Request) *rest.Request {
	return r.Throttle(nil).MaxRetries(0).Timeout(l.timeout)
}

func (l livePods) Create(ctx context.Context, pod *unstructured.Unstructured) (*corev1.Pod, error) {
	body, err := json.Marshal(pod.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod: %w", err)
	}
	created := &corev1.Pod{}
	err = l.once(l.c.CoreV1().RESTClient().Post()).Namespace(pod.GetNamespace()).Resource("pods").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Into(created)
	return created, err
}

// CreateDecoded implements decodedPods.
func (l livePods) CreateDecoded(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	created := &corev1.Pod{}
	err := l.once(l.c.CoreV1().RESTClient().Post()).Namespace(pod.Namespace).Resource("pods").Body(pod).Do(ctx).Into(created)
	return created, err
}

func (l livePods) Delete(ctx context.Context, namespace, name string, only metav1.Preconditions) error {
	return l.once(l.c.CoreV1().RESTClient().Delete()).Namespace(namespace).Resource("pods").Name(name).
		Body(&metav1.DeleteOptions{Preconditions: &only}).Do(ctx).Error()
}

func (l livePods) Get(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return l.GetSince(ctx, namespace, name, "")
}

func (l livePods) GetSince(ctx context.Context, namespace, name, rv string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := l.once(l.c.CoreV1().RESTClient().Get()).Namespace(namespace).Resource("pods").Name(name).
		VersionedParams(&metav1.GetOptions{ResourceVersion: rv}, scheme.ParameterCodec).Do(ctx).Into(pod)
	if rv != "" && apierrors.IsTimeout(err) {
		return l.Get(ctx, namespace, name) // this API server is behind the one that has shown us rv
	}
	return pod, err
}

func (l livePods) Find(ctx context.Context, namespace, name string) (*corev1.Pod, string, error) {
	list := &corev1.PodList{}
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	err := l.once(l.c.CoreV1().RESTClient().Get()).Namespace(namespace).Resource("pods").
		VersionedParams(&byName, scheme.ParameterCodec).Do(ctx).Into(list)
	if err != nil || len(list.Items) == 0 {
		return nil, list.ResourceVersion, err
	}
	return &list.Items[0], list.ResourceVersion, nil
}

func (l livePods) List(ctx context.Context, namespace string, selector labels.Selector, each func(*corev1.Pod)) error {
	list := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return l.c.CoreV1().Pods(namespace).List(ctx, o)
	}))
	return list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(obj runtime.Object) error {
		each(obj.(*corev1.Pod))
		return nil
	})
}

func (l livePods) Patch(ctx context.Context, patch PodPatch) (*corev1.Pod, error) {
	request := l.once(l.c.CoreV1().RESTClient().Patch(types.StrategicMergePatchType)).Namespace(patch.Namespace).Resource("pods").Name(patch.Pod)
	if patch.Of != dialect.Whole {
		request = request.SubResource(string(patch.Of))
	}
	if patch.DryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	patched := &corev1.Pod{}
	err := request.Body(patch.Body).Do(ctx).Into(patched)
	return patched, err
}

type liveRevisions struct{ c kubernetes.Interface }

func (l liveRevisions) Create(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return l.c.AppsV1().ControllerRevisions(r.Namespace).Create(ctx, r, metav1.CreateOptions{})
}

func (l liveRevisions) Get(ctx context.Context, namespace, name string) (*appsv1.ControllerRevision, error) {
	return l.c.AppsV1().ControllerRevisions(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (l liveRevisions) List(ctx context.Context, namespace string, selector labels.Selector, each func(*appsv1.ControllerRevision)) error {
	list := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return l.c.AppsV1().ControllerRevisions(namespace).List(ctx, o)
	}))
	return list.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector.String()}, func(obj runtime.Object) error {
		each(obj.(*appsv1.ControllerRevision))
		return nil
	})
}

func (l liveRevisions) Patch(ctx context.Context, namespace, name string, patch []byte) (*appsv1.ControllerRevision, error) {
	return l.c.AppsV1().ControllerRevisions(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

func (l liveRevisions) Delete(ctx context.Context, namespace, name string, uid types.UID) error {
	return l.c.AppsV1().ControllerRevisions(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}
