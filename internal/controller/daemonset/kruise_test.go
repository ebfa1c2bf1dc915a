// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/internal/dialect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode"
	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// advanced is a world with an Advanced DaemonSet, and with kubelets that restart what has been changed.
type advanced struct {
	*world
	// idle is whether kubelets do nothing for a pod.
	idle func(p *corev1.Pod) bool
	// old is whether the kubelets are of a version that reports no observedGeneration.
	old  bool
	made int
	// decisions are the details of the recreations that were decided.
	decisions []rollout.Detail
}

const standard, inPlace, preDelete, preDeleteNotReady = `{}`,
	`{updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible}}}`,
	`{lifecycle: {preDelete: {labelsHandler: {block: "true"}}}}`,
	`{lifecycle: {preDelete: {labelsHandler: {block: "true"}, markPodNotReady: true}}}`

func newAdvanced(t *testing.T, nodes int, spec string) *advanced {
	t.Helper()
	a := &advanced{idle: func(*corev1.Pod) bool { return false }}
	a.world = newWorldOf(t, nodes, dialect.Dialect{
		Source: dialect.Source{Dialect: "kruise", Digest: kruise.Digest}, StatusPatch: kruise.Report,
		GVK:   schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "DaemonSet"},
		Edits: kruise.Edits{}, InPlace: kruise.InPlace,
		Texts: &dialect.Texts{
			Created: base.ReasonSuccessfulCreate, CreatedText: base.MessageSuccessfulCreate,
			CreateFailed: base.ReasonFailedCreate, CreateFailedText: base.MessageFailedCreate,
			Deleted: base.ReasonSuccessfulDelete, DeletedText: base.MessageSuccessfulDelete,
			DeleteFailed: base.ReasonFailedDelete, DeleteFailedText: base.MessageFailedDelete,
			Patched: kruise.ReasonSuccessfulUpdatePodInPlace, PatchedText: kruise.MessageSuccessfulUpdatePodInPlace,
			PatchFailed: kruise.ReasonFailedUpdatePodInPlace, PatchFailedText: kruise.MessageFailedUpdatePodInPlace, Note: base.Event,
		},
	})
	a.index.ReadFacts(kruise.Facts)
	a.kubelet = a.serve
	a.c.Observer = a
	a.set = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet",
		"metadata": map[string]any{"namespace": "ns", "name": "ds", "uid": "set-uid"},
	}}
	// Most of these tests are about the writes before and after a change in place; gateOpen leaves them out.
	a.set.SetAnnotations(map[string]string{everynode.InPlaceGate: "true"})
	a.change(func(into map[string]any) {
		into["selector"] = map[string]any{"matchLabels": map[string]any{"app": "x"}}
		into["template"] = map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "x", "block": "true"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "img:v1"}}},
		}
		more := map[string]any{}
		if err := yaml.Unmarshal([]byte(spec), &more); err != nil {
			t.Fatal(err)
		}
		maps.Copy(into, more)
	})
	return a
}

// Decided, with Forgotten, Refused and Wrote, makes it an Observer.
func (a *advanced) Decided(_ clustercache.Key, _ *rollout.Snapshot, p *rollout.Plan, _ time.Duration) {
	for _, act := range p.Actions {
		if act.Reason == rollout.Recreating && act.Kind == rollout.Delete {
			a.decisions = append(a.decisions, act.Detail)
		}
	}
}
func (a *advanced) Forgotten(clustercache.Key) {}
func (a *advanced) Refused(clustercache.Key)   {}
func (a *advanced) Wrote(string, error)        {}

// change is an update of the set's spec by its user.
func (a *advanced) change(how func(spec map[string]any)) {
	spec, _ := a.set.Object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
		a.set.Object["spec"] = spec
	}
	how(spec)
	a.set.SetGeneration(a.set.GetGeneration() + 1)
	a.set.SetResourceVersion(a.next())
	a.seeSet()
}

// image changes the image in the template.
func (a *advanced) image(image string) {
	a.change(func(spec map[string]any) { container(spec)["image"] = image })
}

