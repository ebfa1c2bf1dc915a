// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// silentRules are rules that count for which passes there is nothing to report.
type silentRules struct {
	*rules
	silent int
}

func (r *silentRules) Report(set policy.Set, of []*policy.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval) {
	if status == nil && len(of) > 0 {
		r.silent++
	}
	r.rules.Report(set, of, status, judged)
}

// unreadRevisions are revisions that cannot be read from the API server.
type unreadRevisions struct{ worldRevisions }

func (unreadRevisions) List(context.Context, string, labels.Selector, func(*appsv1.ControllerRevision)) error {
	return errors.New("the connection is gone")
}

// TestAPassThatReportsNothing: the policy learns of a pass that cannot report anything of its set, so that the status of other sets does not wait for it: because another controller of
// its kind is active since this manager began, or because what a new set may find
// cannot be read.
func TestAPassThatReportsNothing(t *testing.T) {
	for name, prevent := range map[string]func(w *world){
		"blocked": func(w *world) { w.mayWrite = false },
		"unread": func(w *world) {
			w.c.Revisions = unreadRevisions{worldRevisions{w}}
			w.c.states[w.key] = &state{workload: w.c.Index.Workload(w.key), reported: map[string]bool{}, young: true}
		},
	} {
		w, r := governedWorld(t)
		last := r.last()
		silent := &silentRules{rules: r}
		r.Stored, w.c.Policies, w.c.states = &last, silent, map[clustercache.Key]*state{}
		prevent(w)
		reports := len(r.reports)
		_ = w.pass()
		if silent.silent == 0 || len(r.reports) != reports {
			t.Errorf("%s: %d passes with nothing to report, %d reports", name, silent.silent, len(r.reports)-reports)
		}
	}
}
