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
	// report is the status that is to be written, of the policy with that UID, and judged are the approvals whose status is.
	report *v1alpha1.SetStatus
	of     types.UID
	judged map[string]v1alpha1.RolloutApproval
	// unstored are the states of approvals that this manager has given and has not read yet.
	unstored map[string]v1alpha1.RolloutApproval
}

func (s *sim) newRuler(m *manager) *ruler {
	if !s.cfg.with("rollouts") {
		m.seen[ofPolicies], m.seen[ofApprovals] = 0, 0
		return nil
	}
	return &ruler{
		m: m, policies: map[string]*v1alpha1.RolloutPolicy{}, approvals: map[string]*v1alpha1.RolloutApproval{}, judged: map[string]v1alpha1.RolloutApproval{},
		unstored: map[string]v1alpha1.RolloutApproval{},
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
		r.m.asked = r.m.asked || e.gone || was == nil || was.UID != o.UID || was.Generation != o.Generation
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

// list takes in a list.
func (r *ruler) list(k kind, objects []metav1.Object) {
	r.m.asked = true
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
	g := daemonset.Governance{}
	if set.Name != setName {
		return g // a neighbour
	}
	g.Unread = r.m.seen[ofPolicies] < 0 || r.m.seen[ofApprovals] < 0
	p := r.policies[policyName]
	if p != nil {
		read := rollouts.Read(p)
		g.Policies = []*rollouts.Policy{read}
		if len(p.Status.Sets) > 0 {
			g.Stored = p.Status.Sets[0].DeepCopy()
		}
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
	r.m.ruling = r.m.s.rules(r.m, p, g.Approvals, g.Unread)
	return g
}

// Grouped implements daemonset.Policies.
func (r *ruler) Grouped(string) []*rollouts.Policy { return nil }

// Report implements daemonset.Policies.
func (r *ruler) Report(set rollouts.Set, of []*rollouts.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval) {
	r.m.s.tick.Load()
	if set.Name != setName {
		return
	}
	if status != nil && status.Failure != nil && strings.HasPrefix(status.Failure.Message, forgedName) {
		r.m.s.blame("forged", "%s reports that %s has failed, which a stranger says", r.m.name, status.TargetRevision)
	}
	if r.report = nil; status != nil && len(of) > 0 {
		r.report, r.of = status.DeepCopy(), of[0].UID
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
	p := w.rolloutPolicy()
	if r.report == nil || p == nil || p.UID != r.of {
		return ops
	}
	status := []v1alpha1.SetStatus{asStored(r.report)}
	if reflect.DeepEqual(status, asStored(&p.Status).Sets) {
		return ops
	}
	return append(ops, op{r.m.name + " writes the status of the rollout policy", 10, func() {
		p := p.DeepCopy()
		p.Status.Sets = status
		w.put(ofPolicies, p)
	}})
}
