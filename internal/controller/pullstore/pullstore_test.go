// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/imagepull"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

func server(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func job(name string, owner types.UID) *v1beta1.ImagePullJob {
	j := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: name, UID: types.UID("uid-" + name)}}
	j.Spec.Image = "agent:2"
	j.CreationTimestamp = metav1.Unix(100, 0)
	j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: owner, Controller: new(true)}}
	return j
}

// image is a NodeImage on which the job has agent:2 pulled.
func image(name string, of *v1beta1.ImagePullJob, at int64, phase v1beta1.ImagePullPhase) *v1beta1.NodeImage {
	ordered := metav1.Unix(at, 0)
	n := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}}
	tag := v1beta1.ImageTagSpec{Tag: "2", CreatedAt: &ordered}
	if of != nil {
		tag.OwnerReferences = append(tag.OwnerReferences, imagepull.Owner(of))
	}
	n.Spec.Images = map[string]v1beta1.ImageSpec{"agent": {Tags: []v1beta1.ImageTagSpec{tag}}}
	n.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"agent": {Tags: []v1beta1.ImageTagStatus{{Tag: "2", Phase: phase}}}}
	return n
}

// ahead are the PullJobs of a server, and who was told of changes.
func ahead(t *testing.T, objects ...client.Object) (*PullJobs, *[]types.UID) {
	t.Helper()
	c := server(t, interceptor.Funcs{}, objects...)
	told := []types.UID{}
	w := &Watches{handlers: map[string][]Handler{}}
	return w.PullJobs(New(c, c), c, func(set types.UID) { told = append(told, set) }), &told
}

func TestWhatSetsSee(t *testing.T) {
	mine, other := job("mine", "set"), job("other", "another set")
	gone := job("gone", "set")
	gone.Finalizers, gone.DeletionTimestamp = []string{"a.io/b"}, new(metav1.Unix(200, 0))
	p, _ := ahead(t, mine, other, gone)
	jobs, err := p.Owned(t.Context(), "agents", "set")
	if err != nil || len(jobs) != 1 || jobs[0].Name != "mine" || jobs[0].Stays || jobs[0].Created != rollout.Time(100*time.Second) {
		t.Fatalf("got %+v, %v", jobs, err)
	}
	for _, n := range []*v1beta1.NodeImage{
		image("there", nil, 5, v1beta1.ImagePhaseSucceeded), image("early", mine, 50, v1beta1.ImagePhasePulling),
		image("late", mine, 150, v1beta1.ImagePhaseFailed), image("foreign", other, 150, v1beta1.ImagePhasePulling),
	} {
		p.imageChanged(t.Context(), n, nil)
	}
	virtual := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual", Labels: map[string]string{"type": "virtual-kubelet"}}}
	p.nodeChanged(t.Context(), virtual, nil)
	p.nodeChanged(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "unknown"}}, nil)
	look := p.Look("docker.io/library/agent:2", &jobs[0])
	if !look("virtual").There {
		t.Error("a node that no job counts is waited for")
	}
	for node, want := range map[string]predownload.Pulled{
		"there": {There: true}, "early": {Ordered: rollout.Time(100 * time.Second)}, "late": {Ordered: rollout.Time(150 * time.Second)}, "foreign": {}, "unknown": {},
	} {
		if got := look(node); got != want {
			t.Errorf("%s: %+v, want %+v", node, got, want)
		}
	}
	full := image("full", other, 50, v1beta1.ImagePhasePulling)
	full.Spec.Images = map[string]v1beta1.ImageSpec{}
	for i := range imagepull.MostImages {
		full.Spec.Images[fmt.Sprint("image", i)] = v1beta1.ImageSpec{Tags: []v1beta1.ImageTagSpec{{Tag: "1"}}}
	}
	p.imageChanged(t.Context(), full, nil)
	p.Refused = func(job types.UID, node string) bool { return job == mine.UID && (node == "foreign" || node == "late") }
	for node, want := range map[string]bool{"full": true, "foreign": true, "late": false, "there": false, "unknown": false} {
		if got := look(node).Unlisted; got != want {
			t.Errorf("%s: that it cannot be told is %v", node, got)
		}
	}
	if !p.Look("what is this?", nil)("late").There {
		t.Error("an image that nobody can name is waited for")
	}
	p.imageChanged(t.Context(), nil, image("there", nil, 5, v1beta1.ImagePhaseSucceeded))
	p.nodeChanged(t.Context(), nil, virtual)
	if look("there").There || look("virtual").There {
		t.Error("a NodeImage or node that is gone counts")
	}
}

