// SPDX-License-Identifier: Apache-2.0

// Package rest is the API of a node: its owner sees there which pods can be upgraded, has images pulled ahead, and upgrades pods
// when it suits him.
//
// There are two sets of routes. The old ones are those of OpenYurt's yurthub, with its codes and texts byte for byte; they know no
// authentication, so they are there only when Options.OpenYurt is set. Those below /v2 are ours: JSON, preconditions, tokens, and
// decisions that are kept until the cluster can be reached.
//
// Vocabulary. To upgrade a pod is to delete it, so that its set creates its successor of the next revision. A refusal is why a pod
// is not upgraded. A decision is an upgrade that is kept. The cluster is connected when its API server answers.
//
//	request ──► gate (host, origin) ──► [who: token] ──► pace ──► deed ──► Cluster
//	                                                              └──► Decisions ──► Run ──► deed
//
// Rules: a pod is deleted only with its UID as precondition, and only after what the API server says of it now was looked at. The
// images of a pod are requested in a condition of the pod, and the puller reads them there: so the request lives as long as the pod. One API serves one node and knows only what its Options hand it, so one process can serve many.
package rest
