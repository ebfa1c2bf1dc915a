// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/dialect"
)

// TestWhatPlacesASet: only what placement reads makes a new generation another one for it.
func TestWhatPlacesASet(t *testing.T) {
	f := newFixture(t)
	base := func() map[string]any {
		return map[string]any{
			"nodeSelector": map[string]any{"role": "edge"}, "tolerations": []any{map[string]any{"key": "a", "operator": "Exists"}},
			"affinity": map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
				"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "k", "operator": "Exists"}}}},
			}}},
		}
	}
	was := f.workload("ds", 1, base())
	for name, c := range map[string]struct {
		same   bool
		change func(spec map[string]any)
	}{
		"nothing":          {true, func(map[string]any) {}},
		"the image":        {true, func(s map[string]any) { s["containers"] = []any{map[string]any{"image": "v2"}} }},
		"the selector":     {false, func(s map[string]any) { s["nodeSelector"] = map[string]any{"role": "core"} }},
		"the affinity":     {false, func(s map[string]any) { delete(s, "affinity") }},
		"the tolerations":  {false, func(s map[string]any) { delete(s, "tolerations") }},
		"the host network": {false, func(s map[string]any) { s["hostNetwork"] = true }},
		"the node":         {false, func(s map[string]any) { s["nodeName"] = "a" }},
	} {
		spec := base()
		c.change(spec)
		if got := samePlaces(was, f.workload("ds", 2, spec)); got != c.same {
			t.Errorf("%s has changed: same %t, want %t", name, got, c.same)
		}
	}
	selecting := func(w *dialect.Workload, selector string) *dialect.Workload {
		w.NodeSelector, _ = labels.Parse(selector)
		return w
	}
	one := selecting(f.workload("ds", 1, base()), "a=b")
	if samePlaces(was, one) || samePlaces(one, selecting(f.workload("ds", 2, base()), "a=c")) || !samePlaces(one, selecting(f.workload("ds", 2, base()), "a=b")) {
		t.Error("the nodes that an update may start on are not compared")
	}
	unread := f.workload("ds", 2, base())
	unread.Placement = nil
	if samePlaces(was, unread) || samePlaces(unread, was) {
		t.Error("a template that cannot be read counts as one that can")
	}
}

// probing is a selector of nodes that does something whenever it is asked.
type probing struct {
	labels.Selector
	asked func()
}

func (p probing) Matches(l labels.Labels) bool {
	p.asked()
	return p.Selector.Matches(l)
}

// TestNobodyWaitsForPlacement: while it is found out what a set makes of thousands of nodes, everybody else goes on; what becomes of a node
// meanwhile counts.
func TestNobodyWaitsForPlacement(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	f.node("b")
	wanted, _ := labels.Parse("zone=x")
	w, held, moved := f.workload("ds", 1, map[string]any{}), 0, false
	w.NodeSelector = probing{wanted, func() {
		if !f.x.mu.TryLock() {
			held++
			return
		}
		f.x.mu.Unlock()
		if !moved {
			moved = true
			f.x.PutNode(Node{Name: "a", RV: f.next(), Labels: map[string]string{"zone": "x"}})
			f.x.DeleteNode("b")
			f.x.PutNode(Node{Name: "c", RV: f.next(), Labels: map[string]string{"zone": "x"}})
		}
	}}
	key := Key{Dialect: "native", Namespace: "ns", Name: "ds"}
	f.x.PutSet(key, w)
	if held != 2 { // for the two that changed meanwhile
		t.Errorf("asked %d times while everybody waited", held)
	}
	for _, n := range f.snapshot(key).Nodes {
		if !n.Selected || n.Name == "b" {
			t.Errorf("node %s: selected %t", n.Name, n.Selected)
		}
	}
}
