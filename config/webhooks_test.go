// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// TestServiceLeadsToPodsThatAreNotReady: a leader becomes ready only after a first list that may need its own conversion.
func TestServiceLeadsToPodsThatAreNotReady(t *testing.T) {
	data, err := config.Kruise.ReadFile("kruise/20-webhooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		service := corev1.Service{}
		if yaml.Unmarshal([]byte(document), &service) != nil || service.Kind != "Service" {
			continue
		}
		found = true
		if !service.Spec.PublishNotReadyAddresses {
			t.Errorf("the Service %s leads to ready pods alone", service.Name)
		}
	}
	if !found {
		t.Error("there is no Service")
	}
}
