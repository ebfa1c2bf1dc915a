// SPDX-License-Identifier: Apache-2.0

package kruise

// PullSecretNamespace is where the agents of the nodes look for pull secrets, and where the manager copies them to.
const PullSecretNamespace = "kruise-daemon-config"

// Reasons of events about image pulling, at a NodeImage and at what wants the image.
const (
	ReasonPullSucceeded = "PullImageSucceed" // the node has the image
	ReasonPullFailed    = "PullImageFailed"  // the node has given up
)