func container(spec map[string]any) map[string]any {
	return spec["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

// gateOpen has the set change pods in place without closing their gates.
func (a *advanced) gateOpen() {
	a.set.SetAnnotations(nil)
	a.change(func(map[string]any) {})
}

func (a *advanced) graceOf(seconds string) {
	a.set.SetAnnotations(map[string]string{everynode.InPlaceGrace: seconds})
	a.change(func(map[string]any) {})
}

// serve is the work of a kubelet on a pod: it makes containers anew whose image differs, and counts the gates.
func (a *advanced) serve(p *corev1.Pod) bool {
	if a.idle(p) {
		return false
	}
	changed := p.Status.Phase == corev1.PodPending
	rec, _ := a.index.PodFrom(p)
	p.Spec.NodeName, p.Status.Phase = rec.Node, corev1.PodRunning
	if !a.old && p.Status.ObservedGeneration != p.Generation {
		p.Status.ObservedGeneration, changed = p.Generation, true
	}
	for _, c := range p.Spec.Containers {
		if len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Image == c.Image {
			continue
		}
		a.made++
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: c.Name, Image: c.Image, ImageID: "sha256:same", ContainerID: fmt.Sprintf("c-%d", a.made),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(a.clock.Now())}},
		}}
		changed = true
	}
	ready := corev1.ConditionTrue
	for _, g := range p.Spec.ReadinessGates {
		if stateOf(p, g.ConditionType) != corev1.ConditionTrue {
			ready = corev1.ConditionFalse
		}
	}
	if stateOf(p, corev1.PodReady) == ready {
		return changed
	}
	others := slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	p.Status.Conditions = append(others, corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(a.clock.Now())})
	return true
}

func stateOf(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// only is the only pod.
func (a *advanced) only() *corev1.Pod {
	a.t.Helper()
	if len(a.pods) != 1 {
		a.t.Fatalf("%d pods, want one", len(a.pods))
	}
	for _, p := range a.pods {
		return p
	}
	return nil
}

// fail makes every write of that verb fail, before or after it took effect.
func (a *advanced) fail(verb string, err error, late bool) {
	fault := func(v, _ string) error {
		if v == verb {
			return err
		}
		return nil
	}
	if late {
		a.after = fault
	} else {
		a.before = fault
	}
}

func (a *advanced) wantPod(image string, uid *corev1.Pod) {
	a.t.Helper()
	p := a.only()
	if p.Spec.Containers[0].Image != image || p.Status.ContainerStatuses[0].Image != image || stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
		a.t.Errorf("image %s, running %s, ready %s, want %s", p.Spec.Containers[0].Image, p.Status.ContainerStatuses[0].Image, stateOf(p, corev1.PodReady), image)
	}
	if p.UID != uid.UID {
		a.t.Errorf("the pod was recreated")
	}
	if got := a.status("updatedNumberScheduled"); got != 1 {
		a.t.Errorf("updated %d, want 1", got)
	}
}

func TestAPodIsCreatedWithGatesAndOpened(t *testing.T) {
	for spec, want := range map[string][]corev1.PodConditionType{
		standard: nil, inPlace: {api.InPlaceUpdateReady}, preDelete: nil, preDeleteNotReady: {api.KruisePodReady},
	} {
		a := newAdvanced(t, 1, spec)
		a.settle()
		p := a.only()
		var gates []corev1.PodConditionType
		for _, g := range p.Spec.ReadinessGates {
			gates = append(gates, g.ConditionType)
		}
		if !slices.Equal(gates, want) || stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
			t.Errorf("%s: gates %v, want %v; ready %s", spec, gates, want, stateOf(p, corev1.PodReady))
		}
		if got := a.wrote("patch-status"); len(got) != len(want) {
			t.Errorf("%s: %d writes of conditions, want %d", spec, len(got), len(want))
		}
	}
}

func TestAnImageIsChangedInPlace(t *testing.T) {
	for _, old := range []bool{false, true} {
		a := newAdvanced(t, 1, inPlace)
		a.old = old
		a.settle()
		p, was := a.only(), a.only().Labels["controller-revision-hash"]
		a.allEvents()
		a.forgetLog()
		a.image("img:v2") // of the same digest
		a.settle()
		a.wantPod("img:v2", p)
		if a.only().Labels["controller-revision-hash"] == was {
			t.Error("the pod has the hash of the old revision")
		}
		var writes []string
		for _, line := range a.log {
			if verb, _, _ := strings.Cut(line, " "); verb == "patch" || verb == "patch-status" || verb == "delete" {
				writes = append(writes, verb)
			}
		}
		if want := []string{"patch-status", "patch", "patch-status"}; !slices.Equal(writes, want) {
			t.Errorf("writes %v, want %v", writes, want)
		}
		if events := a.allEvents(); strings.Count(events, "Normal SuccessfulUpdatePodInPlace successfully update pod "+p.Name+" in-place") != 1 {
			t.Errorf("events:\n%s", events)
		}
	}
}