func TestSetsAreReported(t *testing.T) {
	mine := job("mine", "set")
	p, told := ahead(t, mine)
	said := func(what string, want int) {
		t.Helper()
		if len(*told) != want || want > 0 && (*told)[0] != "set" {
			t.Errorf("%s: told %q, want %d", what, *told, want)
		}
		*told = nil
	}
	waits, pulls, done := image("n", mine, 5, v1beta1.ImagePhaseWaiting), image("n", mine, 5, v1beta1.ImagePhasePulling), image("n", mine, 5, v1beta1.ImagePhaseSucceeded)
	p.imageChanged(t.Context(), waits, image("n", nil, 5, v1beta1.ImagePhaseWaiting))
	said("a node that was told to pull", 1)
	p.imageChanged(t.Context(), pulls, waits)
	said("a node that has got further", 0)
	p.imageChanged(t.Context(), done, pulls)
	said("a node that is done", 1)
	p.imageChanged(t.Context(), nil, done)
	said("a node that is gone", 1)
}

func TestWhoHasTheNameOfAJob(t *testing.T) {
	deleted := job("deleted", "set")
	deleted.Finalizers, deleted.DeletionTimestamp = []string{"a.io/b"}, new(metav1.Unix(200, 0))
	p, _ := ahead(t, job("mine", "set"), job("other", "another set"), deleted)
	for name, exists := range map[string]bool{"mine": true, "other": false, "deleted": false} {
		fresh := job(name, "set")
		fresh.UID = ""
		err := p.Create(t.Context(), fresh)
		if err == nil || apierrors.IsAlreadyExists(err) != exists {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Create(t.Context(), job("new", "set")); err != nil {
		t.Error(err)
	}
}

func TestWhatAClusterLacks(t *testing.T) {
	resource := schema.GroupResource{Group: "apps.kruise.io", Resource: "nodeimages"}
	for want, refusal := range map[string]error{
		"": nil,
		"the CRD nodeimages.apps.kruise.io does not exist: apply what image pulls need (kubectl apply --server-side -f config/kruise), or install OpenKruise": apierrors.NewNotFound(resource, ""),
		"the manager may not read nodeimages.apps.kruise.io: bind the ClusterRole everynode-manager-image-pulls to the service account of the manager":        apierrors.NewForbidden(resource, "", nil),
	} {
		c := server(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*v1beta1.NodeImageList); ok && refusal != nil {
				return refusal
			}
			return c.List(ctx, list, opts...)
		}})
		if got, err := New(c, c).Missing(t.Context()); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	runs, ended := job("runs", "set"), job("ended", "set")
	runs.Status = v1beta1.ImagePullJobStatus{Desired: 9, Active: 2, Succeeded: 4, Failed: 1}
	ended.Status = v1beta1.ImagePullJobStatus{Desired: 100, CompletionTime: new(metav1.Unix(5, 0))}
	one, two := image("one", runs, 5, v1beta1.ImagePhasePulling), image("two", runs, 5, v1beta1.ImagePhaseWaiting)
	one.Status.Pulling, one.Status.Succeeded, two.Status.Waiting, two.Status.Failed = 2, 3, 1, 4
	c := server(t, interceptor.Funcs{}, runs, ended, one, two)
	want := metrics.Pulls{Running: 1, Completed: 1, Desired: 9, Active: 2, Succeeded: 4, Failed: 1, Nodes: 1, Waiting: 1, Pulling: 2, There: 3, GivenUp: 4}
	if got, err := New(c, c).PullMetrics(t.Context()); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// TestCatchUp: what somebody else has written is decided on only when the watch has shown it.
func TestCatchUp(t *testing.T) {
	live := server(t, interceptor.Funcs{}, job("mine", "set"), image("n", nil, 5, v1beta1.ImagePhaseWaiting))
	looks := 0
	cached := server(t, interceptor.Funcs{List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if looks++; looks <= 2 {
			return nil // nothing has been shown yet
		}
		return live.List(ctx, list)
	}})
	if err := New(cached, live).CatchUp(t.Context()); err != nil || looks < 4 {
		t.Errorf("looked %d times, %v", looks, err)
	}
}

func TestReached(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Name: name} }
	list := func(version string, items map[string]string) *metav1.PartialObjectMetadataList {
		l := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
		for name, v := range items {
			l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: v}})
		}
		return l
	}
	for name, e := range map[string]struct {
		shown map[types.NamespacedName]string
		now   *metav1.PartialObjectMetadataList
		want  bool
	}{
		"nothing":            {nil, list("9", nil), true},
		"the same":           {map[types.NamespacedName]string{key("a"): "5"}, list("9", map[string]string{"a": "5"}), true},
		"newer":              {map[types.NamespacedName]string{key("a"): "10"}, list("9", map[string]string{"a": "5"}), true},
		"older":              {map[types.NamespacedName]string{key("a"): "4"}, list("9", map[string]string{"a": "5"}), false},
		"not shown yet":      {nil, list("9", map[string]string{"a": "5"}), false},
		"gone":               {map[types.NamespacedName]string{key("a"): "5"}, list("9", nil), false},
		"made in between":    {map[types.NamespacedName]string{key("a"): "11"}, list("9", nil), true},
		"not to be compared": {map[types.NamespacedName]string{key("a"): "x"}, list("9", map[string]string{"a": "5"}), false},
	} {
		if got := isAtLeast(e.shown, e.now); got != e.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
