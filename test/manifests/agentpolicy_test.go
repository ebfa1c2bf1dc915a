// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"everynode.dev/everynode/internal/rbac"
)

// ownPod is a pod on the node of the agent that agentOf is.
func ownPod() *corev1.Pod {
	controller := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "agent-1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "uid", Controller: &controller}},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func agentOf(node string) user.Info {
	return &user.DefaultInfo{Name: rbac.User(rbac.Agent), Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
}

// statusOf asks whether the agent of a node may write the status of the pod so.
func statusOf(node string, now *corev1.Pod) question {
	return question{
		who: agentOf(node), operation: admission.Update, resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, subresource: "status", kind: "Pod",
		before: ownPod(), now: now,
	}
}

// TestAgentWritesOneConditionOnly: of all fields that a status of a pod has, also of those that Kubernetes will add, an agent changes one condition.
func TestAgentWritesOneConditionOnly(t *testing.T) {
	j := newJudge(t)
	told := ownPod()
	told.Status.Conditions = append(told.Status.Conditions, corev1.PodCondition{Type: "PodImageReady", Status: corev1.ConditionTrue})
	if err := j.ask(t, statusOf("node-1", told)); err != nil {
		t.Errorf("the condition: %v", err)
	}
	if err := j.ask(t, statusOf("node-2", told)); err == nil || !strings.Contains(err.Error(), "which is not on that node") {
		t.Errorf("the condition of another node's pod: %v", err)
	}
	fields := reflect.TypeFor[corev1.PodStatus]()
	for i := range fields.NumField() {
		changed := ownPod()
		fill(t, reflect.ValueOf(&changed.Status).Elem().Field(i), 3)
		if err := j.ask(t, statusOf("node-1", changed)); err == nil || !strings.Contains(err.Error(), "and nothing else") {
			t.Errorf("an agent may change %s: %v", fields.Field(i).Name, err)
		}
	}
	for name, change := range map[string]func(*metav1.ObjectMeta){
		"labels":      func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} },
		"annotations": func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{"a": "b"} },
		"finalizers":  func(m *metav1.ObjectMeta) { m.Finalizers = []string{"a/b"} },
	} {
		changed := ownPod()
		change(&changed.ObjectMeta)
		if err := j.ask(t, statusOf("node-1", changed)); err == nil || !strings.Contains(err.Error(), "and nothing else") {
			t.Errorf("an agent may change %s: %v", name, err)
		}
	}
}

// TestAgentTellsOfItsOwnNode: an event of an agent is in its own name and that of its node, and about what it has to do with: no NodeImage of another
// node, and nothing that others tell of. It changes no event of others either, not even those of its own node.
func TestAgentTellsOfItsOwnNode(t *testing.T) {
	const (
		name  = "in the name of another"
		about = "nor about anything but NodeImages, ImagePullJobs and pods"
	)
	j := newJudge(t)
	event := func(kind, name string, changes ...func(*corev1.Event)) *corev1.Event {
		e := &corev1.Event{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Source: corev1.EventSource{Component: "everynode-agent", Host: "node-1"},
			ReportingController: "everynode-agent", ReportingInstance: "node-1",
		}
		for _, change := range changes {
			change(e)
		}
		return e
	}
	from := func(change func(*corev1.Event)) *corev1.Event { return event("Pod", "agent-1", change) }
	own := event("NodeImage", "node-1")
	for _, c := range []struct {
		name string
		told *corev1.Event
		why  string // of the refusal
	}{
		{"its NodeImage", own, ""},
		{"a pod", event("Pod", "agent-1"), ""},
		{"a job", event("ImagePullJob", "node-2"), ""},
		{"several in one", from(func(e *corev1.Event) { e.ReportingController, e.ReportingInstance = "", "" }), ""},
		{"another NodeImage", event("NodeImage", "node-2"), about},
		{"a NodeImage without a name", event("NodeImage", ""), about},
		{"its node", event("Node", "node-1"), about},
		{"another node", event("Node", "node-2"), about},
		{"a DaemonSet", event("DaemonSet", "agent"), about},
		{"nothing", event("", ""), about},
		{"the name of another", from(func(e *corev1.Event) { e.Source.Host = "node-2" }), name},
		{"the name of nobody", from(func(e *corev1.Event) { e.Source = corev1.EventSource{} }), name},
		{"the kubelet of its node", from(func(e *corev1.Event) { e.Source.Component = "kubelet" }), name},
		{"the manager", from(func(e *corev1.Event) { e.Source.Component = "everynode-manager" }), name},
		{"the kubelet as reporter", from(func(e *corev1.Event) { e.ReportingController = "kubelet" }), name},
		{"another reporter", from(func(e *corev1.Event) { e.ReportingInstance = "node-2" }), name},
		{"something related", from(func(e *corev1.Event) { e.Related = &corev1.ObjectReference{Kind: "Node", Name: "node-2"} }), name},
	} {
		events := schema.GroupVersionResource{Version: "v1", Resource: "events"}
		for how, q := range map[string]question{
			"creates":       {operation: admission.Create, now: c.told},
			"changes to it": {operation: admission.Update, before: own, now: c.told},
			"changes it":    {operation: admission.Update, before: c.told, now: own},
		} {
			q.who, q.resource, q.kind = agentOf("node-1"), events, "Event"
			err := j.ask(t, q)
			if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s, %s: %v, and not %q", c.name, how, err, c.why)
			}
		}
	}
}

// fill gives a field another value than it has, so that it is written.
func fill(t *testing.T, v reflect.Value, depth int) {
	t.Helper()
	if depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int64, reflect.Int32:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*metav1.Time]() {
			v.Set(reflect.ValueOf(&metav1.Time{Time: metav1.Now().Rfc3339Copy().Time}))
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), depth)
	case reflect.Slice:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(t, one, depth-1)
		v.Set(reflect.Append(v, one))
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf("cpu").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		v.Set(m)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String {
				fill(t, f, depth-1)
			}
		}
	default:
		t.Fatalf("what is a %s?", v.Type())
	}
}
