// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// apply sends edits as the API server takes them: a patch of the status changes nothing but the status, any other all but it.
func apply(t *testing.T, p *corev1.Pod, edits []dialect.Edit) *corev1.Pod {
	t.Helper()
	for _, e := range edits {
		original, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := strategicpatch.StrategicMergePatch(original, e.Patch, &corev1.Pod{})
		if err != nil {
			t.Fatalf("%s: %v", e.Patch, err)
		}
		next := &corev1.Pod{}
		if err := json.Unmarshal(merged, next); err != nil {
			t.Fatal(err)
		}
		if next.UID != p.UID {
			t.Errorf("%s: no precondition on the UID", e.Patch)
		}
		if e.Of == dialect.Status {
			next.ObjectMeta, next.Spec = p.ObjectMeta, p.Spec
		} else {
			next.Status = p.Status
		}
		p = next
	}
	return p
}

func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func stateOf(t *testing.T, p *corev1.Pod) api.InPlaceState {
	t.Helper()
	state := api.InPlaceState{}
	if err := json.Unmarshal([]byte(p.Annotations[api.InPlaceUpdateState]), &state); err != nil {
		t.Fatalf("state %q: %v", p.Annotations[api.InPlaceUpdateState], err)
	}
	return state
}

func change(t *testing.T, from, to, hash string) dialect.Change {
	t.Helper()
	return dialect.Change{From: decode(t, from), To: decode(t, to), Hash: hash}
}

func images(t *testing.T, from, to, hash string) dialect.Change {
	t.Helper()
	text := func(image string) string { return `{spec: {containers: [{name: a, image: "` + image + `"}]}}` }
	return change(t, text(from), text(to), hash)
}

// closing is c of a set that closes the gate.
func closing(c dialect.Change) dialect.Change {
	c.CloseGate = true
	return c
}

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func inPlace(t *testing.T, p *corev1.Pod, want rollout.InPlace) {
	t.Helper()
	if got := kruise.Facts(p).InPlace; got != want {
		t.Fatalf("the change is %s, want %s", got, want)
	}
}

// remake is the kubelet making a container anew.
func remake(p *corev1.Pod, id string) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.ContainerStatuses[0].ContainerID, p.Status.ContainerStatuses[0].Image = id, p.Spec.Containers[0].Image
	return p
}

// with is a copy of p that is changed.
func with(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	p = p.DeepCopy()
	change(p)
	return p
}

func TestGates(t *testing.T) {
	for _, c := range []struct {
		set  rollout.Set
		hook *dialect.PreDelete
		want []string
	}{
		{rollout.Set{}, nil, nil},
		{rollout.Set{}, &dialect.PreDelete{}, nil},
		{rollout.Set{InPlace: true}, nil, nil},
		{rollout.Set{CloseGate: true}, nil, nil},
		{rollout.Set{InPlace: true, CloseGate: true}, nil, []string{"InPlaceUpdateReady"}},
		{rollout.Set{InPlace: true, Grace: time.Second}, nil, []string{"InPlaceUpdateReady"}},
		{rollout.Set{InPlace: true}, &dialect.PreDelete{MarkNotReady: true}, []string{"KruisePodReady"}},
		{rollout.Set{}, &dialect.PreDelete{MarkNotReady: true}, []string{"KruisePodReady"}},
		{rollout.Set{InPlace: true, CloseGate: true}, &dialect.PreDelete{MarkNotReady: true}, []string{"InPlaceUpdateReady", "KruisePodReady"}},
	} {
		if got := (kruise.Edits{}).Gates(&dialect.Workload{Set: c.set, PreDelete: c.hook}); !slices.Equal(got, c.want) {
			t.Errorf("%v %v: %v, want %v", c.set.InPlace, c.hook, got, c.want)
		}
	}
}

