// SPDX-License-Identifier: Apache-2.0

package everynode

import "everynode.dev/everynode/api/annotation"

// Labels on what Everynode installs.
const (
	// PartOf marks with the value PartOfValue what belongs to Everynode, above all the CustomResourceDefinitions: those of
	// OpenKruise have the same names.
	PartOf = Domain + "/part-of"
	// PartOfValue is the value of PartOf.
	PartOfValue = "everynode"
)

// Annotations on an Advanced DaemonSet.
const (
	// InPlaceGrace is how long a pod that is changed in place is not ready before its images change, so that it gets no
	// more traffic by then: a whole number of seconds. Without the annotation there is no such wait.
	InPlaceGrace = Domain + "/in-place-grace-seconds"
)

// Annotations on a pod of an Advanced DaemonSet.
const (
	// PreparedFor stands with the value PreparedForEviction on a pod that is prepared to be deleted because its node must not run
	// it any more. If the node may again, such a pod stays, also when an update of the daemon set would not have begun there.
	PreparedFor = Domain + "/prepared-for"
	// PreparedForEviction is the value of PreparedFor.
	PreparedForEviction = "eviction"
)

// Annotations that conversion between the versions of the Advanced DaemonSet leaves behind. They are for the way back, and
// not for people to set.
const (
	// KeptSurging stands on an object of v1beta1 that was written as v1alpha1 with the type Surging. The value is JSON: what
	// the budgets have become, and which of them conversion had to fill in.
	KeptSurging = Domain + "/v1alpha1-surging"
	// KeptScaling stands on an object shown as v1alpha1 whose scaleStrategy of v1beta1 says more than the annotation
	// daemonset.kruise.io/progressive-create-pod can. The value is JSON.
	KeptScaling = Domain + "/v1beta1-scaling"
)

// InPlaceGraceValue is the value of InPlaceGrace.
var InPlaceGraceValue = annotation.Of(annotation.Rule{
	Key: InPlaceGrace, For: annotation.AdvancedOnly, Want: "a whole number of seconds from 0",
}, annotation.WholeFrom(0))
