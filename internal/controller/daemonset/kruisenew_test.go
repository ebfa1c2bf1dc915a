// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/clustercache"
)

// orphan adds pods that ran before the set was made, and that the watch still shows as those of another set.
func (a *advanced) orphan(nodes int) {
	for i := range nodes {
		a.addPod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("old-", i), Labels: map[string]string{"app": "x"}, CreationTimestamp: metav1.NewTime(a.clock.Now().Add(-time.Hour)),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "native", UID: "native", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i+1)}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	for _, p := range a.pods { // the watch does not show this
		p.OwnerReferences, p.ResourceVersion = nil, a.next()
	}
}

// A set that was made a moment ago may find pods whose last owner was deleted just before, and the watches need not be equally fast.
func TestANewSetSeesThePodsThatAreThere(t *testing.T) {
	a := newAdvanced(t, 3, standard)
	a.index.DeleteSet(a.key)
	a.orphan(3)
	a.set.SetUID("another")
	a.set.SetCreationTimestamp(metav1.NewTime(a.clock.Now()))
	a.set.SetResourceVersion(a.next())
	a.seeSet()
	a.mustPass()
	if created := a.wrote("create"); len(created) > 0 {
		t.Errorf("created %v beside pods that run", created)
	}
	for name, p := range a.pods {
		if owner := metav1.GetControllerOf(p); owner == nil || owner.UID != "another" {
			t.Errorf("pod %s belongs to %v", name, owner)
		}
	}
}

// A node for which a pod is refused for ever keeps no other from getting one.
func TestOneRefusedNodeStopsNothing(t *testing.T) {
	for _, settings := range []string{standard, `{burstReplicas: 1}`} {
		a := newAdvanced(t, 4, settings)
		first := ""
		a.before = func(verb, name string) error {
			if verb == "create" && (first == "" || name == first) {
				first = name
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("policy"))
			}
			return nil
		}
		for range 20 {
			_ = a.pass()
			a.kubelets()
			a.clock.Step(time.Minute)
		}
		if len(a.pods) != 3 {
			t.Errorf("%s: %d pods, want one on each node but that where it is refused", settings, len(a.pods))
		}
	}
}

// What has to be done about pods does not wait for creates, of which there may be many.
func TestPodsAreFinishedBeforeOthersAreCreated(t *testing.T) {
	a := newAdvanced(t, 10, `{burstReplicas: 2, updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible}}}`)
	for range 3 {
		a.mustPass()
		a.kubelets()
	}
	open := 0
	for _, p := range a.pods {
		if stateOf(p, kruise.InPlaceUpdateReady) == corev1.ConditionTrue {
			open++
		}
	}
	if open == 0 || open == len(a.pods) {
		t.Errorf("%d of the %d pods made so far are in use", open, len(a.pods))
	}
}

func TestARefusedAdoptionIsReported(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.orphan(1)
	for _, p := range a.pods {
		a.seePod(p)
	}
	a.fail("patch", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "old-0", errors.New("policy")), false)
	for range 2 {
		_ = a.pass()
		a.clock.Step(time.Minute)
	}
	conditions := fmt.Sprint(a.set.Object["status"].(map[string]any)["conditions"])
	if n := strings.Count(conditions, "policy"); n != 4 {
		t.Errorf("the refusal is reported by %d conditions, want Progressing, Degraded, Ready and Reconciling: %s", n, conditions)
	}
	if events := a.allEvents(); strings.Count(events, "Warning FailedAdopt") != 1 {
		t.Errorf("events:\n%s", events)
	}
}

// TestARefusedRevisionIsReported shows that a history that cannot be brought in order is not reported as an adoption.
func TestARefusedRevisionIsReported(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.settle()
	a.image("img:v2")
	a.fail("create-revision", apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "x", errors.New("policy")), false)
	for range 2 {
		if err := a.pass(); !apierrors.IsForbidden(err) {
			t.Fatalf("error %v", err)
		}
		a.clock.Step(time.Minute)
	}
	if events := a.allEvents(); strings.Count(events, "Warning FailedRevision bringing the history in order: ") != 1 || strings.Contains(events, "FailedAdopt") {
		t.Errorf("events:\n%s", events)
	}
}

