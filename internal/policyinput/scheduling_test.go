// SPDX-License-Identifier: Apache-2.0

package policyinput_test

import (
	"testing"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/revision"
)

// TestScheduledAlike: what the scheduler reads of a pod makes a difference, and what it does not read makes none.
func TestScheduledAlike(t *testing.T) {
	const container = `containers: [{name: c, image: a, resources: {requests: {cpu: 1}}, ports: [{containerPort: 80}]}]`
	for name, test := range map[string]struct {
		template string
		alike    bool
	}{
		"the same":                    {"spec: {" + container + "}", true},
		"another image and label":     {`{metadata: {labels: {v: x}}, spec: {containers: [{name: c, image: b, env: [{name: e}], resources: {requests: {cpu: 1}}}]}}`, true},
		"a volume that each node has": {"spec: {volumes: [{name: v, configMap: {name: c}}], " + container + "}", true},
		"it requests less":            {`spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}`, true},
		"it requests more":            {`spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}`, false},
		"a priority":                  {"spec: {priorityClassName: p, " + container + "}", false},
		"a port of the node":          {`spec: {containers: [{name: c, resources: {requests: {cpu: 1}}, ports: [{containerPort: 80, hostPort: 80}]}]}`, false},
		"the network of the node":     {"spec: {hostNetwork: true, " + container + "}", false},
		"a volume":                    {"spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], " + container + "}", false},
		"another scheduler":           {"spec: {schedulerName: s, " + container + "}", false},
		"a gate":                      {"spec: {schedulingGates: [{name: g}], " + container + "}", false},
		"a selector":                  {"spec: {nodeSelector: {a: b}, " + container + "}", false},
		"a toleration":                {"spec: {tolerations: [{operator: Exists}], " + container + "}", false},
		"a claim":                     {"spec: {resourceClaims: [{name: r, resourceClaimName: r}], " + container + "}", false},
		"it cannot be read":           {"spec: {containers: x}", false},
		"its labels and its affinity": {"{metadata: {labels: {v: x}}, spec: {affinity: {podAntiAffinity: {}}, " + container + "}}", false},
	} {
		h := &clustercache.Resolved{Entries: []revision.Entry{{Template: decoded(t, "{metadata: {labels: {v: old}}, spec: {"+container+"}}")}, {Template: decoded(t, test.template)}}}
		alike := policyinput.ScheduledAlike(h)
		if got := alike(1, 0); got != test.alike || got != alike(1, 0) {
			t.Errorf("%s: alike: %t", name, got)
		}
		if alike(2, 0) || alike(0, -1) {
			t.Error("a revision that does not exist is scheduled alike")
		}
	}
}
