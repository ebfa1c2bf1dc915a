// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A pod on a node that is cut off is deleted like any other, and it is told that this waits for the node. A node that says itself that it is not
// ready is not one of these, nor is one that is not there.
func TestUpgradeOnNodesThatAreCutOff(t *testing.T) {
	edge := set(t, "apps/v1", "edge", "OnDelete")
	world := func(nodes int, cut ...int) []runtime.Object {
		objects := []runtime.Object{edge}
		for i := range nodes {
			node := fakecluster.Node(fmt.Sprintf("n%02d", i), true)
			for _, c := range cut {
				if c == i {
					node = fakecluster.Node(node.Name, false)
				}
			}
			objects = append(objects, node, pod(edge, node.Name, "old", "PodNeedUpgrade=True::new"))
		}
		return objects
	}
	unwell := fakecluster.Node("n02", false)
	unwell.Status.Conditions[0].Status = corev1.ConditionFalse
	for name, c := range map[string]struct {
		objects []runtime.Object
		line    string
		refused string // what may not be done with nodes
		want    string // the nodes that are named
	}{
		"one":                    {world(3, 1), "n01", "", "n01"},
		"one, and it is tried":   {world(3, 1), "n01 --dry-run", "", "n01"},
		"another one":            {world(3, 1), "n00 n02", "", ""},
		"two of all":             {world(3, 0, 2), "--all", "", "n00, n02"},
		"one that is unwell":     {append(world(2), unwell, pod(edge, "n02", "old", "PodNeedUpgrade=True::new")), "--all", "", ""},
		"one that is not there":  {append(world(1), pod(edge, "n01", "old", "PodNeedUpgrade=True::new")), "--all", "", ""},
		"one of many":            {world(30, 29), "--all", "", "n29"},
		"more than are named":    {world(30, 7, 6, 5, 4, 3, 2), "--all", "", "n02, n03, n04, n05 and 2 more"},
		"one that is not listed": {world(30, 29), "--all", "list", ""},
		"one that is not read":   {world(3, 1), "n01", "get", ""},
		"many, and one is meant": {world(30, 1, 2), "n01", "list", "n01"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fakecluster.New(t, c.objects...)
			if c.refused != "" {
				cluster.Kubernetes.PrependReactor(c.refused, "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(corev1.Resource("nodes"), "", nil)
				})
			}
			if err := cluster.Run(t, command.Root, strings.Fields("ota upgrade "+c.line)...); err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.want != "" {
				want = "Note: not reachable: " + c.want + ": the old pod keeps running there, and is upgraded only after the node is back\n"
			}
			if got := cluster.Err.String(); got != want {
				t.Errorf("it notes %q, want %q", got, want)
			}
			if !strings.Contains(cluster.Out.String(), " deleted, to be upgraded to new") {
				t.Errorf("it says %q", cluster.Out)
			}
		})
	}
}

// Where all pods say whether there is a newer version, revisions need not be read, nor the right to be there.
func TestPodsThatSayItNeedNoRevisions(t *testing.T) {
	announced := set(t, "apps/v1", "edge", "OnDelete")
	announced.SetAnnotations(map[string]string{"apps.openyurt.io/update-strategy": "OTA"})
	for name, c := range map[string]struct {
		words []string
		fails bool
	}{"all say it": {words: []string{"PodNeedUpgrade=True::new"}}, "one says nothing": {fails: true}} {
		cluster := fakecluster.New(t, announced.DeepCopy(), pod(announced, "n1", "old", c.words...))
		cluster.Kubernetes.PrependReactor("list", "controllerrevisions", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("controllerrevisions"), "", nil)
		})
		if err := cluster.Run(t, command.Root, "ota", "list"); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
