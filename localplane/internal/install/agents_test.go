// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"
	"testing/fstest"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/config"
)

func readAgents(t *testing.T, a Agents) appsv1.DaemonSet {
	t.Helper()
	objects, err := a.Read(config.Agent)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 1 {
		t.Fatalf("%d objects, want the DaemonSet alone", len(objects))
	}
	if _, found := objects[0].Object["status"]; found {
		t.Error("it has a status")
	}
	var set appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[0].Object, &set, true); err != nil {
		t.Fatal(err)
	}
	return set
}

// The agents of a plane are those that are shipped, but for what is named.
func TestAgentsAreThoseThatAreShipped(t *testing.T) {
	objects, err := Read(config.Agent)
	if err != nil {
		t.Fatal(err)
	}
	var shipped appsv1.DaemonSet
	for _, obj := range objects {
		if obj.GetKind() != "DaemonSet" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &shipped, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, openYurt := range []bool{false, true} {
		set := readAgents(t, Agents{Image: "registry.local/everynode-agent:dev", Label: "example.com/real", OpenYurt: openYurt})
		want := shipped.DeepCopy()
		want.Spec.Template.Spec.NodeSelector["example.com/real"] = "true"
		agent := &want.Spec.Template.Spec.Containers[0]
		agent.Image, agent.Args = "registry.local/everynode-agent:dev", append(agent.Args, "--image-fs-limit=0")
		if openYurt {
			agent.Args = append(agent.Args, "--openyurt-api")
		}
		if !slices.Equal(set.Spec.Template.Spec.Containers[0].Args, agent.Args) {
			t.Errorf("openyurt %v: the arguments are %v", openYurt, set.Spec.Template.Spec.Containers[0].Args)
		}
		if set.String() != want.String() {
			t.Errorf("openyurt %v: got\n%s\nwant\n%s", openYurt, set.String(), want.String())
		}
	}
}

func TestAgentsNameWhatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{
		"broken":  "kind: [",
		"no list": "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {template: {spec: {containers: 3}}}\n",
	} {
		if _, err := (Agents{}).Read(fstest.MapFS{"a.yaml": {Data: []byte(text)}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