func TestAChangeFromMarkToUnmark(t *testing.T) {
	e := kruise.Edits{}
	p := apply(t, pod(), e.Mark(pod(), after(1)))
	inPlace(t, p, rollout.InPlaceMarked)
	if c := conditionOf(p, api.InPlaceUpdateReady); c.Status != corev1.ConditionFalse || c.Reason != "StartInPlaceUpdate" || !c.LastTransitionTime.Time.Equal(after(1)) {
		t.Errorf("condition %+v", c)
	}
	p = apply(t, p, e.Patch(p, images(t, "a:1", "a:2", "new"), after(2)))
	inPlace(t, p, rollout.InPlacePatched)
	if p.Spec.Containers[0].Image != "a:2" || p.Labels["controller-revision-hash"] != "new" {
		t.Errorf("image %s, labels %v", p.Spec.Containers[0].Image, p.Labels)
	}
	if s := stateOf(t, p); s.Revision != "new" || s.UpdateTimestamp != "2026-01-01T12:00:02Z" || !s.UpdateImages ||
		!maps.Equal(s.LastContainerStatuses, map[string]api.InPlaceContainer{"a": {ImageID: "sha-1", ContainerID: "c-1"}}) {
		t.Errorf("state %+v", s)
	}
	p = remake(p, "c-2")
	inPlace(t, p, rollout.InPlaceArrived)
	p = apply(t, p, e.Unmark(p, after(9)))
	inPlace(t, p, rollout.InPlaceNone)
	if c := conditionOf(p, api.InPlaceUpdateReady); c.Status != corev1.ConditionTrue || c.Reason != "" || !c.LastTransitionTime.Time.Equal(after(9)) {
		t.Errorf("condition %+v", c)
	}
	if edits := e.Unmark(p, after(10)); len(edits) != 0 {
		t.Errorf("open gates are opened: %s", edits[0].Patch)
	}
}

func TestPatchOfLabelsAndAnnotations(t *testing.T) {
	p := pod(marked(0), func(p *corev1.Pod) {
		p.Labels = map[string]string{"controller-revision-hash": "old", "stays": "x", "goes": "x", "turns": "x", "foreign": "x"}
		p.Annotations = map[string]string{"goes": "x", "foreign": "x"}
	})
	p = apply(t, p, kruise.Edits{}.Patch(p, change(t,
		`{metadata: {labels: {stays: x, goes: x, turns: x, controller-revision-hash: mine}, annotations: {goes: x}}, spec: {containers: [{name: a, image: a:1}]}}`,
		`{metadata: {labels: {stays: x, turns: two, comes: two}, annotations: {comes: two}}, spec: {containers: [{name: a, image: a:1}, {name: unknown, image: u}]}}`,
		"new"), after(1)))
	if want := map[string]string{"controller-revision-hash": "new", "stays": "x", "turns": "two", "comes": "two", "foreign": "x"}; !maps.Equal(p.Labels, want) {
		t.Errorf("labels %v, want %v", p.Labels, want)
	}
	if p.Annotations["goes"] != "" || p.Annotations["comes"] != "two" || p.Annotations["foreign"] != "x" || len(p.Spec.Containers) != 1 {
		t.Errorf("annotations %v, containers %v", p.Annotations, p.Spec.Containers)
	}
	if s := stateOf(t, p); s.UpdateImages || len(s.LastContainerStatuses) != 0 {
		t.Errorf("state %+v", s)
	}
	inPlace(t, p, rollout.InPlaceArrived)
}

func TestPatchSentTwiceForgetsNothing(t *testing.T) {
	c := images(t, "a:1", "a:2", "new")
	p := pod(marked(0))
	p = apply(t, p, kruise.Edits{}.Patch(p, c, after(1)))
	if edits := (kruise.Edits{}).Mark(p, after(2)); len(edits) != 0 {
		t.Errorf("a second mark, which would hide the patch: %s", edits[0].Patch)
	}
	p = apply(t, p, kruise.Edits{}.Patch(p, c, after(2)))
	inPlace(t, p, rollout.InPlacePatched)
}

func TestPatchWithoutMark(t *testing.T) {
	for _, status := range []corev1.ConditionStatus{"", corev1.ConditionTrue} {
		p := pod(gate(api.InPlaceUpdateReady, status, 0))
		edits := kruise.Edits{}.Patch(p, closing(images(t, "a:1", "a:2", "new")), after(1))
		if len(edits) != 2 || edits[0].Of != dialect.Status || edits[1].Of != dialect.Whole {
			t.Fatalf("%q: %d edits, want a mark and a patch", status, len(edits))
		}
		inPlace(t, apply(t, p, edits[:1]), rollout.InPlaceMarked)
		inPlace(t, apply(t, p, edits), rollout.InPlacePatched)
	}
}