func TestChangesInPlaceKeepTheBudget(t *testing.T) {
	a := newAdvanced(t, 5, `{updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 2}}}`)
	a.settle()
	most := 0
	a.after = func(string, string) error {
		n := 0
		for _, p := range a.pods {
			if stateOf(p, api.InPlaceUpdateReady) != corev1.ConditionTrue || p.Status.ContainerStatuses[0].Image != p.Spec.Containers[0].Image {
				n++
			}
		}
		most = max(most, n)
		return nil
	}
	a.image("img:v2")
	a.settle()
	if most != 2 || a.status("updatedNumberScheduled") != 5 || len(a.wrote("delete")) != 0 {
		t.Errorf("at most %d pods were changed at once, want 2; updated %d, deletes %v", most, a.status("updatedNumberScheduled"), a.wrote("delete"))
	}
}

func TestThePatchWaitsForTheGracePeriod(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.graceOf("10")
	a.settle()
	a.image("img:v2")
	a.forgetLog()
	a.mustPass()
	for range 9 {
		a.kubelets()
		after, err := a.c.Reconcile(t.Context(), a.key)
		if err != nil || after <= 0 || after > 10*time.Second {
			t.Fatalf("after %v, error %v: the pass has to come back for the patch", after, err)
		}
		if got := a.wrote("patch"); len(got) != 0 || stateOf(a.only(), corev1.PodReady) != corev1.ConditionFalse {
			t.Fatalf("patches %v, ready %s: the pod has to be marked, and no more", got, stateOf(a.only(), corev1.PodReady))
		}
		a.clock.Step(time.Second)
	}
	a.clock.Step(time.Second)
	a.mustPass()
	if got := a.wrote("patch"); len(got) != 1 {
		t.Errorf("patches %v after the grace period", got)
	}
}

func TestATemplateChangedBackInTheGracePeriodChangesNothing(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.graceOf("10")
	a.settle()
	p := a.only()
	a.image("img:v2")
	a.mustPass()
	if stateOf(a.only(), api.InPlaceUpdateReady) != corev1.ConditionFalse {
		t.Fatal("the pod was not marked")
	}
	a.image("img:v1")
	a.settle()
	a.wantPod("img:v1", p)
	if got := a.wrote("patch"); len(got) != 0 || a.made != 1 {
		t.Errorf("patches %v, containers made %d", got, a.made)
	}
}

func TestWhatCannotBeChangedInPlaceIsRecreated(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   string
		change func(spec map[string]any)
		want   rollout.Detail
	}{
		{"an argument", inPlace, func(spec map[string]any) { container(spec)["args"] = []any{"-v"} }, rollout.DetailTemplate},
		{"resources", inPlace, func(spec map[string]any) {
			container(spec)["resources"] = map[string]any{"limits": map[string]any{"cpu": "1"}}
		}, rollout.DetailResources},
		{"a pod without the gate", standard, func(spec map[string]any) {
			spec["updateStrategy"] = map[string]any{"rollingUpdate": map[string]any{"rollingUpdateType": "InPlaceIfPossible"}}
			container(spec)["image"] = "img:v2"
		}, rollout.DetailNoGate},
		{"not asked for", standard, func(spec map[string]any) { container(spec)["image"] = "img:v2" }, rollout.NoDetail},
	} {
		a := newAdvanced(t, 1, c.spec)
		a.settle()
		before := a.only().UID
		a.change(c.change)
		a.settle()
		if a.only().UID == before || len(a.wrote("patch")) != 0 || !slices.Equal(a.decisions, []rollout.Detail{c.want}) {
			t.Errorf("%s: uid %s after %s, patches %v, recreated because of %v", c.name, a.only().UID, before, a.wrote("patch"), a.decisions)
		}
	}
}

