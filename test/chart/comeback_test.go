// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"strings"
	"testing"
)

// TestTheManagerWaitsForNoDaemonPods: only a manager removes the taint. If its own pods did not tolerate it, they could not start again in a cluster whose nodes were all
// shut down.
func TestTheManagerWaitsForNoDaemonPods(t *testing.T) {
	const toleration = `{"key":"everynode.dev/waits-for-daemon-pods","operator":"Exists"}`
	for values, want := range map[string]string{
		"": `[` + toleration + `]`,
		"manager: {tolerations: [{key: a, operator: Exists}]}": `[{"key":"a","operator":"Exists"},` + toleration + `]`,
	} {
		manager := one(t, release{values: values}.objects(t), "Deployment/"+home+"/everynode-manager")
		if got := field(t, manager, "spec.template.spec.tolerations"); got != want {
			t.Errorf("with %q the tolerations are %s, want %s", values, got, want)
		}
	}
}

// TestComeBackFirstNamespaces: the right to patch nodes is given only with the value, which is also a flag of the manager.
func TestComeBackFirstNamespaces(t *testing.T) {
	const role = "everynode-manager-come-back-first"
	all := release{values: "manager: {comeBackFirstNamespaces: [one, two]}"}.objects(t)
	binding := one(t, all, "ClusterRoleBinding/"+role)
	if got := field(t, binding, "roleRef.name") + field(t, binding, "subjects.0.name") + field(t, binding, "subjects.0.namespace"); got != `"`+role+`""everynode-manager""everynode-system"` {
		t.Errorf("the binding has %s", got)
	}
	if got := field(t, one(t, all, "ClusterRole/"+role), "rules"); got != `[{"apiGroups":[""],"resources":["nodes"],"verbs":["patch"]}]` {
		t.Errorf("the role is %s", got)
	}
	if got := field(t, one(t, all, "Deployment/everynode-system/everynode-manager"), "spec.template.spec.containers.0.args"); !strings.Contains(got, `"--come-back-first-namespaces=one,two"`) {
		t.Errorf("the manager is started with %s", got)
	}
	for name, object := range (release{}).objects(t) {
		if strings.HasSuffix(name, "Binding/"+role) || strings.HasPrefix(name, "Deployment/") && strings.Contains(field(t, object, "spec.template.spec.containers.0.args"), "come-back-first") {
			t.Errorf("%s without the value", name)
		}
	}
	// Where OpenKruise's definitions keep the dialect from being served, the manager still releases nodes.
	foreign := release{values: "manager: {comeBackFirstNamespaces: [one]}", in: cluster{definitions()[0]: {"app": "kruise"}}}.objects(t)
	one(t, foreign, "ClusterRole/"+role)
	one(t, foreign, "ClusterRoleBinding/"+role)
	if args := arguments(t, foreign["Deployment/"+home+"/everynode-manager"]); !slices.Contains(args, "--dialects=native") || !slices.Contains(args, "--come-back-first-namespaces=one") {
		t.Errorf("next to OpenKruise the manager is started with %q", args)
	}
	if _, err := (release{values: "dialects: [native]\nmanager: {comeBackFirstNamespaces: [one]}"}).texts(t); err == nil || !strings.Contains(err.Error(), "needs the dialect kruise") {
		t.Errorf("without the dialect: %v", err)
	}
	if _, err := (release{values: "manager: {comeBackFirstNamespaces: [A]}"}).texts(t); err == nil || !strings.Contains(err.Error(), "/manager/comeBackFirstNamespaces/0") {
		t.Errorf("a name that is none: %v", err)
	}
}