// TestClocksOfLeadersDiffer goes through a change that each time another leader goes on with, whose clock differs.
func TestClocksOfLeadersDiffer(t *testing.T) {
	e := kruise.Edits{}
	p := pod()
	p = apply(t, p, e.Mark(p, after(60)))
	p = apply(t, p, e.Patch(p, images(t, "a:1", "a:2", "b"), after(0)))
	inPlace(t, p, rollout.InPlacePatched)
	p = remake(p, "c-2")
	p = apply(t, p, e.Unmark(p, after(1)))
	inPlace(t, p, rollout.InPlaceNone)
	p = apply(t, p, e.Mark(p, after(2)))
	inPlace(t, p, rollout.InPlaceMarked)
	p = apply(t, p, e.Patch(p, images(t, "a:2", "a:3", "c"), after(3)))
	inPlace(t, p, rollout.InPlacePatched)
	inPlace(t, remake(p, "c-3"), rollout.InPlaceArrived)
}

// TestAMarkAfterAFastClock: a change was made while the manager's clock was fast by a day. The grace period of the next one, by a right clock, begins
// when that one is made, with a mark and without.
func TestAMarkAfterAFastClock(t *testing.T) {
	e := kruise.Edits{}
	const day = 24 * 60 * 60
	p := pod()
	p = apply(t, p, e.Mark(p, after(day)))
	p = apply(t, p, e.Patch(p, images(t, "a:1", "a:2", "b"), after(day+1)))
	p = remake(p, "c-2")
	p = apply(t, p, e.Unmark(p, after(day+2)))
	inPlace(t, p, rollout.InPlaceNone)
	next := closing(images(t, "a:2", "a:3", "c"))

	marked := apply(t, p, e.Mark(p, after(10)))
	inPlace(t, marked, rollout.InPlaceMarked)
	if at := kruise.Facts(marked).MarkedAt; at != rollout.Time(after(10).UnixNano()) {
		t.Errorf("marked %s late", at.Sub(rollout.Time(after(10).UnixNano())))
	}
	for _, patched := range []*corev1.Pod{apply(t, marked, e.Patch(marked, next, after(20))), apply(t, p, e.Patch(p, next, after(20)))} {
		inPlace(t, patched, rollout.InPlacePatched)
		if at := stateOf(t, patched).UpdateTimestamp; at != after(20).UTC().Format(time.RFC3339) {
			t.Errorf("patched at %s", at)
		}
		inPlace(t, remake(patched, "c-3"), rollout.InPlaceArrived)
	}
}

func TestTwoChangesInOneSecond(t *testing.T) {
	e := kruise.Edits{}
	at := noon.Add(100 * time.Millisecond)
	p := pod()
	p = apply(t, p, e.Mark(p, at))
	p = apply(t, p, e.Patch(p, images(t, "a:1", "a:2", "b"), at.Add(time.Millisecond)))
	inPlace(t, p, rollout.InPlacePatched)
	p = remake(p, "c-2")
	p = apply(t, p, e.Unmark(p, at.Add(2*time.Millisecond)))
	p = apply(t, p, e.Mark(p, at.Add(3*time.Millisecond)))
	inPlace(t, p, rollout.InPlaceMarked)
}

func TestPatchOfAContainerThatNeverStarted(t *testing.T) {
	p := pod(marked(0), func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
	p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "new"), after(1)))
	inPlace(t, p, rollout.InPlacePatched)
	// The node was about to start the old image when it saw the patch.
	p.Status.ObservedGeneration = p.Generation
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Image: "docker.io/library/a:1", ImageID: "sha-1", ContainerID: "c-1",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(2))}}}}
	inPlace(t, p, rollout.InPlacePatched)
	if f := kruise.Facts(p); f.ArrivesBy == 0 {
		t.Error("what a node calls an image is not known for sure, so this must not be waited for without end")
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Image: "docker.io/library/a:2", ImageID: "sha-2", ContainerID: "c-2",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(after(2))}}}}
	inPlace(t, p, rollout.InPlaceArrived)
}

