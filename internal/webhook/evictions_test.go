// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"everynode.dev/everynode/api/everynode"
)

func TestEvictions(t *testing.T) {
	owned := func(version, kind string, phase corev1.PodPhase) *corev1.Pod {
		yes := true
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "agent", UID: "set", Controller: &yes}}},
			Spec:       corev1.PodSpec{NodeName: "a", Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	node := func(name string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	cordoned := node("a", corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule})
	removed := node("a", corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule})
	heldToo := node("a", append(slices.Clone(cordoned.Spec.Taints), everynode.HoldTaint())...)
	leaving := owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning)
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{}, []string{"x/y"}
	owner := owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning)
	owner.OwnerReferences[0].Controller = nil
	eviction := admissionv1.AdmissionRequest{Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, SubResource: "eviction", Namespace: "ns", Name: "p"}
	another := eviction
	another.SubResource = "status"
	of := func(name string, change func(*metav1.OwnerReference)) *corev1.Pod {
		p := owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning)
		p.OwnerReferences[0].Name = name
		if change != nil {
			change(&p.OwnerReferences[0])
		}
		return p
	}
	sets := func() *dynamicfake.FakeDynamicClient {
		ending := advancedSet("ending", "ending")
		ending.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
		return dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), advancedSet("agent", "set"), ending)
	}
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
		"on a node that is held for others":  {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), eviction, true, []*corev1.Node{heldToo}},
		"on a node that is gone":             {owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), eviction, false, []*corev1.Node{node("b")}},
		"of a set that does not exist":       {of("other", nil), eviction, false, []*corev1.Node{node("b"), cordoned}},
		"of an earlier set of the name":      {of("agent", func(o *metav1.OwnerReference) { o.UID = "earlier" }), eviction, false, []*corev1.Node{node("b"), cordoned}},
		"of a set that is deleted":           {of("ending", func(o *metav1.OwnerReference) { o.UID = "ending" }), eviction, false, []*corev1.Node{node("b"), cordoned}},
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
		got := newEvictions(client.CoreV1(), sets()).Handle(t.Context(), admission.Request{AdmissionRequest: c.request})
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
		if got := newEvictions(client.CoreV1(), sets()).Handle(t.Context(), admission.Request{AdmissionRequest: eviction}); !got.Allowed {
			t.Errorf("an eviction is refused because %s cannot be read", resource)
		}
	}
	unread := sets()
	unread.PrependReactor("get", "daemonsets", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
	client := fake.NewClientset(owned("apps.kruise.io/v1beta1", "DaemonSet", corev1.PodRunning), cordoned)
	if got := newEvictions(client.CoreV1(), unread).Handle(t.Context(), admission.Request{AdmissionRequest: eviction}); !got.Allowed {
		t.Error("an eviction is refused because the set cannot be read")
	}
}

// advancedSet is an Advanced DaemonSet in the namespace ns.
func advancedSet(name, uid string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet"}}
	u.SetNamespace("ns")
	u.SetName(name)
	u.SetUID(types.UID(uid))
	return u
}

