// SPDX-License-Identifier: Apache-2.0

package run

import "sigs.k8s.io/kwok/pkg/apis/internalversion"

// readyCondition is how a stage asks for the node's state.
const readyCondition = `.status.conditions.[] | select( .type == "Ready" ) | .status`

// A node writes its status after 2.5 to 7.5 minutes in which nothing has changed, so every 5 minutes as kubelets do, and nodes that were
// made together soon do not write together. Its lease is what keeps it alive.
const (
	soonestHeartbeat = 150_000
	latestHeartbeat  = 450_000
)

// becomeReady reports a node that is not known to be ready: a new one, or one that was cut and healed. What the node
// registered with (its addresses, its capacity) stays.
const becomeReady = `
{{ $now := Now }}
phase: Running
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
`

// heartbeat repeats the conditions and leaves the times of their last change.
const heartbeat = `
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
{{ end }}
`

// nodeStages is all that kwok is told to do.
func nodeStages() []*internalversion.Stage {
	delay, latest := int64(soonestHeartbeat), int64(latestHeartbeat)
	return []*internalversion.Stage{
		nodeStage("node-becomes-ready", internalversion.SelectorOpNotIn, becomeReady, nil),
		nodeStage("node-heartbeat", internalversion.SelectorOpIn, heartbeat, &internalversion.StageDelay{
			DurationMilliseconds: &delay, JitterDurationMilliseconds: &latest,
		}),
	}
}

// nodeStage patches the status of the nodes whose Ready condition is True, or with NotIn of all others.
func nodeStage(name string, operator internalversion.SelectorOperator, template string, delay *internalversion.StageDelay) *internalversion.Stage {
	stage := &internalversion.Stage{}
	stage.Name = name
	stage.Spec = internalversion.StageSpec{
		ResourceRef: internalversion.StageResourceRef{APIGroup: "v1", Kind: "Node"},
		Selector: &internalversion.StageSelector{MatchExpressions: []internalversion.MatchExpression{{
			JQ: &internalversion.SelectorJQ{Key: readyCondition, Operator: operator, Values: []string{"True"}},
		}}},
		Delay: delay,
		Steps: []internalversion.StageStep{{
			Patch: &internalversion.StagePatch{Subresource: "status", Root: "status", Template: template},
		}},
	}
	return stage
}
