// SPDX-License-Identifier: Apache-2.0

// Package rest is the API of a node: the owner of the node lists the pods that can be upgraded, pulls images before an
// upgrade, and upgrades pods when convenient.
//
// There are two sets of routes. The old ones are those of OpenYurt's yurthub, with exactly its codes and texts; they
// have no authentication, so they exist only if Options.OpenYurt is set. Those below /v2 are Everynode's: JSON,
// preconditions, tokens, and decisions that are stored until the cluster is reachable.
//
// Vocabulary. To upgrade a pod means to delete it, so that its set creates a pod of the next revision. A refusal is the
// reason why a pod is not upgraded. A decision is a stored upgrade. The cluster is connected if its API server
// responds.
//
//	request ──► gate (host, origin) ──► [token] ──► quota ──► action ──► Cluster
//	                                                      └──► Decisions ──► Run ──► action
//
// Rules: a pod is deleted only with its UID as precondition, and only after its current state was read from the API
// server. The images of a pod are requested with a condition of the pod, which the puller reads: so the request ends
// with the pod. One API serves one node and gets everything from its Options, so one process can serve many nodes.
package rest
