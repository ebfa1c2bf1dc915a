// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/controller/daemonset"
	rollouts "everynode.dev/everynode/internal/policy"
)

// ruler is what a manager knows of rollout policies. It stands in for the store of internal/controller/policies, which belongs to a process: what is
// reported is known to this manager at once, and is written some time later; a manager that dies has not written it.
type ruler struct {
	m         *manager
	policies  map[string]*v1alpha1.RolloutPolicy
	approvals map[string]*v1alpha1.RolloutApproval
	// reports are the statuses that are to be written, by the name of the policy, and judged are the approvals whose status is.
	reports map[string]report
	judged  map[string]v1alpha1.RolloutApproval
	// unstored are the states of approvals that this manager has given and has not read yet.
	unstored map[string]v1alpha1.RolloutApproval
}

// report is a status that is to be written, of the policy with that UID.
type report struct {
	status *v1alpha1.SetStatus
	of     types.UID
}

func (s *sim) newRuler(m *manager) *ruler {
	if !s.cfg.with("rollouts") {
		m.seen[ofPolicies], m.seen[ofApprovals] = 0, 0
		return nil
	}
	return &ruler{
		m: m, policies: map[string]*v1alpha1.RolloutPolicy{}, approvals: map[string]*v1alpha1.RolloutApproval{}, judged: map[string]v1alpha1.RolloutApproval{},
		unstored: map[string]v1alpha1.RolloutApproval{}, reports: map[string]report{},
	}
}

// orNone is nothing in a run without policies.
func (r *ruler) orNone() daemonset.Policies {
	if r == nil {
		return nil
	}
	return r
}

// see takes in an event.
func (r *ruler) see(e event) {
	switch o := e.object.(type) {
	case *v1alpha1.RolloutPolicy:
		was := r.policies[o.Name]
		if e.gone || was == nil || was.UID != o.UID || was.Generation != o.Generation {
			r.askAll()
		}
		r.policies[o.Name] = o
		if e.gone {
			delete(r.policies, o.Name)
		}
	case *v1alpha1.RolloutApproval:
		was := r.approvals[o.Name]
		r.m.asked = r.m.asked || e.gone || was == nil || was.UID != o.UID || was.Status != o.Status
		if mine, is := r.unstored[o.Name]; is && mine.UID == o.UID && o.Status.State == "" {
			o = o.DeepCopy()
			o.Status = mine.Status
		} else if delete(r.unstored, o.Name); is {
			r.m.asked = true
		}
		r.approvals[o.Name] = o
		if e.gone {
			delete(r.approvals, o.Name)
			delete(r.judged, o.Name)
			delete(r.unstored, o.Name)
		}
	}
}

// askAll asks for a pass for all sets.
func (r *ruler) askAll() { r.m.asked, r.m.peer.asked = true, true }

// list takes in a list.
func (r *ruler) list(k kind, objects []metav1.Object) {
	r.askAll()
	if k == ofPolicies {
		clear(r.policies)
	} else {
		clear(r.approvals)
		clear(r.judged)
	}
	for _, o := range objects {
		r.see(event{object: o})
	}
	if k == ofApprovals { // those that the list does not show are written again
		for name := range r.unstored {
			if r.approvals[name] == nil {
				delete(r.unstored, name)
			}
		}
		maps.Copy(r.judged, r.unstored)
	}
}

// Of implements daemonset.Policies. What it tells last is what the pass decides with.
func (r *ruler) Of(set rollouts.Set) daemonset.Governance {
	r.m.s.tick.Load()
	g, name := daemonset.Governance{}, policyOf(set.Name)
	if name == "" {
		return g // a neighbour
	}
	g.Unread = r.m.seen[ofPolicies] < 0 || r.m.seen[ofApprovals] < 0
	p := r.policies[name]
	if p != nil {
		read := rollouts.Read(p)
		g.Policies = []*rollouts.Policy{read}
		if len(p.Status.Sets) > 0 {
			g.Stored = p.Status.Sets[0].DeepCopy()
		}
	}
	if name == peerName {
		r.m.peer.of.scope = r.scope()
		return g
	}
	if p != nil {
		for _, name := range sorted(r.approvals) {
			g.Approvals = append(g.Approvals, *r.approvals[name].DeepCopy())
			if _, is := r.unstored[name]; is {
				if g.Unstored == nil {
					g.Unstored = map[string]bool{}
				}
				g.Unstored[name] = true
			}
		}
	}
	if r.m.ruling = r.m.s.rules(r.m, p, g.Approvals, g.Unread); r.m.ruling != nil {
		r.m.ruling.scope = r.scope()
	}
	return g
}

// policyOf is the name of the policy of a set; empty for a neighbour.
func policyOf(set string) string {
	return map[string]string{setName: policyName, peerName: peerName}[set]
}

// Grouped implements daemonset.Policies.
func (r *ruler) Grouped(string) (all []*rollouts.Policy) {
	for _, name := range sorted(r.policies) {
		if p := r.policies[name]; p.Spec.ConcurrencyGroup != nil {
			all = append(all, rollouts.Read(p))
		}
	}
	return all
}

// Report implements daemonset.Policies.
func (r *ruler) Report(set rollouts.Set, of []*rollouts.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval) {
	r.m.s.tick.Load()
	name := policyOf(set.Name)
	if name == "" {
		return
	}
	if status != nil && status.Failure != nil && strings.HasPrefix(status.Failure.Message, forgedName) {
		r.m.s.blame("forged", "%s reports that %s has failed, which a stranger says", r.m.name, status.TargetRevision)
	}
	if name == policyName {
		r.m.s.judgeFailure(r.m, status)
	}
	switch {
	case len(of) == 0 || r.reports[name].of != of[0].UID && status == nil:
		delete(r.reports, name)
	case status != nil: // else what was reported last still counts
		r.reports[name] = report{status.DeepCopy(), of[0].UID}
	}
	for i := range judged {
		a := judged[i].DeepCopy()
		if known := r.approvals[a.Name]; known != nil && known.UID == a.UID {
			r.approvals[a.Name], r.judged[a.Name], r.unstored[a.Name] = a, *a, *a
		}
	}
}

// writeOps are the writes of statuses that are due.
func (r *ruler) writeOps(ops []op) []op {
	w := r.m.s.w
	for _, name := range sorted(r.judged) {
		ops = append(ops, op{words("%s writes what becomes of %s", r.m.name, name), 10, func() {
			a, is := r.judged[name], w.state[ofApprovals][name]
			delete(r.judged, name)
			if is != nil && is.GetUID() == a.UID {
				object := is.(*v1alpha1.RolloutApproval).DeepCopy()
				object.Status = a.Status
				w.put(ofApprovals, object)
			}
		}})
	}
	for _, name := range []string{policyName, peerName} {
		p, _ := w.state[ofPolicies][name].(*v1alpha1.RolloutPolicy)
		is, reported := r.reports[name]
		if !reported || p == nil || p.UID != is.of {
			continue
		}
		status := []v1alpha1.SetStatus{asStored(is.status)}
		if reflect.DeepEqual(status, asStored(&p.Status).Sets) {
			continue
		}
		text := map[string]string{policyName: " writes the status of the rollout policy", peerName: " writes the status of the policy of the peer"}[name]
		ops = append(ops, op{r.m.name + text, 10, func() {
			p := p.DeepCopy()
			p.Status.Sets = status
			w.put(ofPolicies, p)
		}})
	}
	return ops
}
