// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"slices"
	"testing"

	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

func TestFields(t *testing.T) {
	const plain = `
metadata: {labels: {app: x}}
spec:
  initContainers: [{name: i, image: i:1}]
  containers: [{name: a, image: a:1, args: [-v], resources: {limits: {cpu: "1"}}}, {name: b, image: b:1}]`
	for name, c := range map[string]struct {
		change func(template map[string]any)
		why    rollout.Detail
		want   []string
	}{
		"arguments and an image": {both(set("spec.containers.0.args", []any{"-w"}), set("spec.containers.1.image", "b:2")), rollout.DetailTemplate, []string{"spec.containers[a].args"}},
		"several": {both(set("spec.hostNetwork", true), set("spec.containers.1.env", []any{map[string]any{"name": "E", "value": "x"}})), rollout.DetailTemplate,
			[]string{"spec.containers[b].env", "spec.hostNetwork"}},
		"amounts could change":             {both(set("spec.hostPID", true), set("spec.containers.0.resources.limits.cpu", "2")), rollout.DetailTemplate, []string{"spec.hostPID"}},
		"an amount":                        {set("spec.containers.0.resources.limits.cpu", "2"), rollout.DetailResize, []string{"spec.containers[a].resources.limits.cpu"}},
		"an amount, but it is not allowed": {set("spec.containers.0.resources.limits.cpu", "2"), rollout.DetailResources, []string{"spec.containers[a].resources.limits.cpu"}},
		"an init container":                {both(set("spec.initContainers.0.image", "i:2"), set("spec.containers.0.image", "a:2")), rollout.DetailInitImage, []string{"spec.initContainers[i].image"}},
		"something else":                   {set("metadata.labels.app", "y"), rollout.DetailNoGate, nil},
	} {
		from, to := decode(t, plain), decode(t, plain)
		c.change(to)
		if got := kruise.Fields(from, to, c.why); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
