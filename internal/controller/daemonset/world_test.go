// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/rollout"
)

var setKey = clustercache.Key{Dialect: "native", Namespace: "ns", Name: "ds"}

// world is a small API server in memory with one daemon set, around a real Controller. Writes do not reach the index by
// themselves unless watch is set; deliver brings the index up to date.
type world struct {
	t     *testing.T
	c     *Controller
	index *clustercache.Index
	clock *clocktesting.FakeClock
	// watch is whether every write is seen by the index at once.
	watch bool
	// before and after are asked at each write: an error from before means that it did not take effect, one from after that
	// it did and the answer was lost.
	before, after func(verb, name string) error
	// mutate, if not nil, is a webhook that may change a pod that is being patched.
	mutate   func(was, p *corev1.Pod)
	mayWrite bool
	// kubelet takes the place of the kubelets' work on a pod that is not being deleted; it says whether it has changed it.
	kubelet func(p *corev1.Pod) bool
	key     clustercache.Key
	digest  func(obj map[string]any) dialect.Workload

	mu        sync.Mutex
	rv        int
	set       *unstructured.Unstructured
	pods      map[string]*corev1.Pod
	revisions map[string]*appsv1.ControllerRevision
	log       []string
	// lists is how often the history was read from the API server itself.
	lists  int
	events *record.FakeRecorder
	// notify, if not nil, is told of sets that need a pass.
	notify func(clustercache.Key)
}

func newWorld(t *testing.T, nodes int, change func(ds *appsv1.DaemonSet)) *world {
	t.Helper()
	w := newWorldOf(t, nodes, nativeDialect())
	ds := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ds", UID: "set-uid", Generation: 1, Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "img:v1"}}},
			},
		},
	}
	if change != nil {
		change(ds)
	}
	w.putSet(ds)
	return w
}

func nativeDialect() dialect.Dialect {
	return dialect.Dialect{Source: dialect.Source{Dialect: "native", Digest: native.Digest}, StatusPatch: native.StatusPatch, GVK: nativeGVK, Texts: nativeTexts()}
}

var nativeGVK = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}

func nativeTexts() *dialect.Texts {
	return &dialect.Texts{
		Created: native.ReasonSuccessfulCreate, CreatedText: native.MessageSuccessfulCreate,
		CreateFailed: native.ReasonFailedCreate, CreateFailedText: native.MessageFailedCreate,
		Deleted: native.ReasonSuccessfulDelete, DeletedText: native.MessageSuccessfulDelete,
		DeleteFailed: native.ReasonFailedDelete, DeleteFailedText: native.MessageFailedDelete, Note: native.Event,
	}
}

// newWorldOf is a world of that dialect without a set.
func newWorldOf(t *testing.T, nodes int, d dialect.Dialect) *world {
	w := &world{
		t: t, watch: true, mayWrite: true, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		pods: map[string]*corev1.Pod{}, revisions: map[string]*appsv1.ControllerRevision{}, events: record.NewFakeRecorder(1000),
		key: setKey, digest: d.Source.Digest,
	}
	w.key.Dialect = d.Source.Dialect
	d.MayWrite = func() bool { return w.mayWrite }
	w.index = clustercache.NewIndex(func(key clustercache.Key) {
		if w.notify != nil {
			w.notify(key)
		}
	})
	w.c = New(Options{
		Dialects: []dialect.Dialect{d},
		Index:    w.index, Clock: w.clock, Events: w.events, Observer: unobserved{}, Workers: 1,
		Revisions: worldRevisions{w}, Sets: worldSets{w},
		Executor: &executor.Executor{
			Index: w.index, Pods: worldPods{w}, Events: w.events, Clock: w.clock, Count: func(string, apply.Answer) {},
			Pace: executor.NewPace(w.clock, func(context.Context) error { return nil }, func(context.Context, time.Duration) error { return nil }),
		},
	})
	for i := range nodes {
		w.index.PutNode(clustercache.Node{Name: fmt.Sprintf("n%d", i+1), RV: w.next(), Ready: true})
	}
	return w
}

type unobserved struct{}

func (unobserved) Decided(clustercache.Key, *rollout.Snapshot, *rollout.Plan, time.Duration) {}
func (unobserved) Forgotten(clustercache.Key)                                                {}
func (unobserved) Refused(clustercache.Key)                                                  {}
func (unobserved) Wrote(string, error)                                                       {}

func (w *world) next() string {
	w.rv++
	return strconv.Itoa(w.rv)
}

func (w *world) putSet(ds *appsv1.DaemonSet) {
	w.t.Helper()
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ds)
	if err != nil {
		w.t.Fatal(err)
	}
	w.set = &unstructured.Unstructured{Object: obj}
	w.set.SetResourceVersion(w.next())
	w.seeSet()
}

