// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// agentOn is the pod of an agent.
func agentOn(node string, ready corev1.ConditionStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: everynode.AgentNamespace, Name: "agent-" + node, Labels: map[string]string{everynode.AgentLabel: everynode.AgentName},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: everynode.AgentName, UID: "agents", Controller: new(true)}},
	}}
	p.Spec.NodeName, p.Status.Conditions = node, []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

// managerWith is a Deployment of the manager with these flags.
func managerWith(flags ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: everynode.Namespace, Name: installed.Manager}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: flags}}
	return d
}

// TestPlanOfChangesInPlaceThatWait: the nodes with an agent that lack the image are changed when they have it, and the plan says how long that is assumed to take.
func TestPlanOfChangesInPlaceThatWait(t *testing.T) {
	const waits, none = "node-1 10s", ""
	agents := []runtime.Object{agentOn("node-1", corev1.ConditionTrue), agentOn("node-2", corev1.ConditionFalse)}
	for name, c := range map[string]struct {
		annotations map[string]string
		rolling     string
		with        []runtime.Object
		secret      bool
		want        string
	}{
		"by default":              {nil, "InPlaceIfPossible", agents, false, waits},
		"with a manager":          {nil, "InPlaceIfPossible", append(agents, managerWith("--leader-elect")), false, waits},
		"no agents":               {nil, "InPlaceIfPossible", nil, false, none},
		"turned off by the set":   {map[string]string{everynode.WaitForImage: "false"}, "InPlaceIfPossible", agents, false, none},
		"turned off for all":      {nil, "InPlaceIfPossible", append(agents, managerWith("--in-place-wait-for-images=false")), false, none},
		"pods that are recreated": {nil, "Standard", agents, false, none},
		"pull secrets":            {nil, "InPlaceIfPossible", append(agents, managerWith()), true, none},
		"which agents may have":   {nil, "InPlaceIfPossible", append(agents, managerWith("--pull-secret-namespaces=other,default")), true, waits},
	} {
		t.Run(name, func(t *testing.T) {
			roll := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuu", Annotations: c.annotations, Spec: rolling(map[string]any{"rollingUpdateType": c.rolling, "maxUnavailable": "100%"})}
			objects := append(roll.Objects(t), c.with...)
			for _, object := range objects {
				if n, ok := object.(*corev1.Node); ok {
					n.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example/agent:2"}}}
				}
				if p, ok := object.(*corev1.Pod); ok && c.secret {
					p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "of-the-service-account"}}
				}
			}
			d := documentOf(t, newServer(t, objects...), "ads/agent --image agent=registry.example/agent:3")
			got := ""
			for _, n := range d.Nodes {
				if n.Start == "10s" {
					got += n.Name
				}
			}
			at := slices.IndexFunc(d.Assumptions, func(a Assumption) bool { return a.Name == "pull" })
			if at >= 0 && d.Assumptions[at].Value != never {
				got += " " + d.Assumptions[at].Value
			}
			if got != c.want {
				t.Errorf("got %q, want %q: %+v", got, c.want, d.Assumptions)
			}
		})
	}
}

// TestPlanOfResources: the nodes give the containers other amounts, unless the manager is known to recreate pods for that.
func TestPlanOfResources(t *testing.T) {
	limits := func(memory string) map[string]any {
		return map[string]any{"limits": map[string]any{"memory": memory}, "requests": map[string]any{"memory": memory}}
	}
	for name, c := range map[string]struct {
		with []runtime.Object
		want plan.Verdict
	}{
		"by default":         {nil, plan.InPlace},
		"another feature":    {[]runtime.Object{managerWith("--feature-gates=ConflictProbe=false")}, plan.InPlace},
		"turned off":         {[]runtime.Object{managerWith("--feature-gates=ConflictProbe=false,InPlaceWorkloadVerticalScaling=false")}, plan.Recreate},
		"all beta off":       {[]runtime.Object{managerWith("--feature-gates=AllBeta=false")}, plan.Recreate},
		"without a manager":  {nil, plan.InPlace},
		"a flag of nonsense": {[]runtime.Object{managerWith("--feature-gates=nonsense")}, plan.InPlace},
	} {
		t.Run(name, func(t *testing.T) {
			roll := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuu", Spec: rolling(map[string]any{"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "100%"})}
			objects := append(roll.Objects(t), c.with...)
			var wanted map[string]any
			firstContainers(t, objects, func(first map[string]any) {
				wanted = maps.Clone(first)
				first["resources"], wanted["resources"] = limits("64Mi"), limits("128Mi")
			})
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{wanted}}}}})
			if err != nil {
				t.Fatal(err)
			}
			d := documentOf(t, newServer(t, objects...), "ads/agent --patch "+string(patch))
			for _, n := range d.Nodes {
				if n.Verdict != c.want {
					t.Errorf("node %s: %s %s, want %s", n.Name, n.Verdict, n.Detail, c.want)
				}
			}
		})
	}
}

// TestPlanOfALabelThatAVariableReads: the plan says on which nodes an agent restarts the containers, and where there is none, so the pod is recreated.
func TestPlanOfALabelThatAVariableReads(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uuu", Spec: rolling(map[string]any{"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "100%"})}
	objects := append(roll.Objects(t), agentOn("node-1", corev1.ConditionTrue), agentOn("node-2", corev1.ConditionFalse))
	firstContainers(t, objects, func(first map[string]any) { // reads the label
		first["env"] = []any{map[string]any{"name": "TIER", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['tier']"}}}}
	})
	d := documentOf(t, newServer(t, objects...), `ads/agent --patch {"spec":{"template":{"metadata":{"labels":{"tier":"edge"}}}}}`)
	got := map[string]string{}
	for _, n := range d.Nodes {
		got[n.Name] = string(n.Verdict) + " " + n.Detail
	}
	want := map[string]string{"node-1": "in-place ", "node-2": "recreate no-agent", "node-3": "recreate no-agent"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v; %+v", got, want, d.Warnings)
	}
}

// firstContainers edits the first container in all templates of sets and revisions.
func firstContainers(t *testing.T, objects []runtime.Object, edit func(first map[string]any)) {
	t.Helper()
	change := func(object map[string]any) {
		containers, found, err := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
		if !found || err != nil {
			t.Fatalf("no containers: %v", err)
		}
		edit(containers[0].(map[string]any))
		if err := unstructured.SetNestedSlice(object, containers, "spec", "template", "spec", "containers"); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range objects {
		if u, ok := object.(*unstructured.Unstructured); ok && u.GetKind() == "DaemonSet" {
			change(u.Object)
		}
		if r, ok := object.(*appsv1.ControllerRevision); ok {
			data := map[string]any{}
			if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
				t.Fatal(err)
			}
			change(data)
			r.Data.Raw, _ = json.Marshal(data)
		}
	}
}
