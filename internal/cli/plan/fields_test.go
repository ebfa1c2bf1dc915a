// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/rollout"
)

// recreated is the warning about a pod that is recreated because of an edit of the template.
func recreated(t *testing.T, was, is map[string]any, why rollout.Detail) string {
	t.Helper()
	f := &prediction{was: was, is: is, result: plan.Result{Nodes: []plan.Node{{Name: "node-1", Verdict: plan.Recreate, Detail: why}}}}
	all := f.warnPlace()
	if len(all) != 1 {
		t.Fatalf("warnings %+v", all)
	}
	return all[0].Message
}

// TestTheFieldsThatPreventAChangeInPlaceAreNamed: the first of them; the diff has all.
func TestTheFieldsThatPreventAChangeInPlaceAreNamed(t *testing.T) {
	template := func(args int, image string) map[string]any {
		var containers []any
		for i := range 7 {
			containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": image, "workingDir": fmt.Sprint("/", min(i, args))})
		}
		return map[string]any{"spec": map[string]any{"containers": containers}}
	}
	field := func(container string) string { return `.spec.containers[name="` + container + `"].workingDir` }
	for changed, want := range map[int]string{
		6: ": " + field("c6"),
		2: ": " + strings.Join([]string{field("c2"), field("c3"), field("c4"), field("c5"), field("c6")}, ", "),
		1: field("c5") + " and 1 more",
	} {
		if got := recreated(t, template(changed-1, "i:1"), template(7, "i:2"), rollout.DetailTemplate); !strings.HasSuffix(got, want) {
			t.Errorf("%d: %s, want %q at the end", changed, got, want)
		}
	}
}

// TestOnlyWhatPreventsAChangeInPlaceIsNamed, and not what else differs.
func TestOnlyWhatPreventsAChangeInPlaceIsNamed(t *testing.T) {
	const first = `{name: a, image: a:1, args: [-v], resources: {limits: {cpu: "1"}}}`
	const plain = `{metadata: {labels: {app: x}}, spec: {initContainers: [{name: i, image: i:1}], containers: [` + first + `, {name: b, image: b:1}]}}`
	for name, c := range map[string]struct {
		replaced []string
		why      rollout.Detail
		want     string
	}{
		"arguments and an image": {[]string{"-v", "-w", "b:1", "b:2"}, rollout.DetailTemplate, `: .spec.containers[name="a"].args`},
		"several": {[]string{"spec: {", "spec: {hostNetwork: true, ", "b:1}", "b:1, env: [{name: E, value: x}]}"}, rollout.DetailTemplate,
			`: .spec.containers[name="b"].env, .spec.hostNetwork`},
		"amounts could change":             {[]string{"spec: {", "spec: {hostPID: true, ", `cpu: "1"`, `cpu: "2"`}, rollout.DetailTemplate, ": .spec.hostPID"},
		"an amount":                        {[]string{`cpu: "1"`, `cpu: "2"`}, rollout.DetailResize, `: .spec.containers[name="a"].resources.limits.cpu`},
		"an amount, but it is not allowed": {[]string{`cpu: "1"`, `cpu: "2"`}, rollout.DetailResources, `: .spec.containers[name="a"].resources.limits.cpu`},
		"an init container":                {[]string{"i:1", "i:2", "a:1", "a:2"}, rollout.DetailInitImage, `: .spec.initContainers[name="i"].image`},
		"something else":                   {[]string{"app: x", "app: y"}, rollout.DetailNoGate, ""},
	} {
		var was, is map[string]any
		if err := yaml.Unmarshal([]byte(plain), &was); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(strings.NewReplacer(c.replaced...).Replace(plain)), &is); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimPrefix(recreated(t, was, is, c.why), "on 1 node the pod is recreated: "+c.why.Sentence()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTheVariableThatPreventsAChangeInPlaceIsNamed: one that reads what differs where the container is not restarted in place, what a change writes itself, or an amount.
func TestTheVariableThatPreventsAChangeInPlaceIsNamed(t *testing.T) {
	template := func(label, cpu, more string) (decoded map[string]any) {
		reads := func(path string) string { return `env: [{name: F, value: x}, {name: E, valueFrom: ` + path + `}]` }
		text := `{metadata: {labels: {app: ` + label + `}}, spec: {initContainers: [{name: i, ` + reads(`{fieldRef: {fieldPath: "metadata.labels['other']"}}`) + `}],
			containers: [{name: a, resources: {limits: {cpu: "` + cpu + `"}}}, {name: b, ` + more + reads(`{fieldRef: {fieldPath: 'metadata.labels["app"]'}}`) + `},
			{name: c, ` + reads(`{resourceFieldRef: {containerName: a, resource: limits.cpu}}`) + `}]}}`
		if err := yaml.Unmarshal([]byte(text), &decoded); err != nil {
			t.Fatal(err)
		}
		return decoded
	}
	const hook = `lifecycle: {preStop: {sleep: {seconds: 1}}}, `
	variable := func(container string) string {
		return `: .spec.containers[name="` + container + `"].env[name="E"].valueFrom`
	}
	for name, c := range map[string]struct {
		was, is map[string]any
		want    string
	}{
		"a label": {template("x", "1", hook), template("y", "1", hook), variable("b")},
		"a label that the agent can bring, and an amount": {template("x", "1", ""), template("y", "2", ""), variable("c")},
	} {
		if got := strings.TrimPrefix(recreated(t, c.was, c.is, rollout.DetailFieldRef), "on 1 node the pod is recreated: "+rollout.DetailFieldRef.Sentence()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
