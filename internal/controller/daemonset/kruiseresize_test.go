// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// newResizing is a world in which resources may be changed in place, with kubelets that give containers what they are to have, or say
// that they never can.
func newResizing(t *testing.T, infeasible bool) *advanced {
	a := newAdvanced(t, 1, inPlace)
	a.c.dialects["kruise"].InPlace = kruise.InPlaceWithResize
	a.kubelet = func(p *corev1.Pod) bool {
		changed := a.serve(p)
		want, s := p.Spec.Containers[0].Resources, &p.Status.ContainerStatuses[0]
		switch {
		case s.Resources == nil:
			s.Resources = want.DeepCopy()
			return true
		case s.Resources.Limits.Cpu().Equal(*want.Limits.Cpu()), infeasible && stateOf(p, corev1.PodResizePending) != "":
			return changed
		case infeasible:
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: p.Generation,
			})
			return true
		default:
			s.Resources = want.DeepCopy()
			return true
		}
	}
	a.change(func(spec map[string]any) { cpu(spec, "1") })
	a.settle()
	a.allEvents()
	a.forgetLog()
	return a
}

func cpu(spec map[string]any, amount string) {
	container(spec)["resources"] = map[string]any{"limits": map[string]any{"cpu": amount}}
}

func TestResourcesAreChangedInPlace(t *testing.T) {
	for _, image := range []string{"img:v1", "img:v2"} {
		a := newResizing(t, false)
		p, made := a.only(), a.made
		a.change(func(spec map[string]any) { cpu(spec, "2"); container(spec)["image"] = image })
		a.settle()
		a.wantPod(image, p)
		if got := a.only().Status.ContainerStatuses[0].Resources.Limits.Cpu().String(); got != "2" {
			t.Errorf("%s: the container has %s cpu", image, got)
		}
		if restarted := a.made > made; restarted != (image == "img:v2") {
			t.Errorf("%s: containers made %d", image, a.made-made)
		}
		if len(a.wrote("patch-resize")) != 1 || len(a.wrote("patch")) != 1 || len(a.wrote("delete")) != 0 {
			t.Errorf("%s: writes %v", image, a.log)
		}
	}
}

func TestAResizeWhoseAnswerWasLost(t *testing.T) {
	for _, took := range []bool{true, false} {
		a := newResizing(t, false)
		p := a.only()
		a.change(func(spec map[string]any) { cpu(spec, "2") })
		a.fail("patch-resize", errors.New("connection reset by peer"), took)
		if err := a.pass(); err == nil || p.Labels["controller-revision-hash"] != a.only().Labels["controller-revision-hash"] {
			t.Fatalf("took effect %v: error %v: the pod is not of the new revision before it has its resources", took, err)
		}
		a.before, a.after = nil, nil
		a.settle()
		a.wantPod("img:v1", p)
		if got := a.only().Spec.Containers[0].Resources.Limits.Cpu().String(); got != "2" {
			t.Errorf("took effect %v: cpu %s", took, got)
		}
	}
}

// TestAResizeThatCannotBe ends in a new pod, which says why.
func TestAResizeThatCannotBe(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", field.ErrorList{field.Forbidden(field.NewPath("spec"), "not on this node")})
	unknown := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x")
	for name, c := range map[string]struct {
		answer error
		want   rollout.Detail
		events int
	}{
		"the node has not so much":     {nil, rollout.DetailInfeasible, 0},
		"the API server refuses":       {invalid, rollout.DetailResizeRefused, 1},
		"there is no such subresource": {unknown, rollout.DetailResizeRefused, 1},
	} {
		a := newResizing(t, c.answer == nil)
		before := a.only().UID
		a.change(func(spec map[string]any) { cpu(spec, "64") })
		if c.answer != nil {
			a.fail("patch-resize", c.answer, false)
			if err := a.pass(); err == nil {
				t.Fatalf("%s: a refusal has to fail the pass", name)
			}
		}
		a.settle()
		p := a.only()
		if p.UID == before || p.Spec.Containers[0].Resources.Limits.Cpu().String() != "64" || stateOf(p, corev1.PodReady) != corev1.ConditionTrue {
			t.Errorf("%s: uid %s after %s, resources %v", name, p.UID, before, p.Spec.Containers[0].Resources)
		}
		if !slices.Equal(a.decisions, []rollout.Detail{c.want}) {
			t.Errorf("%s: recreated because of %v, want %v", name, a.decisions, c.want)
		}
		if events := a.allEvents(); strings.Count(events, "FailedUpdatePodInPlace") != c.events {
			t.Errorf("%s: events\n%s", name, events)
		}
	}
}

