// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// together are sets of one group on the same nodes. It is judged by what is done to the pods, and not by what is recorded of the sets.
type together struct {
	random *rand.Rand
	scope  policy.Scope
	ledger policy.Ledger
	sets   []*member
	zones  map[string]string
	log    []string
}

// member is one of these sets.
type member struct {
	*world
	policy.Candidate
	// busy are nodes on which an update has begun, and the pod has not been ready since.
	busy map[string]bool
	// stuck are nodes on which pods of the wanted revision do not become ready.
	stuck map[string]bool
}

func newTogether(t *testing.T, seed int64) *together {
	g := &together{random: rand.New(rand.NewSource(seed)), zones: map[string]string{}}
	g.scope = policy.Scope(g.random.Intn(3))
	for i, name := range strings.Split("abcdefghij", "") {
		g.zones[name] = fmt.Sprintf("zone%d", i/4)
	}
	for i := range 2 + g.random.Intn(2) {
		spec := []string{"", "waves: [{name: canary, nodes: {count: 2}, soak: 3s}]", "pace: {maxUpgrading: 2}"}[g.random.Intn(3)]
		m := &member{world: newWorld(t, spec), busy: map[string]bool{}, stuck: map[string]bool{}}
		m.Candidate = policy.Candidate{Set: policy.Set{Namespace: "default", Name: fmt.Sprintf("set%d", i)}, Created: rollout.Time(g.random.Intn(3))}
		for name, zone := range g.zones {
			m.labels[name] = map[string]string{"topology.kubernetes.io/zone": zone}
		}
		m.s.Set.MaxUnavailable = rollout.Quantity{Value: 1 + g.random.Intn(3)}
		switch g.random.Intn(3) {
		case 0:
			m.s.Set.MaxSurge, m.s.Set.MaxUnavailable = rollout.Quantity{Value: 2}, rollout.Quantity{}
		case 1:
			m.s.Set.InPlace = true
		}
		m.change(0)
		g.sets = append(g.sets, m)
	}
	return g
}

// change makes a revision the one that the template describes; 0 makes the committed one a new start.
func (m *member) change(update int) {
	m.s.Set.Update = update
	for i := range m.s.Revisions {
		m.s.Revisions[i].InPlace = m.s.Set.InPlace && i != update
	}
}

// place is the place of a node.
func (g *together) place(node string) string {
	return map[policy.Scope]string{policy.ScopeNode: node, policy.ScopeZone: g.zones[node], policy.ScopeCluster: ""}[g.scope]
}

// decide lets a set decide and carries its plan out. It returns what was wrong.
func (g *together) decide(m *member, took time.Duration) string {
	var all []policy.Candidate
	for _, o := range g.sets {
		all = append(all, o.Candidate)
	}
	m.neighbours = g.ledger.See(m.Candidate, policy.Group{Name: "network", Scope: g.scope}, all)
	m.pass(took)
	m.s.Gate = m.out.Gate
	plan := rollout.Decide(m.s)
	m.s.Gate = nil
	in := &policy.Input{Snapshot: &m.s, Neighbours: m.neighbours}
	for i := range m.s.Nodes {
		in.Labels = append(in.Labels, m.labels[m.s.Nodes[i].Name])
	}
	m.out.Begin(in, &plan)
	waits, held := in.Waits(&plan)
	g.ledger.Record(m.Set, policy.LedgerEntry{Group: m.neighbours.Group.Name, UnderWay: m.out.UnderWay, Down: m.out.Down, Waits: waits, Held: held})
	for i := range plan.Actions {
		if wrong := g.carryOut(m, &plan.Actions[i]); wrong != "" {
			return wrong
		}
	}
	m.observe()
	return ""
}

// carryOut does what an action asks for, and judges it.
func (g *together) carryOut(m *member, a *rollout.Action) string {
	n := &m.s.Nodes[a.Node]
	switch a.Reason {
	case rollout.Recreating, rollout.Surging, rollout.UpdatingInPlace:
		for _, o := range g.sets {
			for busy := range o.busy {
				if o != m && g.place(busy) == g.place(n.Name) && !m.down(n) {
					return fmt.Sprintf("%s starts on %s, while %s is at work on %s", m.Set.Name, n.Name, o.Set.Name, busy)
				}
			}
		}
		m.busy[n.Name] = true
		g.log = append(g.log, fmt.Sprintf("%s starts on %s", m.Set.Name, n.Name))
	}
	pod := slices.IndexFunc(n.Pods, func(p rollout.Pod) bool { return p.Name == a.Pod })
	switch a.Kind {
	case rollout.Create:
		n.Pods = append(n.Pods, rollout.Pod{
			Name: fmt.Sprint(n.Name, m.s.Now, len(g.log)), UID: fmt.Sprint(n.Name, m.s.Now, len(g.log)), Revision: a.Revision, Phase: rollout.Running, Scheduled: true,
			Gate: true, Created: m.s.Now, ReadySince: m.s.Now,
		})
	case rollout.Delete:
		n.Pods[pod].Deleting, n.Pods[pod].DeletedAt = true, m.s.Now
		if n.Last = n.Pods[pod].Revision; a.Reason == rollout.Recreating {
			n.Last = m.s.Set.Update
		}
	case rollout.Mark:
		n.Pods[pod].InPlace, n.Pods[pod].Ready = rollout.InPlaceMarked, false
	case rollout.Patch:
		n.Pods[pod].Open = n.Pods[pod].InPlace == rollout.InPlaceNone
		n.Pods[pod].InPlace, n.Pods[pod].Ready, n.Pods[pod].Revision = rollout.InPlacePatched, false, a.Revision
	case rollout.Unmark:
		n.Pods[pod].InPlace, n.Pods[pod].Ready, n.Pods[pod].ReadySince = rollout.InPlaceNone, !m.stuck[n.Name], m.s.Now
	}
	return ""
}

