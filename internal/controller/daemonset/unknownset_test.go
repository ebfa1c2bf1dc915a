// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/policy"
)

// departing are policies of which those for a set that has left select nothing.
type departing struct {
	*grouped
	left bool
}

func (d *departing) Of(set policy.Set) Governance {
	if d.left && set.Name == "set-0" {
		return Governance{}
	}
	return d.grouped.Of(set)
}

func (d *departing) Grouped(namespace string) []*policy.Policy {
	return slices.DeleteFunc(d.grouped.Grouped(namespace), func(p *policy.Policy) bool { return d.left && p.Name == "set-0" })
}

// TestASetThatIsNeverDecidedAbout: the other sets of the group wait for it, and go on when it is gone, or belongs to the group no more.
func TestASetThatIsNeverDecidedAbout(t *testing.T) {
	const nodes = 3
	key := clustercache.Key{Dialect: "native", Namespace: "ns", Name: "set-0"}
	invalid := func(g *grouped) {
		_ = unstructured.SetNestedMap(g.sets["set-0"].Object, map[string]any{}, "spec", "selector")
		g.see("set-0")
	}
	blocked := key
	blocked.Dialect = "other"
	for name, c := range map[string]struct {
		begin func(g *grouped)
		end   func(d *departing)
	}{
		"is invalid and deleted": {invalid, func(d *departing) { d.index.DeleteSet(key) }},
		"is invalid and leaves": {invalid, func(d *departing) {
			d.mu.Lock()
			d.left = true
			d.mu.Unlock()
			d.c.Enqueue(key)
		}},
		"is another controller's and deleted": {func(g *grouped) {
			other := g.c.Options.Dialects[0]
			other.Source.Dialect, other.MayWrite = blocked.Dialect, func() bool { return false }
			g.c.dialects[blocked.Dialect] = &other
			g.index.DeleteSet(key)
			digest := native.Digest(g.sets["set-0"].Object)
			g.index.PutSet(blocked, &digest)
		}, func(d *departing) { d.index.DeleteSet(blocked) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &departing{grouped: newGrouped(t, 2, nodes, v1alpha1.ScopeNode)}
				c.begin(d.grouped)
				d.c.Policies = d
				d.run(func() {
					d.until("img:v1", nodes)
					time.Sleep(10 * time.Second)
					d.edit("set-1", "img:v2")
					time.Sleep(time.Minute)
					d.mu.Lock()
					st := d.status["set-1"]
					if len(st.Blocking) != 1 || !strings.Contains(st.Blocking[0].Message, "set-0") {
						t.Errorf("set-1 does not wait: %+v", st)
					}
					d.mu.Unlock()
					c.end(d)
					d.until("img:v2", nodes)
				})
			})
		})
	}
}