func TestPrepareAndRestore(t *testing.T) {
	e := kruise.Edits{}
	hook := &dialect.Workload{PreDelete: &dialect.PreDelete{MarkNotReady: true}}
	open := gate(api.KruisePodReady, corev1.ConditionTrue, 0)
	const other, bothHold = `[{"userAgent":"Other","key":"k"}]`, `[{"userAgent":"Other","key":"k"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
	for _, c := range []struct {
		name               string
		pod                *corev1.Pod
		w                  *dialect.Workload
		prepared, restored string // the message of KruisePodReady; "True" if that is its status, "" if there is no condition
	}{
		{"with the gate", pod(open), hook, hookHolds, "True"},
		{"a gate that was never opened", pod(gate(api.KruisePodReady, "", 0)), hook, hookHolds, "True"},
		{"prepared halfway before", pod(held(hookHolds)), hook, hookHolds, "True"},
		{"held by another, too", pod(held(other)), hook, bothHold, other},
		{"held by another, in words of its own", pod(held("maintenance")), hook, "maintenance", "maintenance"},
		{"held without a word", pod(held("")), hook, hookHolds, "True"},
		{"without the gate", pod(), hook, "", ""},
		{"not asked for", pod(open), &dialect.Workload{PreDelete: &dialect.PreDelete{}}, "True", "True"},
		{"no hook any more", pod(open), &dialect.Workload{}, "True", "True"},
	} {
		show := func(p *corev1.Pod) string {
			got := conditionOf(p, api.KruisePodReady)
			if got.Status == corev1.ConditionFalse {
				return got.Message
			}
			return string(got.Status)
		}
		p := apply(t, c.pod, e.Prepare(c.w, c.pod, false, after(5)))
		if got := show(p); got != c.prepared || p.Labels[api.LifecycleState] != "PreparingDelete" || p.Annotations[api.LifecycleTimestamp] != "2026-01-01T12:00:05Z" {
			t.Errorf("%s, prepared: %s, labels %v, annotations %v", c.name, got, p.Labels, p.Annotations)
		}
		if !kruise.Facts(p).Preparing {
			t.Errorf("%s: not preparing", c.name)
		}
		p = apply(t, p, e.Restore(c.w, p, after(6)))
		if got := show(p); got != c.restored || p.Labels[api.LifecycleState] != "Normal" || p.Annotations[api.LifecycleTimestamp] != "2026-01-01T12:00:06Z" {
			t.Errorf("%s, restored: %s, labels %v, annotations %v", c.name, got, p.Labels, p.Annotations)
		}
		if f := kruise.Facts(p); f.Preparing || f.InPlace != rollout.InPlaceNone {
			t.Errorf("%s: facts %+v", c.name, f)
		}
	}
}

// TestCrashesBetweenTwoEdits shows that whatever is reached is found out and gone on from.
func TestCrashesBetweenTwoEdits(t *testing.T) {
	e := kruise.Edits{}
	hook := &dialect.Workload{PreDelete: &dialect.PreDelete{MarkNotReady: true}}
	p := pod(gate(api.KruisePodReady, corev1.ConditionTrue, 0))
	edits := e.Prepare(hook, p, true, after(1))
	if len(edits) != 2 {
		t.Fatalf("%d edits", len(edits))
	}
	half := apply(t, p, edits[:1])
	inPlace(t, half, rollout.InPlaceArrived) // so that it is opened again if it is not to be deleted any more
	if c := conditionOf(apply(t, half, e.Unmark(half, after(2))), api.KruisePodReady); c.Status != corev1.ConditionTrue || c.Message != "" {
		t.Errorf("not opened again: %+v", c)
	}
	prepared := apply(t, p, edits)
	if f := kruise.Facts(prepared); !f.Preparing || !f.Evicted {
		t.Errorf("evicted: %+v", f)
	}
	if f := kruise.Facts(apply(t, prepared, e.Restore(hook, prepared, after(3)))); f.Preparing || f.Evicted {
		t.Errorf("restored: %+v", f)
	}
	if f := kruise.Facts(apply(t, prepared, e.Prepare(hook, prepared, false, after(3)))); !f.Preparing || f.Evicted {
		t.Errorf("prepared for an update: %+v", f)
	}
	if half := apply(t, prepared, e.Restore(hook, prepared, after(3))[:1]); !kruise.Facts(half).Preparing {
		t.Error("a pod restored halfway does not look prepared, so nobody would go on")
	}
}

// TestMessagesOfOthersAreNotLost shows that the list is not written by who has read an older one.
func TestMessagesOfOthersAreNotLost(t *testing.T) {
	e := kruise.Edits{}
	hook := &dialect.Workload{PreDelete: &dialect.PreDelete{MarkNotReady: true}}
	old := func(change ...func(p *corev1.Pod)) *corev1.Pod {
		p := pod(change...)
		p.ResourceVersion = "41"
		return p
	}
	open, stranded := old(gate(api.KruisePodReady, corev1.ConditionTrue, 0)), old(held(hookHolds))
	for name, edits := range map[string][]dialect.Edit{
		"prepare": e.Prepare(hook, open, false, after(1)), "restore": e.Restore(hook, stranded, after(1)), "unmark": e.Unmark(stranded, after(1)),
	} {
		guarded := metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(edits[0].Patch, &guarded); err != nil || edits[0].Of != dialect.Status || guarded.ResourceVersion != "41" {
			t.Errorf("%s does not name the version that it was made from: %s, %v", name, edits[0].Patch, err)
		}
		for _, edit := range edits[1:] {
			if strings.Contains(string(edit.Patch), "resourceVersion") {
				t.Errorf("%s comes after an edit that makes a new version: %s", name, edit.Patch)
			}
		}
	}
}

func TestUnmarkOpensWhatNothingHolds(t *testing.T) {
	e := kruise.Edits{}
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		hooks corev1.ConditionStatus
	}{
		{"a new pod", pod(gate(api.InPlaceUpdateReady, "", 0), gate(api.KruisePodReady, "", 0)), corev1.ConditionTrue},
		{"no gate for hooks", pod(marked(0)), ""},
		{"held by the hook", pod(marked(0), held(hookHolds), lifecycle(api.LifecyclePreparingDelete)), corev1.ConditionFalse},
		{"held by another", pod(marked(0), held(`[{"userAgent":"Other","key":"k"}]`)), corev1.ConditionFalse},
	} {
		p := apply(t, c.pod, e.Unmark(c.pod, after(1)))
		if got := conditionOf(p, api.InPlaceUpdateReady).Status; got != corev1.ConditionTrue {
			t.Errorf("%s: InPlaceUpdateReady is %q", c.name, got)
		}
		if got := conditionOf(p, api.KruisePodReady).Status; got != c.hooks {
			t.Errorf("%s: KruisePodReady is %q, want %q", c.name, got, c.hooks)
		}
		inPlace(t, p, rollout.InPlaceNone)
	}
	bare := pod(func(p *corev1.Pod) { p.Spec.ReadinessGates = nil })
	if edits := e.Unmark(bare, after(1)); len(edits) != 0 {
		t.Errorf("a pod without gates: %s", edits[0].Patch)
	}
}

// TestPatchLeavesOtherContainersAlone plays a webhook that writes digests into pods when they are created.
func TestPatchLeavesOtherContainersAlone(t *testing.T) {
	const from, to = `{spec: {containers: [{name: a, image: "a:1"}, {name: b, image: "b:1"}]}}`, `{spec: {containers: [{name: a, image: "a:2"}, {name: b, image: "b:1"}]}}`
	pinned := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "a", Image: "a:1@sha256:aa"}, {Name: "b", Image: "b:1@sha256:bb"}}
	}
	for name, c := range map[string]struct {
		more func(p *corev1.Pod)
		b    string
	}{
		"pinned":                     {func(*corev1.Pod) {}, "b:1@sha256:bb"},
		"left halfway by OpenKruise": {annotated(api.InPlaceUpdateState, `{"revision":"old","updateTimestamp":"2026-01-01T12:00:05Z","nextContainerImages":{"b":"b:1"}}`), "b:1"},
		"with a stale grace period":  {annotated(api.InPlaceUpdateGrace, `{"revision":"other","containerImages":{"b":"b:1"}}`), "b:1"},
	} {
		p := pod(pinned, c.more)
		p = apply(t, p, kruise.Edits{}.Patch(p, change(t, from, to, "new"), after(10)))
		if a, b := p.Spec.Containers[0].Image, p.Spec.Containers[1].Image; a != "a:2" || b != c.b {
			t.Errorf("%s: images %s and %s, want a:2 and %s", name, a, b, c.b)
		}
		if _, waits := stateOf(t, p).LastContainerStatuses["b"]; waits != (c.b == "b:1") {
			t.Errorf("%s: state %s", name, p.Annotations[api.InPlaceUpdateState])
		}
	}
}
