// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// membership is which nodes leaders have seen in the waves of a rollout. Nodes vanish and people edit waves, and what ships keeps the places of nodes that have begun:
// so a node may begin with the earliest wave that it has ever been in, and a wave waits for the nodes that have always been in it.
type membership struct {
	earliest map[string]int
	always   map[string]map[string]bool
	// shrunk is whether a node has vanished.
	shrunk bool
	seen   map[string]bool
}

// wavesRuling is which waves are released, as of a decision.
type wavesRuling struct {
	waves  []v1alpha1.Wave
	places map[string]int
	// open is the number of waves that have passed, so also the one that is released.
	open int
	// shrunk is whether a node has vanished in the rollout.
	shrunk bool
}

// growthFactor is how many times larger each step of a growth is than the one before it.
const growthFactor = 2

// members are the nodes that must run a pod of the set, in the order in which waves take them: first those with a pod of the newest revision, and last those that joined after
// the rollout began.
func (k known) members(began time.Time) []*corev1.Node {
	var members []*corev1.Node
	for _, name := range sorted(k.nodes) {
		if k.fit(name) == mustRun {
			members = append(members, k.nodes[name])
		}
	}
	late := func(n *corev1.Node) metav1.Time {
		if !began.IsZero() && n.CreationTimestamp.After(began) {
			return n.CreationTimestamp
		}
		return metav1.Time{}
	}
	slices.SortStableFunc(members, func(a, b *corev1.Node) int {
		return cmp.Or(k.lacks(a)-k.lacks(b), late(a).Compare(late(b).Time))
	})
	return members
}

// lacks is 1 for a node without a pod of the newest revision, else 0.
func (k known) lacks(n *corev1.Node) int {
	if slices.ContainsFunc(k.on(n.Name), k.newest) {
		return 0
	}
	return 1
}

// spread sorts nodes so that the first one of each zone comes first, then the second one of each.
func spread(nodes []*corev1.Node, by string) {
	place, groups, seen := map[string][2]int{}, map[string]int{}, map[string]int{}
	for _, n := range nodes {
		zone := n.Labels[by]
		if _, known := groups[zone]; !known {
			groups[zone] = len(groups)
		}
		place[n.Name] = [2]int{seen[zone], groups[zone]}
		seen[zone]++
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int {
		x, y := place[a.Name], place[b.Name]
		return slices.Compare(x[:], y[:])
	})
}

// places gives each node its wave. A number of nodes takes them in the order of firstWave, a percentage includes the nodes of the waves before. The last wave has
// all others.
func (k known) places(waves []v1alpha1.Wave, began time.Time) map[string]int {
	members, places := k.members(began), map[string]int{}
	for i := range waves {
		w := &waves[i]
		number := len(members)
		switch {
		case w.Nodes.Count != nil:
			number = int(*w.Nodes.Count)
		case w.Nodes.Percent != nil:
			number = quantity(words("%d%%", *w.Nodes.Percent), len(members)) - len(places)
		default:
			for name := range k.nodes {
				if _, taken := places[name]; !taken && k.fit(name) != mustRun {
					places[name] = i // it is counted nowhere, and no wave after this one asks for numbers that it would change
				}
			}
		}
		free := slices.DeleteFunc(slices.Clone(members), func(n *corev1.Node) bool {
			_, taken := places[n.Name]
			return taken
		})
		if len(w.Nodes.SpreadBy) > 0 {
			spread(free, w.Nodes.SpreadBy[0])
			slices.SortStableFunc(free, func(a, b *corev1.Node) int { return k.lacks(a) - k.lacks(b) })
		}
		for _, n := range free[:max(min(number, len(free)), 0)] {
			places[n.Name] = i
		}
	}
	for name := range k.nodes {
		if _, taken := places[name]; !taken {
			places[name] = len(waves)
		}
	}
	return places
}

