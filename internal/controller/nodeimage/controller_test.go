// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/pullstore"
	"everynode.dev/everynode/internal/imagepull"
)

type world struct {
	t      *testing.T
	clock  *clocktesting.FakeClock
	client client.WithWatch
	events *record.FakeRecorder
	c      *Controller
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), events: record.NewFakeRecorder(10)}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1beta1.NodeImage{}, &v1beta1.ImagePullJob{}).Build()
	w.c = New(pullstore.New(w.client, w.client), w.events, w.clock, func() bool { return true })
	return w
}

// pass makes one pass, and returns the NodeImage; nil if there is none.
func (w *world) pass() (*v1beta1.NodeImage, time.Duration) {
	w.t.Helper()
	after, err := w.c.Reconcile(w.t.Context(), "n1")
	if err != nil {
		w.t.Fatal(err)
	}
	image := &v1beta1.NodeImage{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "n1"}, image); err != nil {
		return nil, after
	}
	return image, after
}

func newNode(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-1", Labels: labels}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}},
	}}
}

func TestANodeImageComesAndGoesWithItsNode(t *testing.T) {
	node := newNode(map[string]string{"a": "b"})
	w := newWorld(t, node)
	image, _ := w.pass()
	if image == nil || !maps.Equal(image.Labels, node.Labels) || image.OwnerReferences[0].UID != node.UID {
		t.Fatalf("got %+v", image)
	}
	node.Labels = map[string]string{"c": "d"}
	if err := w.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if image, _ := w.pass(); !maps.Equal(image.Labels, node.Labels) {
		t.Errorf("the labels are %v", image.Labels)
	}
	if err := w.client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if image, _ := w.pass(); image != nil {
		t.Errorf("it stays: %+v", image)
	}
	if image, _ := w.pass(); image != nil {
		t.Errorf("it came back: %+v", image)
	}
}

func TestANodeThatIsAnotherOne(t *testing.T) {
	image := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n1", UID: "uid-0"}}}}
	w := newWorld(t, newNode(nil), image)
	if image, _ := w.pass(); image != nil {
		t.Error("the images of the earlier node count")
	}
	if image, _ := w.pass(); image == nil || image.OwnerReferences[0].UID != "uid-1" {
		t.Errorf("got %+v", image)
	}
}

func TestANodeImageOfOpenKruise(t *testing.T) {
	w := newWorld(t, newNode(nil), &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"old": "x"}}})
	image, _ := w.pass()
	if image == nil || len(image.OwnerReferences) != 1 || len(image.Labels) != 0 {
		t.Errorf("got %+v", image)
	}
}

func TestAVirtualNode(t *testing.T) {
	w := newWorld(t, newNode(map[string]string{"type": "virtual-kubelet"}))
	if image, _ := w.pass(); image != nil {
		t.Errorf("got %+v", image)
	}
}

func TestWhoMayNotWrite(t *testing.T) {
	w := newWorld(t, newNode(nil))
	w.c.mayWrite = func() bool { return false }
	if image, _ := w.pass(); image != nil {
		t.Errorf("got %+v", image)
	}
}

// asked is a NodeImage of which a job wants something since created.
func asked(job *v1beta1.ImagePullJob, created time.Time) *v1beta1.NodeImage {
	at := metav1.NewTime(created)
	return &v1beta1.NodeImage{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n1", UID: "uid-1"}}},
		Spec: v1beta1.NodeImageSpec{Images: map[string]v1beta1.ImageSpec{"agent": {Tags: []v1beta1.ImageTagSpec{{
			Tag: "2", CreatedAt: &at, OwnerReferences: []corev1.ObjectReference{imagepull.Owner(job)},
		}}}}},
	}
}

