// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"errors"
	"testing"

	"everynode.dev/everynode/internal/apply"
)

func TestRefusedAccount(t *testing.T) {
	for text, want := range map[string]string{
		`secrets "a" is forbidden: User "system:serviceaccount:edge-1:everynode-manager" cannot get resource "secrets" in API group "" in the namespace "b"`: "edge-1:everynode-manager",
		`secrets "a" is forbidden: User "kubernetes-admin" cannot get resource "secrets"`:                                                                    "everynode-system:everynode-manager",
		`secrets "a" is forbidden: no such right`: "everynode-system:everynode-manager",
	} {
		if got := apply.RefusedAccount(errors.New(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