// laterWaves finds out which waves are released. A leader looks at each wave from the moment on in which the wave before it has passed.
func (s *sim) laterWaves(m *manager, p *v1alpha1.RolloutPolicy, target *appsv1.ControllerRevision, decided func(v1alpha1.Decision, string) bool, passed bool) *wavesRuling {
	k := m.known.known
	rollout := words("%s of %s in rollout %d of %s", p.UID, target.UID, target.Revision, k.set.GetUID())
	u := &wavesRuling{waves: p.Spec.Waves, places: k.places(p.Spec.Waves, m.startOf(p, target))}
	if s.memberships[rollout] == nil {
		s.memberships[rollout] = &membership{earliest: map[string]int{}, always: map[string]map[string]bool{}, seen: map[string]bool{}}
	}
	of := s.memberships[rollout]
	if m == s.lead {
		of.look(k, u)
	}
	u.shrunk = of.shrunk
	if passed {
		u.open = 1
	}
	for i := 1; i < len(p.Spec.Waves) && i == u.open; i++ {
		wave := &p.Spec.Waves[i]
		l := s.ledger(rollout + ", wave " + wave.Name)
		if m == s.lead && !l.passed {
			waited := maps.Clone(of.always[wave.Name])
			delete(waited, s.sick)
			l.lookLater(m, k.without(p, waited, len(u.at(i))), k.without(p, u.at(i), len(u.at(i))), wave, decided)
			l.passed = l.passed || decided(v1alpha1.Promote, wave.Name) && s.vanished(rollout, k, i)
		}
		if l.passed {
			u.open++
		}
	}
	for node := range u.places {
		if at, known := of.earliest[node]; known {
			u.places[node] = min(at, u.places[node])
		}
	}
	return u
}

// vanished is whether nodes of a wave have had a pod of the newest revision, and none of them is left: then the wave does not pass before a user promotes it.
func (s *sim) vanished(rollout string, k known, wave int) bool {
	gone := false
	of := s.memberships[rollout]
	if of == nil {
		return false
	}
	for node, at := range of.earliest {
		if at != wave || !s.had(node, imageOfSet(k.set)) {
			continue
		}
		if k.fit(node) == mustRun {
			return false
		}
		gone = true
	}
	return gone
}

// at are the nodes of a wave.
func (u *wavesRuling) at(wave int) map[string]bool {
	nodes := map[string]bool{}
	for node, at := range u.places {
		if at == wave {
			nodes[node] = true
		}
	}
	return nodes
}

func (o *membership) look(k known, u *wavesRuling) {
	for node, at := range u.places {
		was, known := o.earliest[node]
		if !known || at < was {
			o.earliest[node] = at
		}
		o.seen[node] = true
		o.shrunk = o.shrunk || known && at > was // a user has taken it out of a wave
	}
	for node := range o.seen {
		o.shrunk = o.shrunk || k.nodes[node] == nil || k.fit(node) != mustRun
	}
	for i := range u.waves {
		now := u.at(i)
		maps.DeleteFunc(now, func(node string, _ bool) bool { return k.fit(node) != mustRun })
		if was, known := o.always[u.waves[i].Name]; known {
			maps.DeleteFunc(now, func(node string, _ bool) bool { return !was[node] })
		}
		o.always[u.waves[i].Name] = now
	}
}

// lookLater is look for a wave that others precede. Analyses of such waves are not judged.
func (l *ledger) lookLater(m *manager, nodes, all map[string]bool, wave *v1alpha1.Wave, decided func(v1alpha1.Decision, string) bool) {
	s, k, last := m.s, m.known.known, *l
	l.at, l.by = s.w.now, m.name
	switch {
	case !k.complete(nodes) && !k.complete(all):
		l.soaked, l.by = 0, ""
		return
	case last.by == m.name:
		l.soaked += s.w.now.Sub(last.at)
	case s.skew == 0 && s.otherSkew == 0 && k.readied(nodes, last.at.Add(2*time.Second)):
		l.soaked = 0
	}
	l.end(nodes, wave, decided)
}

// waits is why a node may not begin; empty if it may.
func (u *wavesRuling) waits(node string) string {
	if u == nil || u.open == 0 || u.places[node] <= u.open {
		return ""
	}
	return words("the wave %s has not passed, and %s is in a later one", u.waves[u.open].Name, node)
}

// holds is waits, also because of the steps in which a wave grows.
func (u *wavesRuling) holds(k *knowledge, node string) string {
	if why := u.waits(node); why != "" || u == nil || u.shrunk || u.places[node] != u.open || u.open == len(u.waves) || u.waves[u.open].Growth == nil {
		return why
	}
	growth, all, done, begun := u.waves[u.open].Growth, 0, 0, map[string]bool{node: true}
	for name := range u.at(u.open) {
		if k.fit(name) != mustRun {
			continue
		}
		all++
		if isEdge(k.set) && !nodeReady(k.nodes[name]) || k.complete(map[string]bool{name: true}) {
			done++
		}
		if k.started[name] || slices.ContainsFunc(k.on(name), func(p *corev1.Pod) bool { return k.alive(p) && k.newest(p) }) {
			begun[name] = true
		}
	}
	step := max(quantity(amount(growth.Start.String()), all), 1)
	end := step
	for end < all && done >= end {
		step *= growthFactor
		end += step
	}
	if len(begun) > end {
		return words("%s of the wave %s have begun, and only %d may before the others are done", sorted(begun), u.waves[u.open].Name, end)
	}
	return ""
}
