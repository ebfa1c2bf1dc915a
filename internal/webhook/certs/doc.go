// SPDX-License-Identifier: Apache-2.0

// Package certs makes, renews and publishes the certificate of the webhooks.
//
// Vocabulary: a pair is a certificate with its key and the authority that signed it, made for this one certificate and
// forgotten at once, so that no key of an authority is kept anywhere. The state is what the Secret holds: the pair in use,
// maybe the next one, and the bundle, all authorities that clients have to trust. A Keeper keeps the state and hands out the
// pair in use; every manager has one, and they agree through the Secret. A Publisher writes the bundle, and how the webhooks
// are reached, to where the API server reads it; only the leader does that.
//
// Rule: whoever trusts the published bundle can always reach every manager. So the next pair is not used before it has been published for a
// while, wherever the API server reads the bundle, and an authority stays in the bundle until it expires. When somebody deletes or damages the
// Secret, each manager goes on serving what it has, and sees to it that this is trusted.
//
// Libraries that do this (cert-controller of Open Policy Agent, for one) expect a kubelet that brings the Secret to a
// directory, and names in DNS; a manager outside of the cluster has neither.
package certs