func TestAChangeThatDoesNotArrive(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.settle()
	a.idle = func(p *corev1.Pod) bool { return p.Spec.NodeName == "n3" } // the last node in order is the first one to be updated
	a.image("img:v2")
	a.settle()
	if got := a.wrote("patch"); len(got) != 1 {
		t.Fatalf("patches of %v: one that does not arrive keeps its slot of the budget", got)
	}
	a.image("img:v3")
	a.settle()
	if got := a.wrote("patch"); len(got) != 2 || got[0] != got[1] {
		t.Fatalf("patches of %v: a further change supersedes the one that does not arrive", got)
	}
	a.image("img:v1") // what the container on n3 runs all the time; its kubelet has nothing to do but to say so
	a.settle()
	for _, p := range a.pods {
		if p.Spec.NodeName == "n3" {
			p.Status.ObservedGeneration = p.Generation
			a.changed(p)
		}
	}
	a.settle()
	if a.made != 3 || a.status("updatedNumberScheduled") != 3 || a.status("numberReady") != 3 || len(a.wrote("delete")) != 0 {
		t.Errorf("containers made %d, status %v, deletes %v", a.made, a.set.Object["status"], a.wrote("delete"))
	}
}

func TestACrashBetweenMarkAndPatch(t *testing.T) {
	a := newAdvanced(t, 2, inPlace)
	a.settle()
	a.allEvents()
	a.forgetLog()
	a.image("img:v2")
	crash := apierrors.NewInternalError(errors.New("crash"))
	a.fail("patch", crash, false)
	if err := a.pass(); err == nil || !strings.Contains(err.Error(), "patch of pod ds-") {
		t.Fatalf("error %v", err)
	}
	if got := slices.Compact(a.wrote("patch-status")); len(got) != 1 {
		t.Fatalf("marked %v: the budget is for one", got)
	}
	if events := a.allEvents(); !strings.Contains(events, "Warning FailedUpdatePodInPlace failed to update pod ds-") {
		t.Errorf("events:\n%s", events)
	}
	a.before = nil
	a.settle()
	if a.status("updatedNumberScheduled") != 2 || len(a.wrote("delete")) != 0 {
		t.Errorf("status %v, deletes %v", a.set.Object["status"], a.wrote("delete"))
	}
}

func TestAnswersToAPatch(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "x", errors.New("changed meanwhile"))
	for _, verb := range []string{"patch", "patch-status"} {
		a := newAdvanced(t, 1, inPlace)
		a.settle()
		p := a.only()
		a.image("img:v2")
		a.forgetLog()
		a.fail(verb, conflict, false)
		if err := a.pass(); !apierrors.IsConflict(err) {
			t.Fatalf("%s: error %v", verb, err)
		}
		a.before = nil
		a.mustPass()
		if len(a.wrote("create")) != 0 {
			t.Fatalf("%s: a pod that somebody else changes is taken for gone", verb)
		}
		a.settle()
		a.wantPod("img:v2", p)

		a.image("img:v3")
		a.before = func(v, name string) error {
			if v == verb && a.pods[name] != nil && a.pods[name].UID == p.UID {
				delete(a.pods, name) // without a word from the watch
				return gone
			}
			return nil
		}
		a.mustPass()
		a.mustPass()
		if got := a.wrote("create"); len(got) != 1 {
			t.Errorf("%s: creates %v: a pod that is gone has to be replaced", verb, got)
		}
		a.settle()
	}
}

func TestEditsAreForThePodThatWasMeant(t *testing.T) {
	for _, late := range []bool{false, true} {
		a := newAdvanced(t, 1, inPlace)
		a.settle()
		name := a.only().Name
		replace := func(verb, _ string) error {
			if verb != "patch-status" {
				return nil
			}
			p := a.pods[name].DeepCopy()
			p.UID = "another"
			a.pods[name] = p
			return nil
		}
		a.image("img:v2")
		if late {
			a.before = replace // after the pod was read
			if err := a.pass(); !apierrors.IsConflict(err) {
				t.Errorf("error %v", err)
			}
		} else {
			_ = replace("patch-status", name)
			a.mustPass()
		}
		if p := a.pods[name]; p.Spec.Containers[0].Image != "img:v1" || stateOf(p, api.InPlaceUpdateReady) != corev1.ConditionTrue {
			t.Errorf("late %v: another pod of that name was changed", late)
		}
	}
}
