// SPDX-License-Identifier: Apache-2.0

// Package planetest tests localplane with the real programs: it starts planes, uses them and breaks them.
//
// It needs bin/localplane (`make build`); without it every test is skipped and says so. Tests of real nodes need root and what
// `make build-real` builds besides, and say what is missing where they are skipped.
package planetest
