// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"testing"
)

// strangeValues are texts that YAML would take for something else, or would cut, where they have no quotes.
const strangeValues = `
image: {registry: "", tag: "1", pullSecrets: ["123", "on"]}
manager:
  image: {name: "1"}
  flags: {vmodule: 'a&b"\c=1'}
  pullSecretNamespaces: ["1", "true"]
  priorityClassName: "1e3"
  topologyKey: "a: b #c"
  podDisruptionBudget: {maxUnavailable: 2000000}
  replicas: 2000000
agent:
  image: {name: "2"}
  flags: {credential-provider-config: '/a: b "c" <&> #\d', credential-provider-bin-dir: "/b"}
  priorityClassName: "true"
  criSocket: "/run/x: y/x: y #.sock"
  imageDirectory: "/var/a: b #c"
  maxUnavailable: 3000000
`

// TestStrangeValuesArrive as they were written.
func TestStrangeValuesArrive(t *testing.T) {
	r := release{values: strangeValues, namespace: "456"}
	all := r.objects(t)
	decodes(t, knownObjects(t), "strange", all)
	pod, container := "spec.template.spec.", "spec.template.spec.containers.0."
	for _, c := range []struct{ object, field, want string }{
		{"Deployment", "metadata.namespace", `"456"`},
		{"Deployment", "spec.replicas", `2000000`},
		{"Deployment", container + "image", `"1:1"`},
		{"Deployment", pod + "imagePullSecrets", `[{"name":"123"},{"name":"on"}]`},
		{"Deployment", pod + "priorityClassName", `"1e3"`},
		{"Deployment", pod + "topologySpreadConstraints.0.topologyKey", `"a: b #c"`},
		{"PodDisruptionBudget", "spec.maxUnavailable", `2000000`},
		{"DaemonSet", container + "image", `"2:1"`},
		{"DaemonSet", pod + "priorityClassName", `"true"`},
		{"DaemonSet", pod + "volumes.0.hostPath.path", `"/run/x: y"`},
		{"DaemonSet", pod + "volumes.1.hostPath.path", `"/var/a: b #c"`},
		{"DaemonSet", container + "volumeMounts.0.mountPath", `"/run/x: y"`},
		{"DaemonSet", container + "volumeMounts.1.mountPath", `"/var/a: b #c"`},
		{"DaemonSet", "spec.updateStrategy.rollingUpdate.maxUnavailable", `3000000`},
		{"RoleBinding/1/everynode-manager-read-pull-secrets", "subjects.0.namespace", `"456"`},
		{"RoleBinding/true/everynode-manager-read-pull-secrets", "metadata.namespace", `"true"`},
	} {
		if got := field(t, one(t, all, c.object), c.field); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.object, c.field, got, c.want)
		}
	}
	for object, want := range map[string]string{
		"Deployment": `--vmodule=a&b"\c=1`,
		"DaemonSet":  `--credential-provider-config=/a: b "c" <&> #\d`,
	} {
		if args := arguments(t, one(t, all, object)); !slices.Contains(args, want) {
			t.Errorf("%s: the arguments are %q, want %s among them", object, args, want)
		}
	}
	if args, want := arguments(t, one(t, all, "DaemonSet")), "--cri-socket=unix:///run/x: y/x: y #.sock"; args[0] != want {
		t.Errorf("the socket is %q, want %q", args[0], want)
	}
}