// TestARefusedRevisionIsReportedNextToAnUnclearAdoption: what is not known of one pod does not hide why nothing is done for the set.
func TestARefusedRevisionIsReportedNextToAnUnclearAdoption(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.orphan(1)
	for _, p := range a.pods {
		a.seePod(p)
	}
	a.before = func(verb, _ string) error {
		switch verb {
		case "patch":
			return apierrors.NewTimeoutError("no answer", 1)
		case "create-revision":
			return apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "x", errors.New("policy"))
		}
		return nil
	}
	for range 3 { // the adoption is tried again each time
		_ = a.pass()
		a.clock.Step(time.Minute)
		if c := a.condition("Degraded"); c["status"] != "True" || !strings.Contains(fmt.Sprint(c["message"]), "policy") {
			t.Errorf("%v", c)
		}
	}
}

// What the status says is compared with what was written last, not with what the watch has shown.
func TestConditionsFollowAlsoWhenTheWatchIsSlow(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.settle()
	a.clock.Step(time.Minute)
	a.watch = false
	p := a.only()
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(a.clock.Now())}}
		a.changed(p)
		a.mustPass()
		a.clock.Step(time.Minute)
		conditions := fmt.Sprint(a.set.Object["status"].(map[string]any)["conditions"])
		if complete := strings.Contains(conditions, "Complete"); complete != (ready == corev1.ConditionTrue) {
			t.Errorf("the pod's readiness is %s: %s", ready, conditions)
		}
	}
}

// A pass that fails comes back in time for what it knows to be due.
func TestAFailureLosesNoWakeUp(t *testing.T) {
	a := newAdvanced(t, 2, `{minReadySeconds: 7}`)
	a.settle()
	a.image("img:v2")
	for range 3 {
		a.mustPass()
		a.kubelets()
	}
	a.index.PutNode(clustercache.Node{Name: "n3", RV: a.next(), Ready: true})
	a.fail("create", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("quota")), false)
	after, err := a.c.Reconcile(t.Context(), a.key)
	if err == nil || after <= 0 || after > 7*time.Second {
		t.Errorf("comes back after %v, error %v", after, err)
	}
}

func TestNoHurryInANamespaceThatEnds(t *testing.T) {
	a := newAdvanced(t, 3, `{burstReplicas: 1}`)
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	a.fail("create", ending, false)
	if after, err := a.c.Reconcile(t.Context(), a.key); err != nil || after < time.Second {
		t.Errorf("comes back after %v, error %v", after, err)
	}
}

// A pod that cannot start is reported once, not again with each attempt, and no longer when it is repaired.
func TestAPodThatCannotStartIsReported(t *testing.T) {
	a := newAdvanced(t, 1, standard)
	a.settle()
	a.clock.Step(time.Minute)
	p := a.only()
	says := func(reason, message string) string {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		a.changed(p)
		a.mustPass()
		a.clock.Step(time.Minute)
		return fmt.Sprint(a.set.Object["status"].(map[string]any)["conditions"])
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(a.clock.Now())}}
	if reported := says("ContainerCreating", ""); strings.Contains(reported, "PodsFailing") {
		t.Errorf("a pod that starts counts as failing: %s", reported)
	}
	reported := says("ErrImagePull", "not found")
	if strings.Count(reported, "PodsFailing") != 5 || strings.Count(reported, "ErrImagePull: not found") != 4 {
		t.Errorf("only this is reported: %s", reported)
	}
	version := a.set.GetResourceVersion()
	says("ImagePullBackOff", `Back-off pulling image "img:v1": ErrImagePull: not found`)
	if reported := says("ErrImagePull", "not found"); a.set.GetResourceVersion() != version {
		t.Errorf("the status is written with each attempt: %s", reported)
	}
	if reported := says("ContainerCreating", ""); strings.Contains(reported, "PodsFailing") {
		t.Errorf("the problem has ended, and is still reported: %s", reported)
	}
}
