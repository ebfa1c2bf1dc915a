// SPDX-License-Identifier: Apache-2.0

// Package everynode declares all names of Everynode's own in a cluster: annotations, labels, feature gates.
//
// All keys have the same domain, and each is declared once; the reference documentation is generated from this package.
package everynode

import "everynode.dev/everynode/api/annotation"

// Domain is the domain of all keys of Everynode.
const Domain = "everynode.dev"

// Namespace is the default namespace of Everynode.
const Namespace = "everynode-system"

// AgentNamespace is the namespace of the DaemonSet of everynode-agent.
const AgentNamespace = "everynode-agents"

// AgentName is the name of that DaemonSet, and the value of AgentLabel on its pods.
const AgentName = "everynode-agent"

// AgentLabel is the label of the pods of the agents.
const AgentLabel = "app.kubernetes.io/name"

// ProbeName is the name of the DaemonSet in Everynode's namespace with which the manager detects another controller
// that reconciles the DaemonSets of apps/v1. It matches no node, and the manager never reconciles it.
const ProbeName = "everynode-probe"

// EventNode is an annotation on events about a failed write for a daemon set: the name of the node.
const EventNode = Domain + "/node"

// Annotations on a DaemonSet of any dialect.
const (
	// MaxReplacing limits the number of nodes on which an old pod that is already unavailable is replaced at once. The
	// value is a number (at least 1) or a percentage of the desired number of nodes, rounded up. While the number of
	// nodes that are being updated (no running pod, or a pod of the new revision that is not yet available) has reached
	// the limit, further old unavailable pods wait. Without the annotation all of them are replaced at once, as the
	// native controller does.
	MaxReplacing = Domain + "/max-replacing"
	// WaitForImage makes, with the value "true", the update of each node wait until the new images are on the node, for at
	// most the time in the annotation apps.kruise.io/image-predownload-timeout-seconds (default 300 seconds) after the
	// pull was requested. Updates that have started, repairs, and missing pods do not wait. It requires the feature gate
	// PreDownloadImageForDaemonSetUpdate. Without the annotation only changes in place of an Advanced DaemonSet wait, on nodes
	// where an agent runs, unless the manager has the flag --in-place-wait-for-images=false. With the value "false" no update of
	// the set waits.
	WaitForImage = Domain + "/wait-for-image"
)

// The values of these annotations.
var (
	MaxReplacingValue = annotation.Of(annotation.Rule{Key: MaxReplacing, Want: "a whole number from 1, or a percentage from 1% to 100%"}, annotation.QuantityFrom(1))
	WaitForImageValue = annotation.Of(annotation.Rule{Key: WaitForImage, Want: `"true" or "false"`}, annotation.Bool)
)

// Annotations are those that people set.
func Annotations() []annotation.Rule {
	return []annotation.Rule{
		WaitForImageValue.Rule, InPlaceGraceValue.Rule, InPlaceGateValue.Rule, InPlaceInitImagesValue.Rule, MarkForAutoscalerValue.Rule, LeaveLastValue.Rule, ComeBackFirstValue.Rule, MaxReplacingValue.Rule, FailureAttributionWindowValue.Rule,
		BlameWindowValue.Rule,
	}
}
