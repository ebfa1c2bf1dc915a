// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/config/v1alpha1"
	"everynode.dev/everynode/internal/controller/endpoint"
)

// TestErrorsShowNoAddress: the path of an address may be a secret, as those of chats are, so the error about an address without a scheme, which the manager logs, does not contain it.
func TestErrorsShowNoAddress(t *testing.T) {
	for _, address := range []string{"hooks.example/services/T0/B0/secret", "htps://hooks.example/services/T0/B0/secret", "https://hooks.example:port/services/T0/B0/secret"} {
		if _, err := endpoint.NewClient(&v1alpha1.ProviderEndpoint{URL: address}, time.Second); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error is %v", err)
		}
	}
}
