// SPDX-License-Identifier: Apache-2.0

package kruise

// PullSecretNamespace is the namespace from which agents read pull secrets, and to which the manager copies them.
const PullSecretNamespace = "kruise-daemon-config"

// Reasons of events about image pulls, on a NodeImage and on the objects that want the image.
const (
	ReasonPullSucceeded = "PullImageSucceed" // the node has the image
	ReasonPullFailed    = "PullImageFailed"  // the pull has failed on the node
)
