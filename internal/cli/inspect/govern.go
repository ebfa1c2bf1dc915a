// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"sync"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/installed"
	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/rollout"
)

// Governance is the effect of the rollout policies on a set.
type Governance struct {
	Set policy.Set
	// Policies are those that apply to the set, and Approvals those of the namespace.
	Policies  []*policies.Policy
	Approvals []v1alpha1.RolloutApproval
	// Stored is the entry of the set in the status of the first policy, Now the entry that our own evaluation gives; both may be nil.
	Stored, Now *v1alpha1.SetStatus
	// Neighbours are the other sets of the concurrency group; nil without one.
	Neighbours *policy.Neighbours
	// ByKubernetes reports whether the controller of Kubernetes is known to keep the pods.
	ByKubernetes bool
	// Unread is why it is not known which policies apply; nil if it is known.
	Unread error
	// Waves contains the wave index of each node of the Snapshot, or -1 for a node without a wave; it is nil if no rollout is active.
	Waves []int
	// future computes Future; nil while a rollout is active.
	future func() []int
}

// governor reads policies, those of each namespace once.
type governor struct {
	c    *options.Clients
	note func(format string, args ...any)
	read map[string][]*policies.Policy
	// unread is why policies could not be read; nil if they could. Without their approvals they still apply.
	unread error
	// approved are the approvals of namespaces that were read.
	approved map[string][]v1alpha1.RolloutApproval
	// known are the sets of concurrency groups, by namespace.
	known map[string][]policy.Neighbour
	// fleet, if not nil, has all sets: then the sets of a concurrency group are not read again.
	fleet *Fleet
}

// of reads the policies of a set. Without the right to read them, there is a note, and the set is shown as if there were none.
func (g *governor) of(ctx context.Context, set *resolver.Set) Governance {
	out := Governance{Set: policies.SetOf(set)}
	out.ByKubernetes, _ = installed.KeptByKubernetes(set.Object)
	all, known := g.read[set.Namespace()]
	if !known {
		var err error
		if all, err = policies.List(ctx, g.c, set.Namespace()); err != nil && !errors.Is(err, policies.ErrMissing) {
			g.unread, all = err, nil
			g.note("it is not known whether rollout policies apply: %v", err)
		}
		if g.read == nil {
			g.read = map[string][]*policies.Policy{}
		}
		g.read[set.Namespace()] = all
	}
	for _, p := range all {
		if p.Rules.Selects(out.Set) {
			out.Policies = append(out.Policies, p)
		}
	}
	if len(out.Policies) == 0 {
		out.Unread = g.unread
		return out
	}
	out.Stored = out.Policies[0].Status(set)
	out.Approvals = g.approvals(ctx, set.Namespace())
	for _, p := range out.Policies {
		out.Approvals = p.Recall(out.Approvals)
	}
	return out
}

// approvals returns the approvals of a namespace, which are read once.
func (g *governor) approvals(ctx context.Context, namespace string) []v1alpha1.RolloutApproval {
	if all, known := g.approved[namespace]; known {
		return all
	}
	all, err := policies.Approvals(ctx, g.c, namespace)
	if err != nil {
		g.note("the approvals of the rollout cannot be read: %v", err)
	}
	if g.approved == nil {
		g.approved = map[string][]v1alpha1.RolloutApproval{}
	}
	g.approved[namespace] = all
	return all
}

// Govern applies the policies to a Snapshot, as the manager does, and stores the results. If the manager reports that they control nothing of a set that is rolled out, another
// controller does that, and they hold no node back. Nor do the marks that a policy has left on the revisions of such a set.
func (g *Governance) Govern(view *live.View) {
	if view.Snapshot.Set.Strategy == rollout.RollingUpdate && (g.unserved() || g.ByKubernetes && len(g.Policies) == 0) {
		return
	}
	g.Adopt(view)
	in := g.Input(view)
	if in == nil {
		return
	}
	out := policy.Decide(in)
	g.Now = out.Status
	if len(g.Policies) == 1 {
		if out.Status != nil && len(out.Status.Waves) > 0 {
			g.Waves = WavesOf(*in, g.Policies[0].Rules)
			if out.Status.Phase == v1alpha1.PhaseComplete {
				next, s, rules := *in, view.Snapshot, g.Policies[0].Rules
				next.Snapshot = &s
				g.future = sync.OnceValue(func() []int { return FutureWavesOf(next, rules) })
			}
		}
		g.Policies[0].Rules.Tighten(&view.Snapshot)
	}
	out.Enter(&view.Snapshot, view.Changes())
}

// Future returns the wave index of each node in the next rollout, if none is active now; nil otherwise. Only the picture of a set needs it, so it is computed when it is asked for.
func (g *Governance) Future() []int {
	if g.future == nil {
		return nil
	}
	return g.future()
}

// Adopt converts a set whose pods another controller manages into one that is updated by deletes, if the policy reports that a manager does this.
func (g *Governance) Adopt(view *live.View) {
	if g.Stored != nil && g.Stored.Enforcement == v1alpha1.EnforcementOnDelete {
		g.AdoptBy(view, g.Policies[0].Rules)
	}
}

// AdoptBy converts a set that is updated by deletes, as rules say. It does nothing with another set.
func (g *Governance) AdoptBy(view *live.View, rules *policy.Policy) {
	w := *view.Workload
	base.Alongside(&w)
	if w.ByPolicy == nil {
		return
	}
	view.Workload = policyinput.UpdatedByPolicy(&w, rules)
	policyinput.Respecify(&view.Snapshot, view.Workload)
	view.Workload.Set = view.Snapshot.Set
}

