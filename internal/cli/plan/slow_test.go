// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// TestSlowUnderAPolicy: the comparison with a larger budget follows the policy as the plan does, and names the fields that make the budget small.
func TestSlowUnderAPolicy(t *testing.T) {
	const waves = "  waves: [{name: canary, nodes: {count: 1}, soak: 30m}]\n"
	const enforced = "status: {sets: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, enforcement: OnDelete, phase: Complete}]}\n"
	const start = "one node at a time on 24 nodes takes about 36m0s; with "
	of := func(number any) map[string]any {
		return rolling(map[string]any{"maxUnavailable": number})
	}
	onDelete := map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}
	for name, c := range map[string]struct {
		advanced bool
		spec     map[string]any
		policy   string
		want     string
	}{
		"the set":    {true, of(int64(1)), waves, "maxUnavailable: 10% (3 at once) it takes about 32m15s"},
		"the policy": {true, of("50%"), waves + "  pace: {maxUnavailable: 1}\n", "spec.pace.maxUnavailable of rolloutpolicy/agents: 10% (3 at once) it takes about 32m15s"},
		"both": {true, of(int64(1)), waves + "  pace: {maxUnavailable: 1}\n",
			"maxUnavailable and spec.pace.maxUnavailable of rolloutpolicy/agents: 10% (3 at once) it takes about 32m15s"},
		"the set, and the policy a little": {true, of(int64(1)), waves + "  pace: {maxUnavailable: 2}\n", "maxUnavailable: 10% (2 at once) it takes about 33m15s"},
		"next to another controller":       {false, onDelete, waves + enforced, "spec.pace.maxUnavailable of rolloutpolicy/agents: 10% (3 at once) it takes about 32m15s"},
	} {
		t.Run(name, func(t *testing.T) {
			roll := fakecluster.Roll{Name: "agent", Advanced: c.advanced, Letters: strings.Repeat("u", 24), Spec: c.spec}
			manifest := policyOf(c.policy)
			if !c.advanced {
				manifest = strings.Replace(manifest, "apps.kruise.io/v1beta1", "apps/v1", 1)
			}
			d := foretold(t, append(roll.Objects(t), runtime.Object(fakecluster.Object(t, manifest))), "agent", "--image", "agent=registry.example/agent:3")
			for _, w := range d.Warnings {
				if w.Kind == warnSlow && w.Message == start+c.want {
					return
				}
			}
			t.Errorf("it warns %+v, want %s", d.Warnings, start+c.want)
		})
	}
}
