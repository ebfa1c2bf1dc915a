// SPDX-License-Identifier: Apache-2.0

// Package component defines the components of a plane: for each process its command line, its readiness probe, and its
// tier.
//
// Tiers define the order of the start and, reversed, of the stop: etcd, then the API server, then the other components
// of Kubernetes, then Everynode. The API server must have ended before etcd is stopped; otherwise it keeps its port for
// minutes.
//
// Everything here is a pure function of Inputs, except the choice of ports.
package component