// Input returns the input of the decision about the policies; nil if there is nothing to decide.
func (g *Governance) Input(view *live.View) *policy.Input {
	in := &policy.Input{
		Snapshot: &view.Snapshot, Labels: view.Labels, Revisions: policyinput.Revisions(view.Workload, view.History, nil, policyinput.Digests(view.History)), ClaimsMore: policyinput.ClaimsMore(view.History), Set: g.Set, Approvals: g.Approvals,
		UID: view.Workload.UID, Generation: view.Workload.Generation, Last: g.Stored, Restored: true, Neighbours: g.Neighbours, Template: policy.Reported(g.Stored, view.Workload.TemplateOwners),
		ScheduledAlike: policyinput.ScheduledAlike(view.History), Fits: new(policyinput.Places).Fits(view.Workload, view.History, func() []clustercache.Node { return view.Nodes }),
	}
	for _, p := range g.Policies {
		in.Policies = append(in.Policies, p.Rules)
	}
	if len(in.Policies) == 0 && !policyinput.Committed(view.History) {
		return nil
	}
	return in
}

// WavesOf returns the wave of each node, -1 for none: the first one that releases it when all waves before it have passed, and nothing but the waves holds nodes.
func WavesOf(in policy.Input, p *policy.Policy) []int {
	bare := *p
	bare.Alerts = nil
	bare.Failure, bare.Suspend, bare.Windows, bare.Freezes, bare.TopologyKey, bare.MaxUpgrading, bare.MinTimeBetween = nil, false, nil, nil, "", nil, 0
	bare.Waves = make([]policy.Wave, len(p.Waves))
	for k := range p.Waves {
		bare.Waves[k] = p.Waves[k]
		bare.Waves[k].Start, bare.Waves[k].Soak, bare.Waves[k].Approval = nil, 0, true // so that no wave passes
		bare.Waves[k].Analysis = nil
	}
	target := in.Snapshot.Set.Update
	last := &v1alpha1.SetStatus{TargetNumber: in.Snapshot.Revisions[target].Number}
	if target < len(in.Revisions) {
		last.TargetRevision = in.Revisions[target].Name
	}
	if in.Last != nil {
		last.CommittedRevision, last.CommittedDigest = in.Last.CommittedRevision, in.Last.CommittedDigest
	}
	last.Waves = WavesBefore(&in, bare.Waves)
	for k := range last.Waves {
		last.Waves[k].Phase = v1alpha1.WavePending
	}
	in.Neighbours = nil
	in.Policies, in.Approvals, in.Last, in.Revisions = []*policy.Policy{&bare}, nil, last, slices.Clone(Marked(in))
	for i := range in.Revisions {
		in.Revisions[i].Failed = nil
	}
	found := make([]int, len(in.Snapshot.Nodes))
	for i := range found {
		found[i] = -1
	}
	for k := range bare.Waves {
		out := policy.Decide(&in)
		if out.Gate != nil && out.Status != nil && out.Status.Phase != v1alpha1.PhaseStalled {
			for i, kind := range out.Gate.Holds {
				n := &in.Snapshot.Nodes[i]
				if found[i] < 0 && kind == rollout.NotEvaluated && !n.Gone && (n.Fit == rollout.MustRun || n.Fit == rollout.MayStay) {
					found[i] = k
				}
			}
		}
		last.Waves[k].Phase = v1alpha1.WavePassed
	}
	return found
}

// future is the name of a revision that does not exist yet.
const future = "future"

// FutureWavesOf returns the wave of each node in a rollout of another revision that would begin now, -1 for none.
func FutureWavesOf(in policy.Input, p *policy.Policy) []int {
	s, next := *in.Snapshot, rollout.Revision{Name: future}
	for i := range s.Revisions {
		next.Number = max(next.Number, s.Revisions[i].Number+1)
	}
	s.Revisions = append(slices.Clone(s.Revisions), next)
	s.Set.Update = len(s.Revisions) - 1
	in.Snapshot, in.Generation = &s, in.Generation+1
	in.Revisions = append(slices.Clone(in.Revisions), policy.Revision{Name: future, Digest: future, Same: s.Set.Update})
	return WavesOf(in, p)
}

// WavesBefore returns for each wave what the last status has of the rollout that is decided about: the phase, and the nodes on which the update has begun, which keep
// their places, also those that are gone.
func WavesBefore(in *policy.Input, waves []policy.Wave) []v1alpha1.WaveStatus {
	same := in.Continues()
	all := make([]v1alpha1.WaveStatus, len(waves))
	for k := range waves {
		all[k] = v1alpha1.WaveStatus{Name: waves[k].Name, Phase: v1alpha1.WavePending}
		if !same {
			continue
		}
		if at := slices.IndexFunc(in.Last.Waves, func(w v1alpha1.WaveStatus) bool { return w.Name == all[k].Name }); at >= 0 {
			was := &in.Last.Waves[at]
			all[k].Phase, all[k].Begun, all[k].Gone, all[k].Domain = was.Phase, was.Begun, was.Gone, was.Domain
		}
	}
	return all
}

// Marked returns the revisions of an input, with the mark that the first decision would request: if no
// revision has a mark, or if the newest mark is not on the committed revision.
func Marked(in policy.Input) []policy.Revision {
	anyMark := slices.ContainsFunc(in.Revisions, func(r policy.Revision) bool { return r.Committed > 0 })
	out := policy.Decide(&in)
	if out.Commit < 0 || anyMark && out.Commit == in.Snapshot.Set.Update { // the rollout ends
		return in.Revisions
	}
	marked := append([]policy.Revision(nil), in.Revisions...)
	marked[out.Commit].Committed = out.CommitNumber
	return marked
}
