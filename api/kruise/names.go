// SPDX-License-Identifier: Apache-2.0

// Package kruise declares the names of OpenKruise's Advanced DaemonSet: what its users write, and what is found on objects
// that OpenKruise made. The types are in the packages of its versions below; v1beta1 is the one that is stored.
//
// Rules: these names belong to OpenKruise and never change; names of Everynode's own are in api/everynode. And the API server
// drops nothing of a specification that the types do not know (PreserveUnknownFields): only so can validation refuse it, whatever
// client has sent it.
package kruise

import (
	"strings"

	"everynode.dev/everynode/api/annotation"
)

// Group is the API group of the Advanced DaemonSet.
const Group = "apps.kruise.io"

// Resource and Kind are the names of the Advanced DaemonSet in its group.
const (
	Resource = "daemonsets"
	Kind     = "DaemonSet"
)

// ResourceJob and KindJob are the names of the ImagePullJob in the group, ResourceNodeImage and KindNodeImage those of the NodeImage.
const (
	ResourceJob       = "imagepulljobs"
	KindJob           = "ImagePullJob"
	ResourceNodeImage = "nodeimages"
	KindNodeImage     = "NodeImage"
)

// The defaults of a pull on one node: how long an attempt may take, and how often it is tried again.
const (
	PullTimeoutSeconds = 600
	PullBackoffLimit   = 3
)

// Versions of the API; VersionStored is the one in which the API server keeps objects.
const (
	VersionAlpha  = "v1alpha1"
	VersionBeta   = "v1beta1"
	VersionStored = VersionBeta
)

// Annotations on a daemon set.
const (
	// ProgressiveCreate "true" lets the partition hold back the creation of pods too. In v1beta1 there is the field
	// spec.scaleStrategy.partitionedScaling for it, which wins where it is set.
	ProgressiveCreate = "daemonset.kruise.io/progressive-create-pod"
	// PredownloadParallelism is at how many nodes at once a new image is pulled before the update, a whole number.
	PredownloadParallelism = "apps.kruise.io/image-predownload-parallelism"
	// PredownloadTimeout is the time in seconds after which one pull is given up, a whole number.
	PredownloadTimeout = "apps.kruise.io/image-predownload-timeout-seconds"
	// PredownloadMinUpdatedReady is how many updated pods have to be ready before images are pulled, a number or percentage.
	PredownloadMinUpdatedReady = "apps.kruise.io/image-predownload-min-updated-ready-pods"
)

// Labels on a daemon set.
const (
	// DeleteProtection is a label, and the same on DaemonSets of apps/v1: with the value Always nobody can delete the set, with Cascading
	// nobody while it has pods. The API server itself refuses it, by the policy everynode-delete-protection.
	DeleteProtection = "policy.kruise.io/delete-protection"
)

// Values of DeleteProtection.
const (
	ProtectAlways    = "Always"
	ProtectCascading = "Cascading"
)

// PullNamespace is where the agents of nodes find the pull secrets of jobs: copies of secrets in the namespaces of the jobs.
const PullNamespace = "kruise-daemon-config"

// Names on copies of pull secrets.
const (
	// PullSecretSourceUID is the label with the UID of the secret that was copied.
	PullSecretSourceUID = "imagepulljobs.kruise.io/source-uid"
	// PullSecretSource is the annotation that names it, as namespace/name.
	PullSecretSource = "imagepulljobs.kruise.io/source-key"
	// PullSecretReferences is the annotation with the jobs that need the copy, as namespace/name, separated by commas.
	PullSecretReferences = "imagepulljobs.kruise.io/references"
)

// JobFinalizer is a finalizer that OpenKruise sets on its ImagePullJobs. Everynode never sets it, and removes it.
const JobFinalizer = "apps.kruise.io/deletion-protection"

// Labels on a ControllerRevision that say whether its images were pulled ahead.
const (
	// PredownloadCreated is set once there are jobs for the images of the revision. It is written as OpenKruise writes it.
	PredownloadCreated = "apps.kruise.io/pre-predownload-created"
	// PredownloadIgnored is set if there was nothing to pull ahead.
	PredownloadIgnored = "apps.kruise.io/image-predownload-ignored"
)

// The values of the annotations on a daemon set.
var (
	ProgressiveCreateValue = annotation.Of(annotation.Rule{Key: ProgressiveCreate, For: annotation.AdvancedOnly, Want: `"true" or "false"`}, annotation.Bool)

	PredownloadParallelismValue = annotation.Of(annotation.Rule{Key: PredownloadParallelism, Want: "a whole number from 1", Correct: wholeRemedy}, annotation.WholeFrom(1))
	PredownloadTimeoutValue     = annotation.Of(annotation.Rule{Key: PredownloadTimeout, Want: "a whole number of seconds from 1", Correct: wholeRemedy}, annotation.WholeFrom(1))
	// As with OpenKruise, a number may have a plus sign.
	PredownloadMinUpdatedReadyValue = annotation.Of(annotation.Rule{
		Key: PredownloadMinUpdatedReady, Want: "a whole number from 0, or a percentage up to 100%",
	}, func(text string) (annotation.Quantity, bool) {
		return annotation.QuantityFrom(0)(strings.TrimPrefix(text, "+"))
	})
)

const wholeRemedy = "set it to a whole number from 1 to 2147483647"

// Annotations are those that people set.
func Annotations() []annotation.Rule {
	return []annotation.Rule{ProgressiveCreateValue.Rule, PredownloadParallelismValue.Rule, PredownloadTimeoutValue.Rule, PredownloadMinUpdatedReadyValue.Rule}
}
