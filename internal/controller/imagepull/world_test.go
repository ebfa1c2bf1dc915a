// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/pullstore"
)

// world is a controller on an API server that is not there.
type world struct {
	t      *testing.T
	clock  *clocktesting.FakeClock
	client client.WithWatch
	store  *pullstore.Store
	pods   *kubernetesfake.Clientset
	events *record.FakeRecorder
	c      *Controller
	// patchErr, if not nil, is what patches of a node image come to; done is whether they take effect all the same.
	patchErr func(name string) (err error, done bool)
	writes   atomic.Int64
	// statusErr, if not nil, is what a write of the status of a job comes to.
	statusErr error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), events: record.NewFakeRecorder(100)}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1beta1.ImagePullJob{}, &v1beta1.NodeImage{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				w.writes.Add(1)
				if w.patchErr != nil {
					if err, done := w.patchErr(obj.GetName()); err != nil {
						if done {
							_ = c.Patch(ctx, obj, patch, opts...)
						}
						return err
					}
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				w.writes.Add(1)
				if w.statusErr != nil {
					return w.statusErr
				}
				return c.SubResource(sub).Update(ctx, obj, opts...)
			},
		}).Build()
	w.store, w.pods = pullstore.New(w.client, w.client), kubernetesfake.NewClientset()
	w.restart("secret")
	return w
}

// restart begins anew with a controller that remembers nothing.
func (w *world) restart(allowed ...string) {
	w.c = New(Options{
		Store: w.store, Pods: pullstore.NewPods(w.pods), Events: w.events, Clock: w.clock, MayWrite: func() bool { return true },
		Secrets: NewSecrets(w.client, w.events, w.clock, allowed),
	})
}

func node(name string) []client.Object {
	return []client.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}}},
		&v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}},
	}
}

func newJob(namespace, name string, parallelism int) *v1beta1.ImagePullJob {
	p := intstr.FromInt(parallelism)
	return &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}, Spec: v1beta1.ImagePullJobSpec{
		Image: "agent:2", Parallelism: &p, CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.CompletionAlways},
	}}
}

// pass makes one pass for a job.
func (w *world) pass(job *v1beta1.ImagePullJob) (time.Duration, error) {
	w.clock.Step(time.Second)
	return w.c.Reconcile(w.t.Context(), client.ObjectKeyFromObject(job))
}

// mustPass is pass, which has to succeed.
func (w *world) mustPass(job *v1beta1.ImagePullJob) time.Duration {
	w.t.Helper()
	after, err := w.pass(job)
	if err != nil {
		w.t.Fatal(err)
	}
	return after
}

// read reads an object from the API server; nil if it is gone.
func read[T client.Object](w *world, obj T) T {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err != nil {
		var none T
		return none
	}
	return obj
}

func (w *world) image(name string) *v1beta1.NodeImage {
	w.t.Helper()
	return read(w, &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// begun are how many nodes have been told to pull anything.
func (w *world) begun() int {
	list := &v1beta1.NodeImageList{}
	if err := w.client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	count := 0
	for i := range list.Items {
		if len(list.Items[i].Spec.Images) > 0 {
			count++
		}
	}
	return count
}

// report lets the agent of a node report about everything that it is asked for.
func (w *world) report(name string, phase v1beta1.ImagePullPhase) {
	w.t.Helper()
	image := w.image(name)
	image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{}
	now := metav1.NewTime(w.clock.Now())
	for of, spec := range image.Spec.Images {
		status := v1beta1.ImageStatus{}
		for _, tag := range spec.Tags {
			status.Tags = append(status.Tags, v1beta1.ImageTagStatus{Tag: tag.Tag, Version: tag.Version, Phase: phase, CompletionTime: &now, Message: "m"})
		}
		image.Status.ImageStatuses[of] = status
	}
	if err := w.client.Status().Update(w.t.Context(), image); err != nil {
		w.t.Fatal(err)
	}
}

// told are the events so far.
func (w *world) told() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}
