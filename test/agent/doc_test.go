// SPDX-License-Identifier: Apache-2.0

// Package agent tests everynode-agent as it is shipped: the program, against a real API server, with a container runtime that is a
// fake one or the containerd of this machine.
//
// A plane without Everynode's manager is the API server; the tests write the NodeImages that the manager would write, and look at
// nothing but what the API server says of them. Each test has a node of its own. The tests with containerd need root and the
// programs containerd and runc, and say so where these are missing.
package agent
