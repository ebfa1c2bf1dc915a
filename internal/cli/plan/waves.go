// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// released reports whether any node has a wave; if none has, there is no rollout.
func (g *governor) released() bool {
	return slices.ContainsFunc(g.places, func(k int) bool { return k >= 0 })
}

// lastEnd returns when the last wave that has nodes ends; 0 if a wave does not end, or if that one has no soak.
func (g *governor) lastEnd() time.Duration {
	if g == nil || len(g.in.Policies) != 1 || !g.released() {
		return 0
	}
	last := slices.Max(g.places)
	for k := range last {
		if g.waves[k].passed == 0 && slices.Contains(g.places, k) {
			return 0
		}
	}
	if g.in.Policies[0].Waves[last].Soak == 0 || g.waves[last].passed == 0 {
		return 0
	}
	return g.waves[last].passed.Sub(g.begin)
}

// divide numbers the batches so that none has nodes of two waves: the batches of each wave follow those of the wave before it.
func (g *governor) divide(r plan.Result) {
	if g.places == nil {
		return
	}
	var updates []int
	for i := range r.Nodes {
		if r.Nodes[i].Update {
			updates = append(updates, i)
		}
	}
	wave := func(i int) int { return cmp.Or(g.places[i]+1, len(g.waves)+1) } // nodes without a wave are updated last
	slices.SortFunc(updates, func(a, b int) int {
		return cmp.Or(cmp.Compare(wave(a), wave(b)), cmp.Compare(r.Nodes[a].Place, r.Nodes[b].Place))
	})
	batch, nodes := 0, 0
	for at, i := range updates {
		if at == 0 || wave(i) != wave(updates[at-1]) || nodes == max(r.Limit, 1) {
			batch, nodes = batch+1, 0
		}
		r.Nodes[i].Wave = batch
		nodes++
	}
}

// isEmpty reports whether a wave of the specification has no node.
func (g *governor) isEmpty(k int) bool {
	return k < len(g.in.Policies[0].Waves)-1 && !slices.Contains(g.places, k)
}

// warnWaves warns about waves that have no node, or that take their nodes in another way than it seems.
func (f *prediction) warnWaves() []Warning {
	g := f.governor
	if g == nil || len(g.in.Policies) != 1 || !g.released() {
		return nil
	}
	var all []Warning
	for k := range g.in.Policies[0].Waves {
		if g.isEmpty(k) && !g.stallsAt(k) {
			all = append(all, Warning{Kind: warnPolicy, Message: g.emptyText(k)})
		}
		for i, key := range g.unknownLabels(k) {
			all = append(all, Warning{Kind: warnPolicy, Message: fmt.Sprintf("spec.waves[%d].nodes.spreadBy[%d] of rolloutpolicy/%s: no node that the wave %s can take has the label %s, "+
				"so the label spreads nothing: label nodes, or correct the key", k, i, g.in.Policies[0].Name, g.in.Policies[0].Waves[k].Name, key)})
		}
	}
	return all
}

// stallsAt reports whether the rollout stops before a wave, which the policy itself shows.
func (g *governor) stallsAt(k int) bool {
	return g.last != nil && g.last.Phase == v1alpha1.PhaseStalled && g.last.Wave == g.in.Policies[0].Waves[k].Name
}

// emptyText says what a wave without nodes does.
func (g *governor) emptyText(k int) string {
	p := g.in.Policies[0]
	w, field := &p.Waves[k], fmt.Sprintf("spec.waves[%d].nodes", k)
	if w.Selector != nil && len(g.members(w)) == 0 {
		return fmt.Sprintf("%s.selector of rolloutpolicy/%s selects no node of the set, so the rollout stops before the wave %s: label nodes, or change the selector", field, p.Name, w.Name)
	}
	text := fmt.Sprintf("the wave %s of rolloutpolicy/%s has no node, so it observes nothing", w.Name, p.Name)
	if w.Soak > 0 {
		text += fmt.Sprintf("; its soak of %s is skipped", w.Soak)
	}
	if w.Approval {
		text += "; its approval is still needed"
	}
	if w.Percent > 0 {
		return text + fmt.Sprintf(": raise %s.percent, which includes the nodes of earlier waves, or remove the wave", field)
	}
	return text + fmt.Sprintf(": earlier waves take all its nodes, so change %s, or remove the wave", field)
}

// unknownLabels returns the keys by which a wave spreads its nodes and that no node has, with their indexes.
func (g *governor) unknownLabels(k int) iter.Seq2[int, string] {
	w := &g.in.Policies[0].Waves[k]
	return func(yield func(int, string) bool) {
		if len(w.SpreadBy) == 0 {
			return
		}
		members := g.members(w)
		for i, key := range w.SpreadBy {
			if has := func(of labels.Set) bool { return of.Has(key) }; len(members) > 0 && !slices.ContainsFunc(members, has) && !yield(i, key) {
				return
			}
		}
	}
}

// members returns the labels of the nodes of the set that a wave selects.
func (g *governor) members(w *policy.Wave) []labels.Set {
	var all []labels.Set
	for i := range g.in.Snapshot.Nodes {
		n, of := &g.in.Snapshot.Nodes[i], labels.Set(g.in.Labels[i])
		if n.Fit == rollout.MustRun && !n.Gone && (w.Selector == nil || w.Selector.Matches(of)) {
			all = append(all, of)
		}
	}
	return all
}
