// SPDX-License-Identifier: Apache-2.0

package run

import "sigs.k8s.io/kwok/pkg/apis/internalversion"

// readyCondition is the query of a stage for the Ready condition of the node.
const readyCondition = `.status.conditions.[] | select( .type == "Ready" ) | .status`

// A node without changes writes its status after 2.5 to 7.5 minutes, on average every 5 minutes as kubelets do. So
// nodes that were created together soon write at different times. The lease of the node keeps it Ready.
const (
	soonestHeartbeat = 150_000
	latestHeartbeat  = 450_000
)

// becomeReady sets the status of a node that is not known to be ready: a new one, or one that was cut off and
// reconnected. Fields that the node registered with (addresses, capacity) are kept.
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

// heartbeat repeats the conditions and keeps the times of their last transition.
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

// nodeStages returns all stages for kwok.
func nodeStages() []*internalversion.Stage {
	delay, latest := int64(soonestHeartbeat), int64(latestHeartbeat)
	return []*internalversion.Stage{
		nodeStage("node-becomes-ready", internalversion.SelectorOpNotIn, becomeReady, nil),
		nodeStage("node-heartbeat", internalversion.SelectorOpIn, heartbeat, &internalversion.StageDelay{
			DurationMilliseconds: &delay, JitterDurationMilliseconds: &latest,
		}),
	}
}

// nodeStage returns a stage that patches the status of the nodes whose Ready condition is True or, with NotIn, of all
// others.
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
