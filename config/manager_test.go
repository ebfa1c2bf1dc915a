// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/config"
)

func manager(t *testing.T) *appsv1.Deployment {
	t.Helper()
	data, err := config.Manager.ReadFile("manager/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(data, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheManagerWaitsForNoDaemonPods: only a manager removes the taint, so its own pods must start on a node that has it.
func TestTheManagerWaitsForNoDaemonPods(t *testing.T) {
	tolerates := func(t corev1.Toleration) bool {
		return t.Key == everynode.HoldKey && t.Operator == corev1.TolerationOpExists && (t.Effect == "" || t.Effect == everynode.HoldTaint().Effect)
	}
	if spec := manager(t).Spec.Template.Spec; !slices.ContainsFunc(spec.Tolerations, tolerates) {
		t.Errorf("its tolerations are %+v", spec.Tolerations)
	}
}

// TestManagerKeepsToItsLimit: the garbage collector knows the limit of memory of its container.
func TestManagerKeepsToItsLimit(t *testing.T) {
	c := manager(t).Spec.Template.Spec.Containers[0]
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