// down is whether a node has no pod that serves, because of an update of this set.
func (m *member) down(n *rollout.Node) bool {
	serves := func(p rollout.Pod) bool { return !p.Deleting && p.Ready && p.InPlace == rollout.InPlaceNone }
	updated := func(p rollout.Pod) bool { return m.marks[p.Revision] == 0 || m.marks[p.Revision] < slices.Max(m.marks) }
	return !slices.ContainsFunc(n.Pods, serves) && slices.ContainsFunc(n.Pods, updated)
}

// progress is what the nodes do with the pods of a set.
func (g *together) progress(m *member) {
	for i := range m.s.Nodes {
		n := &m.s.Nodes[i]
		if g.random.Intn(2) == 0 {
			continue
		}
		n.Pods = slices.DeleteFunc(n.Pods, func(p rollout.Pod) bool { return p.Deleting })
		for k := range n.Pods {
			p := &n.Pods[k]
			p.Gate = true
			switch {
			case p.InPlace == rollout.InPlacePatched:
				p.Arrive()
			case p.InPlace == rollout.InPlaceNone && !p.Ready && !(m.stuck[n.Name] && p.Revision == m.s.Set.Update):
				p.Ready, p.ReadySince = true, m.s.Now
			}
		}
	}
	m.observe()
}

// observe finds out on which nodes an update has ended.
func (m *member) observe() {
	for i := range m.s.Nodes {
		live := slices.DeleteFunc(slices.Clone(m.s.Nodes[i].Pods), func(p rollout.Pod) bool { return p.Deleting })
		if len(live) == 1 && live[0].Ready && live[0].InPlace == rollout.InPlaceNone {
			delete(m.busy, m.s.Nodes[i].Name)
		}
	}
}

// happen makes something happen.
func (g *together) happen() {
	note := func(format string, args ...any) { g.log = append(g.log, fmt.Sprintf(format, args...)) }
	m := g.sets[g.random.Intn(len(g.sets))]
	n := &m.s.Nodes[g.random.Intn(len(m.s.Nodes))]
	switch g.random.Intn(20) {
	case 0:
		g.ledger = policy.Ledger{}
		for _, o := range g.sets {
			o.restored = true
			if g.random.Intn(3) == 0 {
				o.last = nil
			}
		}
		note("another leader")
	case 1, 2:
		if len(m.s.Revisions) < 6 {
			m.s.Revisions = append(m.s.Revisions, rollout.Revision{Name: fmt.Sprintf("v%d", len(m.s.Revisions)+1), Number: int64(100 + len(g.log)), Created: m.s.Now})
			m.marks = append(m.marks, 0)
			m.change(len(m.s.Revisions) - 1)
			note("the template of %s changes", m.Set.Name)
		}
	case 3:
		m.change(slices.Index(m.marks, slices.Max(m.marks)))
		note("the template of %s is the committed one again", m.Set.Name)
	case 4:
		m.stuck[n.Name] = true
		note("pods of %s do not start on %s", m.Set.Name, n.Name)
	case 5:
		clear(m.stuck)
	case 6:
		if !m.busy[n.Name] && len(n.Pods) == 1 && n.Pods[0].InPlace == rollout.InPlaceNone {
			n.Pods[0].Ready = false
			note("the pod of %s on %s fails", m.Set.Name, n.Name)
		}
	}
}

// TestSetsOfAGroupTakeTurns: whatever happens in which order, no set starts where another one is at work, and all end.
func TestSetsOfAGroupTakeTurns(t *testing.T) {
	for seed := range int64(120) {
		g := newTogether(t, seed)
		for step := range 200 {
			g.happen()
			m := g.sets[g.random.Intn(len(g.sets))]
			g.progress(m)
			if wrong := g.decide(m, time.Duration(g.random.Intn(2000))*time.Millisecond); wrong != "" {
				t.Fatalf("seed %d, step %d: %s\n%s", seed, step, wrong, strings.Join(g.log[max(0, len(g.log)-30):], "\n"))
			}
		}
		for _, m := range g.sets {
			clear(m.stuck)
		}
		for range 400 {
			for _, m := range g.sets {
				g.progress(m)
				if wrong := g.decide(m, time.Second); wrong != "" {
					t.Fatalf("seed %d, at the end: %s\n%s", seed, wrong, strings.Join(g.log[max(0, len(g.log)-30):], "\n"))
				}
			}
		}
		for _, m := range g.sets {
			if m.out.Status.Phase != v1alpha1.PhaseComplete {
				t.Fatalf("seed %d: %s does not end: %+v\n%s", seed, m.Set.Name, m.out.Status, m.verdicts())
			}
		}
	}
}

// TestOneOfTwoStarts: of two sets that decide one after the other without anything in between, the second sees what the first has begun.
func TestOneOfTwoStarts(t *testing.T) {
	for scope := range policy.ScopeCluster + 1 {
		g := newTogether(t, 1)
		g.scope = scope
		for _, m := range g.sets {
			m.s.Set.MaxSurge, m.s.Set.MaxUnavailable, m.s.Set.InPlace = rollout.Quantity{}, rollout.Quantity{Value: 10}, false
			m.policies = []*policy.Policy{read(t, "")}
			g.decide(m, 0)
		}
		for _, m := range g.sets {
			m.change(1)
			if wrong := g.decide(m, 0); wrong != "" {
				t.Error(wrong)
			}
		}
		if a, b := len(g.sets[0].busy), len(g.sets[1].busy); a != 10 || b != 0 {
			t.Errorf("scope %d: %d and %d nodes have begun", scope, a, b)
		}
	}
}
