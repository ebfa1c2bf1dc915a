// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unique"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect"
)

// TestNodesWithAnAgent: a pod counts while it is ready, and only one of a daemon set in the namespace of the agents.
func TestNodesWithAnAgent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Pod)
		want   string
	}{
		"ready":                     {func(*Pod) {}, "a"},
		"not ready":                 {func(p *Pod) { p.Ready = false }, ""},
		"on its way out":            {func(p *Pod) { p.Deleting = true }, ""},
		"without a node":            {func(p *Pod) { p.Node = "" }, ""},
		"without a controller":      {func(p *Pod) { p.Owner = "" }, ""},
		"of another app":            {func(p *Pod) { p.Labels = map[string]string{everynode.AgentLabel: "other"} }, ""},
		"of a tenant":               {func(p *Pod) { p.Namespace = "evil" }, ""},
		"on a node that is missing": {func(p *Pod) { p.Node = "b" }, "b"},
	} {
		for _, before := range []bool{false, true} { // whether it was an agent before
			f := newFixture(t)
			f.node("a")
			p := pod("agent-1", "a", "agents")
			p.Namespace, p.Labels, p.Ready = everynode.AgentNamespace, map[string]string{everynode.AgentLabel: everynode.AgentName}, true
			if before {
				f.put(p)
				f.wantAgents("a")
			}
			if c.change(&p); before && (p.Owner == "" || p.Namespace != everynode.AgentNamespace) {
				continue // a pod never changes that
			}
			f.put(p)
			f.wantAgents(c.want)
			f.x.DeletePod(p.UID, f.next())
			if f.wantAgents(""); t.Failed() {
				t.Fatalf("%s, an agent before: %t", name, before)
			}
		}
	}
}

func (f *fixture) wantAgents(want string) {
	f.t.Helper()
	if got := strings.Join(slices.Sorted(maps.Keys(f.x.Agents())), " "); got != want {
		f.t.Errorf("agents are on %q, want %q", got, want)
	}
}

// TestTwoAgentsOfANode: while one replaces the other, the node keeps counting until the last has gone.
func TestTwoAgentsOfANode(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	for _, name := range []string{"agent-1", "agent-2"} {
		p := pod(name, "a", "agents")
		p.Namespace, p.Labels, p.Ready = everynode.AgentNamespace, map[string]string{everynode.AgentLabel: everynode.AgentName}, true
		f.put(p)
	}
	f.x.DeletePod("agent-1", f.next())
	f.wantAgents("a")
	f.x.ReplacePods(nil, f.next())
	f.wantAgents("")
}

// TestPullSecretsOfPods are those of all pods of the set that stay, each once.
func TestPullSecretsOfPods(t *testing.T) {
	f := newFixture(t)
	f.node("a")
	f.node("b")
	key := f.set("ds")
	for i, names := range []string{"", "s", "t,s", "u", ",,"} {
		p := pod(fmt.Sprint("p", i), "a", "ds")
		if p.Facts = (&dialect.PodFacts{}); names != "" {
			p.Facts.PullSecrets = unique.Make(names)
		}
		p.Deleting = names == "u"
		f.put(p)
	}
	if got := f.x.PullSecrets(key); !slices.Equal(got, []string{"s", "t"}) {
		t.Errorf("got %q", got)
	}
	if got := f.x.PullSecrets(Key{Name: "other"}); len(got) > 0 {
		t.Errorf("another set has %q", got)
	}

	// A pod of another manager has many: the jobs and NodeImages into which the names are copied stay small, and those of the other pods are among them.
	many := pod("many", "b", "ds")
	many.Facts = &dialect.PodFacts{PullSecrets: unique.Make("a" + strings.Repeat(",a", 4) + ",b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r")}
	f.put(many)
	more := pod("more", "a", "ds")
	more.Facts = &dialect.PodFacts{PullSecrets: unique.Make("t,s")}
	f.put(more)
	if got := f.x.PullSecrets(key); len(got) != 16 || !slices.Contains(got, "s") || !slices.Contains(got, "t") {
		t.Errorf("got %q, want 16 names, with s and t", got)
	}
}
