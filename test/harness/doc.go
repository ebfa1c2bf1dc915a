// SPDX-License-Identifier: Apache-2.0

// Package harness starts a local plane for tests, and a space for each test.
//
// Vocabulary: a cluster is a running plane with clients for it; a space is a namespace together with some nodes that
// only this test's sets select; a view is what a space's watches have shown so far; a condition is a function of a
// view.
//
// The controller under test is chosen by the environment, so that the same tests run against Everynode's native dialect
// and against upstream's own controller, which shows that the tests require nothing that upstream does not do:
//
//	EVERYNODE_E2E_CONTROLLER  everynode (default) or native
//	EVERYNODE_BIN             directory of the binaries localplane and everynode-manager (default: bin/ of the repository)
//	EVERYNODE_KUBERNETES      directory of kube-apiserver, kube-controller-manager and kube-scheduler of another version of Kubernetes
//
// Rule: nothing here sleeps. Tests wait for conditions, which are evaluated again after each event of a watch.
package harness
