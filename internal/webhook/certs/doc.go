// SPDX-License-Identifier: Apache-2.0

// Package certs creates, renews and publishes the certificate of the webhooks.
//
// Vocabulary: a pair is a certificate with its key and its certificate authority. The authority signs only this
// certificate, and its key is never stored. The state is the content of the Secret: the current pair, possibly the next
// pair, and the bundle, which has all authorities that clients must trust. A Keeper maintains the state and serves the
// current pair; every manager has one, and they synchronize through the Secret. A Publisher writes the bundle, and the
// address of the webhooks, to the objects where the API server reads them; only the leader publishes.
//
// Rule: a client that trusts the published bundle can always reach every manager. So the next pair is used only after
// it has been published for a while in all places where the API server reads the bundle, and an authority stays in the
// bundle until it expires. If the Secret is deleted or damaged, each manager continues to serve its current pair, and
// makes sure that it is trusted.
//
// Existing libraries (for example cert-controller of Open Policy Agent) require a kubelet that mounts the Secret, and
// DNS names; a manager outside of the cluster has neither.
package certs
