// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/config"
)

// TestManagerKeepsToItsLimit: the garbage collector is told of the limit of memory of the container that it runs in.
func TestManagerKeepsToItsLimit(t *testing.T) {
	data, err := config.Manager.ReadFile("manager/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(data, d); err != nil {
		t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	for _, e := range c.Env {
		if e.Name != "GOMEMLIMIT" {
			continue
		}
		if r := e.ValueFrom.ResourceFieldRef; r == nil || r.ContainerName != c.Name || r.Resource != "limits.memory" || !r.Divisor.IsZero() {
			t.Errorf("GOMEMLIMIT is %+v", e.ValueFrom)
		}
		return
	}
	t.Error("GOMEMLIMIT is not set")
}
