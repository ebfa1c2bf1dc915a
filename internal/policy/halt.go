// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// halt is a place in a wave after which a rollout does not go on by itself, because nodes are gone or left out, and none shows that the revision works: the first nodes of the wave, as many as step says, those
// that are gone included, and the group of spec.order with that label (key=value). It is empty for no such place.
type halt struct {
	step   int32
	domain string
}

// note records in the state of a Promote after which place it lets the wave go on. The message is what shows that such a decision does not end the soak, if the API server serves an earlier version of the CRD and drops
// the other fields.
func (h *halt) note(st *v1alpha1.RolloutApprovalStatus) {
	if h.step == 0 && h.domain == "" {
		return
	}
	st.Step, st.Domain = h.step, h.domain
	st.Message = "The decision lets the wave go on without its nodes that are gone or left out. It does not end the soak: that needs another RolloutApproval."
}

// after reports whether a user goes on after a group of spec.order.
func (h *halt) after(key, value string) bool {
	last, known := strings.CutPrefix(h.domain, key+"=")
	return known && value <= last
}

// goesOn is the last place in a wave after which a user goes on. A Promote counts for the place at which the wave was when it got its state: later ones have not been looked at.
func (r *run) goesOn(k int) halt {
	var last halt
	for i := range r.in.Approvals {
		a := &r.in.Approvals[i]
		if a.Spec.Decision != v1alpha1.Promote || a.Spec.Wave != r.p.Waves[k].Name || !r.counts(a) {
			continue
		}
		last.step = max(last.step, a.Status.Step)
		if value, known := strings.CutPrefix(a.Status.Domain, r.p.TopologyKey+"="); known && !last.after(r.p.TopologyKey, value) {
			last.domain = a.Status.Domain
		}
	}
	return last
}

// promotion is the decision that ends the soak of a wave; nil for none. One that was about nodes that are gone or left out has a message (see note), and does not.
func (r *run) promotion(wave string) *v1alpha1.RolloutApproval {
	for i := range r.in.Approvals {
		a := &r.in.Approvals[i]
		if a.Spec.Decision == v1alpha1.Promote && a.Spec.Wave == wave && r.counts(a) && a.Status.Message == "" {
			return a
		}
	}
	return nil
}
