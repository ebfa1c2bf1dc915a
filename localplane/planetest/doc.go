// SPDX-License-Identifier: Apache-2.0

// Package planetest tests localplane with the real programs: it starts planes, uses them and kills their components.
//
// It needs bin/localplane (`make build`); without it every test is skipped with a message. Tests of real nodes also
// need root and the programs of `make build-real`; the skip message has what is missing.
package planetest
