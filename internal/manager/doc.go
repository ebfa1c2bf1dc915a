// SPDX-License-Identifier: Apache-2.0

// Package manager wires the controllers into the program everynode-manager: settings from flags and a file, leader election,
// metrics, health, and the parts that only the leader runs. It holds no rule of its own.
package manager