// TestLeaveLast: on a node with a taint that they do not tolerate, pods of a set that asks for it leave after those of other workloads, or when their time is over.
func TestLeaveLast(t *testing.T) {
	on := func(name, node, kind string, change func(*corev1.Pod)) *corev1.Pod {
		yes := true
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "other", UID: "other", Controller: &yes}}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	ours := func(p *corev1.Pod) {
		p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = "apps.kruise.io/v1beta1", "agent", "set"
	}
	agent := on("agent", "a", "DaemonSet", ours)
	web := on("web", "a", "ReplicaSet", nil)
	removed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}}}
	set := func(uid, value string) *unstructured.Unstructured {
		u := advancedSet("agent", uid)
		if value != "" {
			u.SetAnnotations(map[string]string{everynode.LeaveLast: value})
		}
		return u
	}
	eviction := admissionv1.AdmissionRequest{Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, SubResource: "eviction", Namespace: "ns", Name: "agent"}
	start := func(set *unstructured.Unstructured, pods ...*corev1.Pod) (*evictions, *fake.Clientset, *clocktesting.FakePassiveClock, func() admission.Response) {
		objects := []runtime.Object{agent, removed}
		for _, p := range pods {
			objects = append(objects, p)
		}
		client, clock := fake.NewClientset(objects...), clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
		sets := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), set)
		e := newEvictions(client.CoreV1(), sets)
		e.clock = clock
		return e, client, clock, func() admission.Response { return e.Handle(t.Context(), admission.Request{AdmissionRequest: eviction}) }
	}

	_, client, _, evict := start(set("set", "300"), web)
	if got := evict(); got.Allowed || got.Result.Code != http.StatusTooManyRequests || got.Result.Details.RetryAfterSeconds != 5 || !strings.Contains(got.Result.Message, "1 pod of another workload is on node a") {
		t.Errorf("next to another pod: %+v", got)
	}
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := evict(); !got.Allowed {
		t.Errorf("when the other pod has gone: %+v", got)
	}

	yes := true
	rehearsal, ofKubectl := eviction, eviction
	rehearsal.DryRun = &yes
	ofKubectl.Object.Raw = []byte(`{"apiVersion":"policy/v1","kind":"Eviction","deleteOptions":{"dryRun":["All"]}}`)
	e, _, clock, evict := start(set("set", "300"), web)
	for _, request := range []admissionv1.AdmissionRequest{rehearsal, ofKubectl} {
		if got := e.Handle(t.Context(), admission.Request{AdmissionRequest: request}); !got.Allowed || len(got.Warnings) != 1 || len(e.attempts) != 0 {
			t.Errorf("a dry run: %+v, remembered: %v", got, e.attempts)
		}
	}
	for _, c := range []struct {
		after   time.Duration
		allowed bool
	}{{0, false}, {299 * time.Second, false}, {2 * time.Second, true}, {20 * time.Minute, true}, {20 * time.Minute, true}} {
		clock.SetTime(clock.Now().Add(c.after))
		if got := evict(); got.Allowed != c.allowed {
			t.Errorf("%v later: allowed is %t", c.after, got.Allowed)
		}
	}
	clock.SetTime(clock.Now().Add(2 * forgetAfter))
	e.waits("another", time.Second)
	if len(e.attempts) != 1 {
		t.Errorf("remembered: %v", e.attempts)
	}

	waiting := on("agent", "", "DaemonSet", ours)
	unbound := newEvictions(fake.NewClientset(waiting, on("elsewhere", "", "ReplicaSet", nil)).CoreV1(), dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), set("set", "300")))
	if got := unbound.Handle(t.Context(), admission.Request{AdmissionRequest: eviction}); !got.Allowed {
		t.Errorf("a pod that waits for a node, as others do: %+v", got)
	}

	for name, c := range map[string]struct {
		set  *unstructured.Unstructured
		pods []*corev1.Pod
	}{
		"the set does not ask":        {set("set", ""), []*corev1.Pod{web}},
		"a value that cannot be read": {set("set", "5m"), []*corev1.Pod{web}},
		"another set of the name":     {set("before", "300"), []*corev1.Pod{web}},
		"no other pod":                {set("set", "300"), nil},
		"only pods that do not count": {set("set", "300"), []*corev1.Pod{
			on("ds", "a", "DaemonSet", nil), on("second", "a", "DaemonSet", ours), on("web", "b", "ReplicaSet", nil),
			on("static", "a", "Node", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
			on("job", "a", "Job", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
			on("failed", "a", "Job", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		}},
	} {
		if _, _, _, evict := start(c.set, c.pods...); !evict().Allowed {
			t.Errorf("%s: it is not evicted", name)
		}
	}
	_, client, _, evict = start(set("set", "300"), web)
	client.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
	if !evict().Allowed {
		t.Error("it is not evicted although the pods of the node cannot be read")
	}
}

// TestLeaveLastCountsOneDrain: a drain that was given up does not take the time of the next drain, and a tool that tries for longer than the time is not held up again.
func TestLeaveLastCountsOneDrain(t *testing.T) {
	const limit = 5 * time.Minute
	type attempt struct {
		after time.Duration
		waits bool
	}
	for name, drain := range map[string][]attempt{
		"after a drain was given up": {{0, true}, {time.Minute, true}, {time.Hour, true}, {limit, false}},
		"a tool that tries all day":  {{0, true}, {25 * time.Minute, false}, {25 * time.Minute, false}, {25 * time.Minute, false}},
	} {
		e, clock := newEvictions(nil, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())), clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
		e.clock = clock
		for i, a := range drain {
			clock.SetTime(clock.Now().Add(a.after))
			if got := e.waits("pod", limit); got != a.waits {
				t.Errorf("%s, attempt %d: the pod waits is %t", name, i+1, got)
			}
		}
	}
}

// TestManyEvictions: when many nodes are drained at once, an eviction that finds no place to wait is tried again, because it may be that of a pod that is kept. One that has waited for too long is not
// held up: the API server has given up by then.
func TestManyEvictions(t *testing.T) {
	e := newEvictions(fake.NewClientset().CoreV1(), dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()))
	e.turns.free, e.turns.atMost = 0, 0
	eviction := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, SubResource: "eviction", Namespace: "ns", Name: "p",
	}}
	if got := e.Handle(t.Context(), eviction); got.Allowed || got.Result.Code != http.StatusTooManyRequests || got.Result.Details.RetryAfterSeconds != 5 ||
		got.Result.Message != "whether the pod is kept on its node is not known yet, because too many reviews of this client are waiting: try again" {
		t.Errorf("no place to wait: %+v", got)
	}
	e.turns.atMost = 1
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got := e.Handle(over, eviction); !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("it has waited for too long: %+v", got)
	}
}