func (w *world) seeSet() {
	digest := w.digest(w.set.DeepCopy().Object)
	w.index.PutSet(w.key, &digest)
}

// unannotate removes an annotation of the set.
func (w *world) unannotate(key string) {
	annotations := w.set.GetAnnotations()
	delete(annotations, key)
	w.set.SetAnnotations(annotations)
	w.set.SetResourceVersion(w.next())
	w.seeSet()
}

// edit changes the template's image and raises the generations, as the API server does.
func (w *world) edit(image string) {
	w.t.Helper()
	generation := w.set.GetGeneration() + 1
	w.set.SetGeneration(generation)
	annotations := w.set.GetAnnotations()
	annotations[appsv1.DeprecatedTemplateGeneration] = fmt.Sprint(generation)
	w.set.SetAnnotations(annotations)
	containers, _, _ := unstructured.NestedSlice(w.set.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["image"] = image
	if err := unstructured.SetNestedSlice(w.set.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		w.t.Fatal(err)
	}
	w.set.SetResourceVersion(w.next())
	w.seeSet()
}

// pass runs one pass and returns its error.
func (w *world) pass() error {
	w.t.Helper()
	_, err := w.c.Reconcile(context.Background(), w.key)
	return err
}

func (w *world) mustPass() {
	w.t.Helper()
	if err := w.pass(); err != nil {
		w.t.Fatalf("pass: %v", err)
	}
}

// settle runs passes, with time going on and kubelets at work in between, until nothing is written any more, and no edit is in doubt.
func (w *world) settle() {
	w.t.Helper()
	for range 100 {
		w.deliver()
		before := len(w.log)
		w.mustPass()
		changed := w.kubelets()
		w.clock.Step(time.Second)
		if len(w.log) == before && !changed && len(w.index.Ownership(w.key, 0).Doubts) == 0 {
			return
		}
	}
	w.t.Fatalf("does not come to rest; last writes: %v", w.log[max(0, len(w.log)-10):])
}

// kubelets make every pod ready and finish every termination.
func (w *world) kubelets() bool {
	changed := false
	for name, p := range w.pods {
		switch {
		case p.DeletionTimestamp != nil && len(p.Finalizers) == 0:
			w.gone(name)
			changed = true
		case p.DeletionTimestamp != nil:
		case w.kubelet != nil:
			if w.kubelet(p) {
				w.changed(p)
				changed = true
			}
		case p.Status.Phase == corev1.PodPending:
			w.ready(name)
			changed = true
		}
	}
	return changed
}

func (w *world) ready(name string) {
	p := w.pods[name]
	rec, _ := w.index.PodFrom(p)
	p.Spec.NodeName = rec.Node
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	w.changed(p)
}

func (w *world) gone(name string) {
	p := w.pods[name]
	delete(w.pods, name)
	w.index.DeletePod(p.UID, w.next())
}

func (w *world) changed(p *corev1.Pod) {
	p.ResourceVersion = w.next()
	w.seePod(p)
}

func (w *world) seePod(p *corev1.Pod) {
	if rec, ours := w.index.PodFrom(p); ours {
		w.index.PutPod(rec)
	} else {
		w.index.DeletePod(p.UID, p.ResourceVersion)
	}
}

func (w *world) seeRevision(r *appsv1.ControllerRevision) {
	if rec, ours := informers.RevisionFrom(r); ours {
		w.index.PutRevision(rec)
	}
}

// deliver shows everything to the index, as a new list would.
func (w *world) deliver() {
	var pods []*clustercache.Pod
	for _, p := range w.pods {
		if rec, ours := w.index.PodFrom(p); ours {
			pods = append(pods, &rec)
		}
	}
	w.index.ReplacePods(pods, strconv.Itoa(w.rv))
	var revisions []clustercache.Revision
	for _, r := range w.revisions {
		if rec, ours := informers.RevisionFrom(r); ours {
			revisions = append(revisions, rec)
		}
	}
	w.index.ReplaceRevisions(revisions, strconv.Itoa(w.rv))
	w.seeSet()
}

func (w *world) addPod(p *corev1.Pod) {
	p.Namespace, p.UID = "ns", types.UID("uid-"+p.Name)
	p.CreationTimestamp = metav1.NewTime(w.clock.Now())
	if p.Status.Phase == "" {
		p.Status.Phase = corev1.PodPending
	}
	w.pods[p.Name] = p
	w.changed(p)
}

// write runs one write with the injected faults around it.
func (w *world) write(verb, name string, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, verb+" "+name)
	if w.before != nil {
		if err := w.before(verb, name); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if w.after != nil {
		return w.after(verb, name)
	}
	return nil
}

// wrote are the writes of that verb since the log was last cleared.
func (w *world) wrote(verb string) []string {
	var names []string
	for _, line := range w.log {
		if v, name, _ := strings.Cut(line, " "); v == verb {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// verbs are what kinds of writes there have been.
func (w *world) verbs() []string {
	seen := map[string]bool{}
	for _, line := range w.log {
		verb, _, _ := strings.Cut(line, " ")
		seen[verb] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (w *world) forgetLog() { w.log = nil }

func (w *world) allEvents() string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

type worldPods struct{ w *world }

func (f worldPods) Create(_ context.Context, u *unstructured.Unstructured) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	body, _ := json.Marshal(u.Object)
	if err := json.Unmarshal(body, p); err != nil {
		return nil, err
	}
	made := &corev1.Pod{}
	err := f.w.write("create", p.Name, func() error {
		if f.w.pods[p.Name] != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, p.Name)
		}
		p.UID = types.UID(fmt.Sprintf("pod-%d", f.w.rv+1))
		p.ResourceVersion = f.w.next()
		p.CreationTimestamp = metav1.NewTime(f.w.clock.Now())
		p.Status.Phase, p.Generation = corev1.PodPending, 1
		f.w.pods[p.Name] = p
		made = p.DeepCopy()
		if f.w.watch {
			f.w.seePod(p)
		}
		return nil
	})
	return made, err
}

func (f worldPods) Delete(_ context.Context, _, name string, only metav1.Preconditions) error {
	return f.w.write("delete", name, func() error {
		p := f.w.pods[name]
		switch {
		case p == nil:
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
		case p.UID != *only.UID:
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, fmt.Errorf("uid differs"))
		case only.ResourceVersion != nil && p.ResourceVersion != *only.ResourceVersion:
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, fmt.Errorf("the object might have been modified"))
		}
		now := metav1.NewTime(f.w.clock.Now())
		p.DeletionTimestamp = &now
		p.ResourceVersion = f.w.next()
		if f.w.watch {
			f.w.seePod(p)
		}
		return nil
	})
}

func (f worldPods) GetSince(ctx context.Context, namespace, name, rv string) (*corev1.Pod, error) {
	p, err := f.Get(ctx, namespace, name)
	if _, unreadable := strconv.Atoi(rv); unreadable != nil || err == nil && later(rv, p.ResourceVersion) {
		f.w.t.Errorf("pod %s was asked for from version %q on", name, rv)
	}
	return p, err
}

func (f worldPods) Get(_ context.Context, _, name string) (*corev1.Pod, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if p := f.w.pods[name]; p != nil {
		return p.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func (f worldPods) Find(ctx context.Context, namespace, name string) (*corev1.Pod, string, error) {
	p, err := f.Get(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, strconv.Itoa(f.w.rv), nil
	}
	return p, "", err
}

func (f worldPods) List(_ context.Context, _ string, selector labels.Selector, each func(*corev1.Pod)) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, p := range f.w.pods {
		if selector.Matches(labels.Set(p.Labels)) {
			each(p.DeepCopy())
		}
	}
	return nil
}

func (f worldPods) Patch(_ context.Context, e executor.PodPatch) (*corev1.Pod, error) {
	verb, name, patch := "patch", e.Pod, e.Body
	if e.Of != dialect.Whole {
		verb += "-" + string(e.Of)
	}
	if e.DryRun {
		if f.w.before == nil {
			return f.w.pods[name], nil
		}
		return f.w.pods[name], f.w.before(verb, name)
	}
	patched := &corev1.Pod{}
	err := f.w.write(verb, name, func() error {
		p := f.w.pods[name]
		if p == nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
		}
		if err := strategic(p, patch, patched); err != nil {
			return err
		}
		if f.w.mutate != nil {
			f.w.mutate(p, patched)
		}
		if patched.ResourceVersion != p.ResourceVersion { // only if the patch names one
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, fmt.Errorf("the object has been modified"))
		}
		if patched.UID != p.UID {
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, fmt.Errorf("uid differs"))
		}
		if !equality.Semantic.DeepEqual(p.Spec, patched.Spec) {
			patched.Generation++
		}
		patched.ResourceVersion = f.w.next()
		f.w.pods[name] = patched
		if f.w.watch {
			f.w.seePod(patched)
		}
		return nil
	})
	return patched.DeepCopy(), err
}

func (w *world) status(field string) int64 {
	n, _, _ := unstructured.NestedInt64(w.set.Object, "status", field)
	return n
}
