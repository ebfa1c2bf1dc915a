// SPDX-License-Identifier: Apache-2.0

// Package planetest tests localplane with the real programs: it starts planes, uses them and breaks them.
//
// It needs bin/localplane (`make build`); without it every test is skipped and says so.
package planetest
