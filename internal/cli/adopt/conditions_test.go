// SPDX-License-Identifier: Apache-2.0

package adopt_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// conditioned is an Advanced DaemonSet that Everynode has reconciled, with a condition of another controller.
const conditioned = `apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: done, namespace: agents}
status:
  numberReady: 3
  conditions:
  - {type: Progressing, status: "False", reason: Complete}
  - {type: Available, status: "True", reason: Nodes}
  - {type: Mine, status: "True", reason: Yes}
  - {type: Degraded, status: "False", reason: AsExpected}
  - {type: Paused, status: "False", reason: NotPaused}
  - {type: Ready, status: "True", reason: Complete}
  - {type: Reconciling, status: "False", reason: Complete}
  - {type: Stalled, status: "False", reason: Complete}
`

func sets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}
}

// conditionsOf are the types of the conditions of the set, and whether it has the rest of its status.
func conditionsOf(t *testing.T, c *fakecluster.Cluster) (types []string, rest bool) {
	t.Helper()
	found, err := c.Dynamic.Tracker().Get(sets(), "agents", "done")
	if err != nil {
		t.Fatal(err)
	}
	set := found.(*unstructured.Unstructured)
	list, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	for _, one := range list {
		types = append(types, one.(map[string]any)["type"].(string))
	}
	ready, _, _ := unstructured.NestedInt64(set.Object, "status", "numberReady")
	return types, ready == 3
}

// TestOpenKruiseGetsNoConditions: OpenKruise writes none and keeps those that it finds. Tools would read the last ones of Everynode for ever: a set would be Ready in the middle of every rollout.
func TestOpenKruiseGetsNoConditions(t *testing.T) {
	c := converting(t, world(t, fakecluster.Object(t, conditioned)))
	c.Session(t, command.Root, "adopt", "adopt --back --dry-run", "adopt --back --dry-run=client")
	if types, _ := conditionsOf(t, c); len(types) != 8 {
		t.Fatalf("before, and after a dry run, the set has %q", types)
	}
	out := c.Session(t, command.Root, "adopt --back")
	if types, rest := conditionsOf(t, c); !slices.Equal(types, []string{"Mine"}) || !rest {
		t.Errorf("the set has %q", types)
	}
	if !strings.Contains(out, "conditions of 1 Advanced DaemonSet removed") {
		t.Errorf("it says\n%s", brief(out))
	}
}

// TestConditionsDoNotBlockTheWayBack: without the right to write them, everything else is put back.
func TestConditionsDoNotBlockTheWayBack(t *testing.T) {
	c := converting(t, world(t, fakecluster.Object(t, conditioned)))
	c.Dynamic.PrependReactor("patch", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not allowed")
	})
	before := state(t, c)
	out := c.Session(t, command.Root, "adopt", "adopt --back")
	if after := state(t, c); len(after) != len(before) || after["kept"] != 0 || !strings.Contains(out, "could not be removed") || !strings.Contains(out, "not allowed") {
		t.Errorf("it says\n%s", brief(out))
	}
}