// TestAResizeBeyondTheLimitsOfTheNamespace: a quota or a LimitRange that denies the resize would deny a new pod as well. The old pod serves on, the status has the reason, and
// the resize is made when it is allowed.
func TestAResizeBeyondTheLimitsOfTheNamespace(t *testing.T) {
	for _, text := range []string{"exceeded quota: q, requested: limits.cpu=63, used: limits.cpu=1, limited: limits.cpu=2", "maximum cpu usage per Container is 2, but limit is 64"} {
		a := newResizing(t, false)
		p := a.only()
		a.change(func(spec map[string]any) { cpu(spec, "64") })
		a.before = func(verb, name string) error {
			if verb == "patch-resize" || verb == "create" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New(text))
			}
			return nil
		}
		a.passEachSecond(60)
		if len(a.pods) != 1 || a.only().UID != p.UID || a.status("numberAvailable") != 1 || len(a.wrote("delete")) > 0 {
			t.Fatalf("%s: the pod that served is gone: %v, %v", text, a.log, a.set.Object["status"])
		}
		if conditions := fmt.Sprint(a.set.Object["status"].(map[string]any)["conditions"]); !strings.Contains(conditions, text[:20]) {
			t.Errorf("%s: conditions %s", text, conditions)
		}
		if tries := a.count("patch-resize"); tries > 14 {
			t.Errorf("%d tries in a minute", tries)
		}
		a.before = nil
		a.passEachSecond(180)
		a.wantPod("img:v1", p)
		if got := a.only().Spec.Containers[0].Resources.Limits.Cpu().String(); got != "64" {
			t.Errorf("%s: cpu %s after it is allowed", text, got)
		}
	}
}

// TestAResizeThatIsPutOff: the status says why it is, although the pod is ready.
func TestAResizeThatIsPutOff(t *testing.T) {
	a := newResizing(t, false)
	a.idle = func(*corev1.Pod) bool { return true }
	a.change(func(spec map[string]any) { cpu(spec, "2") })
	a.settle()
	p := a.only()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, ObservedGeneration: p.Generation, Message: "Node didn't have enough resource: cpu",
	})
	p.ResourceVersion = a.next()
	a.seePod(p)
	a.settle()
	if conditions := fmt.Sprint(a.set.Object["status"].(map[string]any)["conditions"]); !strings.Contains(conditions, "Deferred: Node didn't have enough resource: cpu") {
		t.Errorf("conditions %s", conditions)
	}
}

// TestAChangeThatIsDeniedResizesNothing: a policy for images is not called for the resources, which come first. If it denies the change, the pod keeps its resources; otherwise it
// would keep the new ones after an undo, as a pod of the wanted revision.
func TestAChangeThatIsDeniedResizesNothing(t *testing.T) {
	denied := errors.New(`admission webhook "images" denied the request: not signed`)
	for name, c := range map[string]struct {
		answer  error
		resizes bool
	}{
		"denied":                        {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", denied), false},
		"a webhook without dry runs":    {apierrors.NewBadRequest(`admission webhook "w" does not support dry run`), true},
		"the answer says nothing of it": {apierrors.NewTooManyRequests("busy", 1), true},
	} {
		a := newResizing(t, false)
		p := a.only()
		a.change(func(spec map[string]any) { cpu(spec, "2"); container(spec)["image"] = "img:v2" })
		a.fail("patch", c.answer, false)
		if err := a.pass(); err == nil {
			t.Fatalf("%s: a refusal has to fail the pass", name)
		}
		if resizes := len(a.wrote("patch-resize")) > 0; resizes != c.resizes {
			t.Errorf("%s: resized %t", name, resizes)
		}
		if c.resizes {
			continue
		}
		a.before = nil
		a.change(func(spec map[string]any) { cpu(spec, "1"); container(spec)["image"] = "img:v1" })
		a.passEachSecond(60)
		a.wantPod("img:v1", p)
		if got := a.only().Spec.Containers[0].Resources.Limits.Cpu().String(); got != "1" || a.status("updatedNumberScheduled") != 1 {
			t.Errorf("%s: after the undo the pod has %s cpu: %v", name, got, a.set.Object["status"])
		}
	}
}
