// SPDX-License-Identifier: Apache-2.0

// Package manager assembles the program everynode-manager from the controllers: settings from flags and a file, leader
// election, metrics, health checks, and the parts that only the leader runs. It makes no decisions about sets.
package manager
