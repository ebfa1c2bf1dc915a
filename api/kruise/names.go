// SPDX-License-Identifier: Apache-2.0

// Package kruise declares the names of OpenKruise's Advanced DaemonSet: those that its users write, and those on
// objects that OpenKruise created. The types are in the packages of the versions; v1beta1 is the stored version.
//
// Rules: these names belong to OpenKruise and never change; Everynode's own names are in api/everynode. The API server
// keeps unknown fields of a specification (PreserveUnknownFields), so that validation can reject them whatever client
// has sent them.
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

// ResourceJob and KindJob are the names of the ImagePullJob in the group, ResourceNodeImage and KindNodeImage those of
// the NodeImage.
const (
	ResourceJob       = "imagepulljobs"
	KindJob           = "ImagePullJob"
	ResourceNodeImage = "nodeimages"
	KindNodeImage     = "NodeImage"
)

// The defaults of a pull on a node: the timeout of an attempt, and the number of retries.
const (
	PullTimeoutSeconds = 600
	PullBackoffLimit   = 3
)

// Versions of the API; VersionStored is the stored version.
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
	// PredownloadParallelism is the number of nodes on which a new image is pulled at once before the update, a whole
	// number.
	PredownloadParallelism = "apps.kruise.io/image-predownload-parallelism"
	// PredownloadTimeout is the timeout of a pull in seconds, a whole number.
	PredownloadTimeout = "apps.kruise.io/image-predownload-timeout-seconds"
	// PredownloadMinUpdatedReady is how many updated pods must be ready before images are pulled, a number or
	// percentage.
	PredownloadMinUpdatedReady = "apps.kruise.io/image-predownload-min-updated-ready-pods"
)

// Labels on a daemon set.
const (
	// DeleteProtection is a label, and the same on DaemonSets of apps/v1: with the value Always the set cannot be deleted, with Cascading
	// not while it has pods. The API server itself refuses it, by the policy everynode-delete-protection.
	DeleteProtection = "policy.kruise.io/delete-protection"
)

// Values of DeleteProtection.
const (
	ProtectAlways    = "Always"
	ProtectCascading = "Cascading"
)

// PullNamespace is the namespace from which agents read the pull secrets of jobs: copies of secrets in the namespaces
// of the jobs.
const PullNamespace = "kruise-daemon-config"

// Names on copies of pull secrets.
const (
	// PullSecretSourceUID is the label with the UID of the copied secret.
	PullSecretSourceUID = "imagepulljobs.kruise.io/source-uid"
	// PullSecretSource is the annotation with the copied secret, as namespace/name.
	PullSecretSource = "imagepulljobs.kruise.io/source-key"
	// PullSecretReferences is the annotation with the jobs that need the copy, as namespace/name, separated by commas.
	PullSecretReferences = "imagepulljobs.kruise.io/references"
)

// JobFinalizer is a finalizer that OpenKruise sets on its ImagePullJobs. Everynode never sets it, and removes it.
const JobFinalizer = "apps.kruise.io/deletion-protection"

// Labels on a ControllerRevision about whether its images were pulled before the update.
const (
	// PredownloadCreated is set when there are jobs for the images of the revision. It is written as OpenKruise writes
	// it.
	PredownloadCreated = "apps.kruise.io/pre-predownload-created"
	// PredownloadIgnored is set if there was nothing to pull.
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
