// SPDX-License-Identifier: Apache-2.0

// Package component says what a plane is made of: for each process its command line, how to see that it is ready, and
// its tier.
//
// Tiers order the start and, backwards, the stop: etcd, then the API server, then what Kubernetes runs beside it, then
// Everynode. The API server has to be gone before etcd is told to go, otherwise it holds on to its port for minutes.
//
// Everything here is a pure function of Inputs, except the choice of ports.
package component
