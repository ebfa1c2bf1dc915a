// SPDX-License-Identifier: Apache-2.0

// Package everynode declares every name that Everynode itself gives to things in a cluster: annotations, labels, gates.
//
// All keys share one domain, and each is declared here once; the reference documentation is generated from this file.
package everynode

import "everynode.dev/everynode/api/annotation"

// Domain is the domain of all keys of Everynode's own.
const Domain = "everynode.dev"

// Namespace is where Everynode is installed unless told otherwise.
const Namespace = "everynode-system"

// ProbeName is the name of the DaemonSet in Everynode's namespace by which the manager finds out whether another controller reconciles the
// DaemonSets of apps/v1. It matches no node, and the manager never reconciles it.
const ProbeName = "everynode-probe"

// EventNode is an annotation on events of a daemon set about a write that failed: the name of the node that it was for.
const EventNode = Domain + "/node"

// Annotations on a DaemonSet of any dialect.
const (
	// MaxReplacing caps at how many nodes at once an old pod that is already unavailable is replaced. The value is a
	// number (at least 1) or a percentage of the desired number of nodes, rounded up. While the number of nodes that
	// are in the middle of an update (no live pod, or a pod of the new revision that is not yet available) has reached
	// the cap, further old unavailable pods wait. Without the annotation all of them are replaced at once, as the
	// native controller does.
	MaxReplacing = Domain + "/max-replacing"
	// WaitForImage has, with the value "true", the update of each node wait until the new images are there, for as long as the annotation
	// apps.kruise.io/image-predownload-timeout-seconds says (300 seconds without it) after the node was told to pull them. What an
	// update has begun, repairs, and pods that are missing do not wait. It needs the feature gate PreDownloadImageForDaemonSetUpdate.
	WaitForImage = Domain + "/wait-for-image"
)

// The values of these annotations.
var (
	MaxReplacingValue = annotation.Of(annotation.Rule{Key: MaxReplacing, Want: "a whole number from 1, or a percentage from 1% to 100%"}, annotation.QuantityFrom(1))
	WaitForImageValue = annotation.Of(annotation.Rule{Key: WaitForImage, Want: `"true" or "false"`}, annotation.Bool)
)

// Annotations are those that people set.
func Annotations() []annotation.Rule {
	return []annotation.Rule{WaitForImageValue.Rule, InPlaceGraceValue.Rule, MaxReplacingValue.Rule, FailureAttributionWindowValue.Rule, BlameWindowValue.Rule}
}