func TestWhatIsWantedNoLonger(t *testing.T) {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull", UID: "uid-job"}}
	w := newWorld(t, newNode(nil), job)
	if err := w.client.Create(t.Context(), asked(job, w.clock.Now())); err != nil {
		t.Fatal(err)
	}
	image, after := w.pass()
	if len(image.Spec.Images) != 1 || after != 10*time.Minute {
		t.Errorf("after %v: %+v", after, image.Spec)
	}
	if err := w.client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if image, _ := w.pass(); len(image.Spec.Images) != 0 {
		t.Errorf("it stays: %+v", image.Spec)
	}
}

// TestLabelsThatAreRefused: a policy that refuses a label of the node keeps its NodeImage from getting it, and from nothing else.
func TestLabelsThatAreRefused(t *testing.T) {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull", UID: "uid-job"}} // which is gone
	w := newWorld(t, newNode(map[string]string{"refused": "label"}), asked(job, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	refusing := interceptor.NewClient(w.client, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, o ...client.PatchOption) error {
		if patch.Type() == types.MergePatchType {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodeimages"}, obj.GetName(), errors.New("no such label"))
		}
		return c.Patch(ctx, obj, patch, o...)
	}})
	w.c = New(pullstore.New(w.client, refusing), w.events, w.clock, func() bool { return true })
	if _, err := w.c.Reconcile(t.Context(), "n1"); !apierrors.IsForbidden(err) {
		t.Errorf("the error is lost: %v", err)
	}
	image := &v1beta1.NodeImage{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "n1"}, image); err != nil || len(image.Spec.Images) != 0 {
		t.Errorf("what no job wants any more stays: %v, %+v", err, image.Spec)
	}
}

func TestANodeThatIsSilent(t *testing.T) {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pull", UID: "uid-job"}}
	w := newWorld(t, newNode(nil), job)
	if err := w.client.Create(t.Context(), asked(job, w.clock.Now())); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(10 * time.Minute)
	image, _ := w.pass()
	if s := image.Status; s.Failed != 1 || s.ImageStatuses["agent"].Tags[0].Message != "node has not responded for a long time" {
		t.Errorf("got %+v", s)
	}
	select {
	case e := <-w.events.Events:
		if !strings.Contains(e, "Failed to pull image agent:2 on node n1 for node has not responded for a long time") {
			t.Errorf("told %q", e)
		}
	default:
		t.Error("nobody is told")
	}
	if _, after := w.pass(); after != 0 || len(w.events.Events) > 0 {
		t.Error("it is told again")
	}
}

// TestWhoOwnedWhat: the nodes of a job that has ended have a pass, others have none, and who tells of the job waits for no look at all of them.
func TestWhoOwnedWhat(t *testing.T) {
	job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job", UID: "uid-job"}}
	of := func(name string, images map[string]v1beta1.ImageSpec) []client.Object {
		n := newNode(map[string]string{"new": "label"}) // which a pass gives to the NodeImage
		n.Name = name
		return []client.Object{n, &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.NodeImageSpec{Images: images}}}
	}
	pulls := map[string]v1beta1.ImageSpec{"agent": {Tags: []v1beta1.ImageTagSpec{{Tag: "2", OwnerReferences: []corev1.ObjectReference{imagepull.Owner(job)}}}}}
	w := newWorld(t, append(of("n1", pulls), of("n2", nil)...)...)
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		counted := interceptor.NewClient(w.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			lists++
			return c.List(ctx, list, o...)
		}})
		c := New(pullstore.New(counted, w.client), w.events, clock.RealClock{}, func() bool { return true })
		ctx, cancel := context.WithCancel(t.Context())
		c.jobChanged(ctx, nil, job)
		if lists != 0 {
			t.Errorf("who tells of a job waits for %d lists", lists)
		}
		ran := make(chan struct{})
		go func() { defer close(ran); c.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		<-ran
		for name, want := range map[string]int{"n1": 1, "n2": 0} {
			image := &v1beta1.NodeImage{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, image); err != nil {
				t.Fatal(err)
			}
			if len(image.Labels) != want {
				t.Errorf("%s: labels %v, want %d", name, image.Labels, want)
			}
		}
	})
}
