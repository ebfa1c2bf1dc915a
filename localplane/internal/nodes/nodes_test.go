// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"everynode.dev/everynode/localplane/simkubelet"
)

func TestAddContinuesTheNumbers(t *testing.T) {
	client := fake.NewClientset(
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0007"}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-x"}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-9999"}},
	)
	names, err := Add(t.Context(), client, 3, "v1.2.3")
	if err != nil || !slices.Equal(names, []string{"node-0008", "node-0009", "node-0010"}) {
		t.Fatalf("added %v, error %v", names, err)
	}
	if _, err := Add(t.Context(), client, Max, "v1.2.3"); err == nil {
		t.Error("more nodes than there are addresses for were added")
	}
}

func TestNodesAreSpreadAndDistinct(t *testing.T) {
	zonesSeen, addresses := map[string]int{}, map[string]bool{}
	for n := 1; n <= 600; n++ {
		node := New(n, "v1.2.3")
		zonesSeen[node.Labels[v1.LabelTopologyZone]]++
		addresses[node.Status.Addresses[0].Address] = true
		if !simkubelet.Connected(node) || node.Labels[v1.LabelHostname] != node.Name {
			t.Fatalf("node %+v", node.ObjectMeta)
		}
	}
	if len(zonesSeen) != 3 || zonesSeen["zone-1"] != 200 {
		t.Errorf("zones %v", zonesSeen)
	}
	if len(addresses) != 600 {
		t.Errorf("%d addresses for 600 nodes", len(addresses))
	}
	if last := New(Max, "v").Status.Addresses[0].Address; last != "198.19.255.254" {
		t.Errorf("the last node's address is %s", last)
	}
}

func TestCutHealAndCount(t *testing.T) {
	client := fake.NewClientset()
	names, err := Add(t.Context(), client, 3, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	ready, err := client.CoreV1().Nodes().Get(t.Context(), names[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), ready, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := SetConnected(t.Context(), client, names[1], false); err != nil {
		t.Fatal(err)
	}
	check := func(ready, notReady, cut int) {
		t.Helper()
		count, err := Count(t.Context(), client, noneCut)
		if err != nil || count.Ready != ready || count.NotReady != notReady || count.Cut != cut {
			t.Errorf("count %+v, error %v", count, err)
		}
	}
	check(1, 1, 1)
	unsettled := func(want int) {
		t.Helper()
		if count, err := Count(t.Context(), client, noneCut); err != nil || count.Unsettled != want {
			t.Errorf("%d nodes are unsettled, want %d; error %v", count.Unsettled, want, err)
		}
	}
	unsettled(1)
	ready.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}}
	if _, err := client.CoreV1().Nodes().Update(t.Context(), ready, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	unsettled(2)
	if err := SetConnected(t.Context(), client, names[1], true); err != nil {
		t.Fatal(err)
	}
	check(1, 2, 0)
	if err := Remove(t.Context(), client, names[1]); err != nil {
		t.Fatal(err)
	}
	check(1, 1, 0)
	for verb, err := range map[string]error{
		"removing": Remove(t.Context(), client, "node-9"),
		"cutting":  SetConnected(t.Context(), client, "node-9", false),
		"healing":  SetConnected(t.Context(), client, "node-9", true),
	} {
		if err == nil || !strings.Contains(err.Error(), verb+" node node-9") || !strings.Contains(err.Error(), "get nodes") {
			t.Errorf("%s: error %v names neither the node nor the remedy", verb, err)
		}
	}
}

func noneCut(string) bool { return false }

func TestRealNodesAreCountedApart(t *testing.T) {
	ready := []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	labels := map[string]string{RealLabel: "true"}
	client := fake.NewClientset(
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real-1", Labels: labels}, Status: v1.NodeStatus{Conditions: ready}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real-2", Labels: labels}, Status: v1.NodeStatus{Conditions: ready}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real-3", Labels: labels}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0001"}},
	)
	count, err := Count(t.Context(), client, func(name string) bool { return name == "real-2" })
	if err != nil {
		t.Fatal(err)
	}
	if count.Ready != 1 || count.NotReady != 1 || count.Cut != 2 || count.Simulated != 1 || len(count.Real) != 3 || count.UnsettledReal != 1 {
		t.Errorf("count %+v: one is Ready, one is not, one real and one simulated node are cut", count)
	}
}
