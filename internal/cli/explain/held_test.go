// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/explain"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestANodeThatIsHeld: a user whose pods are not scheduled to a node sees for what it is held. Node 2 has a pod that is not ready.
func TestANodeThatIsHeld(t *testing.T) {
	set := func(annotations map[string]string) fakecluster.Roll {
		roll := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "ua", Annotations: annotations, Spec: rolling(nil)}
		template := roll.Template("registry.example/agent:2")
		template["spec"].(map[string]any)["tolerations"] = []any{map[string]any{"key": everynode.HoldKey, "operator": "Exists"}}
		roll.Spec["template"] = template
		return roll
	}
	asks := set(map[string]string{everynode.ComeBackFirst: "300"})
	for name, c := range map[string]struct {
		roll       fakecluster.Roll
		node, want string
	}{
		"its pod is not ready":  {asks, "node-2", "; no other pods are scheduled before the pod of this set is ready, for at most 5m0s in use (taint everynode.dev/waits-for-daemon-pods)\n"},
		"its pod is ready":      {asks, "node-1", "; no other pods are scheduled before daemon pods are ready (taint everynode.dev/waits-for-daemon-pods)\n"},
		"another set has asked": {set(nil), "node-2", "; no other pods are scheduled before daemon pods are ready (taint everynode.dev/waits-for-daemon-pods)\n"},
	} {
		objects := c.roll.Objects(t)
		for _, object := range objects {
			if node, ok := object.(*corev1.Node); ok {
				node.Spec.Taints = append(node.Spec.Taints, everynode.HoldTaint())
			}
		}
		cluster := fakecluster.New(t, objects...)
		if err := cluster.Run(t, explain.New, c.node, "agent"); err != nil {
			t.Fatal(err)
		}
		if out := cluster.Out.String(); !strings.Contains(out, c.want) {
			t.Errorf("%s: got\n%s", name, out)
		}
	}
}
