// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestEvictions(t *testing.T) {
	owned := func(version, kind string, phase corev1.PodPhase) *corev1.Pod {
		yes := true
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "agent", Controller: &yes}}},
			Spec:       corev1.PodSpec{NodeName: "a", Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	node := func(name string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	cordoned := node("a", corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule})
	removed := node("a", corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
	leaving := owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning)
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{}, []string{"x/y"}
	owner := owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning)
	owner.OwnerReferences[0].Controller = nil
	eviction := admissionv1.AdmissionRequest{Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, SubResource: "eviction", Namespace: "ns", Name: "p"}
	another := eviction
	another.SubResource = "status"
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		request admissionv1.AdmissionRequest
		kept    bool
		nodes   []*corev1.Node
	}{
		"of an Advanced DaemonSet":           {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), eviction, true, []*corev1.Node{node("b"), cordoned}},
		"of an older version":                {owned("apps.kruise.io/v1alpha1", "DaemonSet", corev1.PodPending), eviction, true, []*corev1.Node{node("b"), cordoned}},
		"of apps/v1":                         {owned("apps/v1", "DaemonSet", corev1.PodRunning), eviction, false, []*corev1.Node{node("b"), cordoned}},
		"of another group":                   {owned("apps.kruise.io.example/v1", "DaemonSet", corev1.PodRunning), eviction, false, []*corev1.Node{node("b"), cordoned}},
		"of another kind of the group":       {owned("apps.kruise.io/v1beta1", "StatefulSet", corev1.PodRunning), eviction, false, []*corev1.Node{node("b"), cordoned}},
		"with an owner that controls it not": {owner, eviction, false, []*corev1.Node{node("b"), cordoned}},
		"failed":                             {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodFailed), eviction, false, []*corev1.Node{node("b"), cordoned}},
		"succeeded":                          {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodSucceeded), eviction, false, []*corev1.Node{node("b"), cordoned}},
		"being deleted":                      {leaving, eviction, false, []*corev1.Node{node("b"), cordoned}},
		"gone":                               {nil, eviction, false, []*corev1.Node{node("b"), cordoned}},
		"on a node that is removed":          {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), eviction, false, []*corev1.Node{removed}},
		"on a node that is gone":             {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), eviction, false, []*corev1.Node{node("b")}},
		"another subresource":                {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), another, false, []*corev1.Node{node("b"), cordoned}},
	} {
		var objects []runtime.Object
		if c.pod != nil {
			objects = append(objects, c.pod)
		}
		for _, n := range c.nodes {
			objects = append(objects, n)
		}
		client := fake.NewClientset(objects...)
		got := newEvictions(client.CoreV1()).Handle(t.Context(), admission.Request{AdmissionRequest: c.request})
		if got.Allowed == c.kept {
			t.Errorf("%s: allowed is %t", name, got.Allowed)
		}
		if c.kept && (got.Result.Code != http.StatusNotFound || got.Result.Reason != metav1.StatusReasonNotFound || got.Result.Message == "") {
			t.Errorf("%s: answered with %+v", name, got.Result)
		}
	}
	for verb, resource := range map[string]string{"get": "pods", "list": "nodes"} {
		client := fake.NewClientset(owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), cordoned)
		client.PrependReactor(verb, resource, func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
		if got := newEvictions(client.CoreV1()).Handle(t.Context(), admission.Request{AdmissionRequest: eviction}); !got.Allowed {
			t.Errorf("an eviction is refused because %s cannot be read", resource)
		}
	}
}
