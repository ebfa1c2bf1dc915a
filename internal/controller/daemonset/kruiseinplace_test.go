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

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/rollout"
)

func TestAnImageIsRolledBackInPlace(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.settle()
	p, was := a.only(), a.only().Labels["controller-revision-hash"]
	for _, image := range []string{"img:v2", "img:v1", "img:v2"} {
		a.image(image)
		a.settle()
		a.wantPod(image, p)
		if same := a.only().Labels["controller-revision-hash"] == was; same != (image == "img:v1") {
			t.Errorf("%s: hash %s, that of the first revision is %s", image, a.only().Labels["controller-revision-hash"], was)
		}
	}
	if a.made != 4 || len(a.wrote("delete")) != 0 || len(a.revisions) != 2 {
		t.Errorf("%d containers made, deletes %v, %d revisions", a.made, a.wrote("delete"), len(a.revisions))
	}
}

// TestALabelThatAnEnvironmentVariableReads is not changed in place where no agent restarts the container: the process would not see it.
func TestALabelThatAnEnvironmentVariableReads(t *testing.T) {
	for read, want := range map[string][]rollout.Detail{"metadata.labels['block']": {rollout.DetailNoAgent}, "metadata.labels['app']": nil} {
		a := newAdvanced(t, 1, inPlace)
		a.change(func(spec map[string]any) {
			container(spec)["env"] = []any{map[string]any{"name": "E", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": read}}}}
		})
		a.settle()
		before := a.only().UID
		a.change(func(spec map[string]any) { templateLabels(spec)["block"] = "other" })
		a.settle()
		if !slices.Equal(a.decisions, want) || (a.only().UID != before) != (want != nil) || a.only().Labels["block"] != "other" {
			t.Errorf("%s: recreated because of %v, want %v; labels %v", read, a.decisions, want, a.only().Labels)
		}
	}
}

// TestALabelThatAnEnvironmentVariableReadsAndAnAgent: where an agent works, it restarts the container, and the pod stays, also on the way back.
func TestALabelThatAnEnvironmentVariableReadsAndAnAgent(t *testing.T) {
	a := newAdvanced(t, 2, inPlace)
	a.agent(everynode.AgentNamespace, "n1")
	a.change(func(spec map[string]any) {
		container(spec)["env"] = []any{map[string]any{"name": "E", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['block']"}}}}
	})
	a.gateOpen()
	a.settle()
	for restarts, label := range []string{"other", "first"} {
		on := func(node string) corev1.Pod {
			for _, p := range a.pods {
				if p.Spec.NodeName == node && p.Namespace != everynode.AgentNamespace {
					return *p.DeepCopy()
				}
			}
			return corev1.Pod{}
		}
		with, without := on("n1"), on("n2")
		a.change(func(spec map[string]any) { templateLabels(spec)["block"] = label })
		a.seconds(20, everywhere)
		if p := on("n1"); p.UID != with.UID || p.Labels["block"] != label || p.Status.ContainerStatuses[0].RestartCount != int32(restarts+1) {
			t.Errorf("%s, with an agent: %+v", label, p)
		}
		if p := on("n2"); p.UID == without.UID || p.Labels["block"] != label {
			t.Errorf("%s, without an agent: %+v", label, p)
		}
	}
}

// TestALabelChangesWhileItsReaderStarts: a kubelet that pulls an image creates the container with the labels that it knew before, and reports nothing of that. So a pod whose
// container does not run is not changed in place; it would count as updated with the earlier value.
func TestALabelChangesWhileItsReaderStarts(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	a.agent(everynode.AgentNamespace, "n1")
	a.gateOpen()
	a.settle()
	a.idle = func(*corev1.Pod) bool { return true } // it pulls
	a.change(func(spec map[string]any) {
		container(spec)["env"] = []any{map[string]any{"name": "E", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['block']"}}}}
	})
	a.settle()
	only := func() (of *corev1.Pod) {
		for _, p := range a.pods {
			if p.Namespace != everynode.AgentNamespace {
				of = p
			}
		}
		return of
	}
	pulling := only().UID
	a.change(func(spec map[string]any) { templateLabels(spec)["block"] = "other" })
	a.settle()
	if p := only(); p.UID == pulling || p.Labels["block"] != "other" || !slices.Contains(a.decisions, rollout.DetailStarting) {
		t.Errorf("labels %v on pod %s, before %s; recreated because of %v", p.Labels, p.UID, pulling, a.decisions)
	}
}

// TestAChangeThatNeverBecomesReadyIsReported with the node that it waits for.
func TestAChangeThatNeverBecomesReadyIsReported(t *testing.T) {
	a := newAdvanced(t, 2, inPlace)
	a.settle()
	a.idle = func(p *corev1.Pod) bool { return p.Spec.NodeName == "n2" }
	a.image("img:v2")
	a.settle()
	told := fmt.Sprint(a.set.Object["status"].(map[string]any)["conditions"])
	if !strings.Contains(told, "n2: "+rollout.WaitInPlace.Sentence()) || a.status("updatedNumberScheduled") != 1 {
		t.Errorf("conditions %s", told)
	}
}

// TestARefusedEditIsReported by one event for each refusal.
func TestARefusedEditIsReported(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("not today"))
	for _, c := range []struct{ spec, verb, want string }{
		{inPlace, "patch-status", "FailedUpdatePodInPlace"},
		{inPlace, "patch", "FailedUpdatePodInPlace"},
		{preDelete, "patch", "FailedDelete"},
	} {
		a := newAdvanced(t, 1, c.spec)
		a.settle()
		a.image("img:v2")
		a.allEvents()
		a.fail(c.verb, refused, false)
		if err := a.pass(); !apierrors.IsForbidden(err) {
			t.Fatalf("%s %s: error %v", c.spec, c.verb, err)
		}
		events := a.allEvents()
		if strings.Count(events, "Warning") != 1 || strings.Count(events, c.want) != 1 || !strings.Contains(events, "not today") {
			t.Errorf("%s %s: events\n%s", c.spec, c.verb, events)
		}
	}
}

// TestTemplatesAreComparedOnce shows that a pass in which nothing has changed does not compare the templates of the history again.
func TestTemplatesAreComparedOnce(t *testing.T) {
	a := newAdvanced(t, 1, inPlace)
	d, compared := a.c.dialects[a.key.Dialect], 0
	compare := d.InPlace
	d.InPlace = func(from, to map[string]any) rollout.Change {
		compared++
		return compare(from, to)
	}
	a.settle()
	for want, image := range []string{"", "img:v2", "img:v3"} {
		if image != "" {
			a.image(image)
			a.settle()
		}
		before := compared
		for range 3 {
			if _, err := a.c.Reconcile(t.Context(), a.key); err != nil {
				t.Fatal(err)
			}
		}
		if compared != before || (compared > 0) != (want > 0) {
			t.Errorf("%d revisions: %d comparisons, then %d more in three passes", want+1, before, compared-before)
		}
		if image != "" && a.only().Spec.Containers[0].Image != image {
			t.Errorf("image %s, want %s", a.only().Spec.Containers[0].Image, image)
		}
	}
}
