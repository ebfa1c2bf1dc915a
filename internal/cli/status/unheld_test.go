// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/explain"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/plan"
	"everynode.dev/everynode/internal/cli/status"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// left are the objects of a set in mid-roll whose policy was deleted, and whose status was written last by a manager of fields.
func left(t *testing.T, manager string) []runtime.Object {
	objects := fakecluster.Roll{Name: "agent", Letters: "uuoooo"}.Objects(t)
	for _, object := range objects {
		if r, is := object.(*appsv1.ControllerRevision); is && r.Revision == 1 {
			r.Annotations = map[string]string{everynode.Committed: everynode.FormatCommitted(1, string(r.UID))}
		}
		if set, is := object.(*unstructured.Unstructured); is {
			at := metav1.NewTime(fakecluster.Now().Add(-time.Minute))
			set.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "status", Time: &at, Operation: metav1.ManagedFieldsOperationUpdate}})
		}
	}
	return objects
}

// TestPolicyDeletedNextToKubernetes: kube-controller-manager knows no marks, so nothing says that no update starts, and the remedy is to take the updates away from it.
func TestPolicyDeletedNextToKubernetes(t *testing.T) {
	const stops = "so no update starts"
	want := "the rollout policy that governed the daemon set was deleted, so Everynode holds no node back: spec.updateStrategy.type is RollingUpdate, so kube-controller-manager updates all nodes, without waves. " +
		"To stop it, run kubectl patch daemonset agent -n default --type merge -p "
	for _, c := range []struct {
		verb string
		run  func(*fakecluster.Cluster) error
	}{
		{"status", func(c *fakecluster.Cluster) error { return c.Run(t, status.New, "agent") }},
		{"explain-node", func(c *fakecluster.Cluster) error { return c.Run(t, explain.New, "node-6", "agent") }},
		{"plan", func(c *fakecluster.Cluster) error { return c.Run(t, plan.New, "agent", "--local") }},
		{"status --exit-status", func(c *fakecluster.Cluster) error {
			if err := c.Run(t, status.New, "agent", "--exit-status", "--timeout", "300ms"); options.Code(err) != options.ExitUnfinished {
				return err
			}
			return nil
		}},
	} {
		for manager, kubernetes := range map[string]bool{"kube-controller-manager": true, "everynode-manager": false} {
			cluster := fakecluster.New(t, left(t, manager)...)
			if err := c.run(cluster); err != nil {
				t.Fatal(err)
			}
			out := cluster.Out.String()
			if strings.Contains(out, want) != kubernetes || strings.Contains(out, "stopped: ") && kubernetes || strings.Contains(out, stops) == kubernetes && !strings.Contains(c.verb, "--exit") {
				t.Errorf("%s, kept by %s:\n%s", c.verb, manager, out)
			}
		}
	}
}
