// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/rollout"
)

// rereads is how long policies are used that were read while a set is watched.
const rereads = 3 * time.Second

// groupRereads is how long data of the other sets of a concurrency group is used before it is read again, with a list of all pods of the namespace.
const groupRereads = 15 * time.Second

// Watched is a set that is watched, with its policies.
type Watched struct {
	*live.Set
	o          *options.Options
	c          *options.Clients
	set        *resolver.Set
	governance Governance
	// last is the last evaluation, without its plan.
	last Evaluation
	// read is when the policies were read, groupRead when the concurrency group was, and unread why the policies could not be read the last time.
	read, groupRead time.Time
	unread          error
}

// Policy is the effect of the rollout policy on the set in the last evaluation; nil without a policy.
func (w *Watched) Policy() *PolicyReport { return w.governance.Report() }

// Observe returns the input of a report for a model of the last evaluation, and its plan.
func (w *Watched) Observe(model view.Model, plan rollout.Plan) *Observation {
	last := w.last
	last.Plan = plan
	sight := last.Observe(model)
	sight.Unsure = w.Unsure()
	return sight
}

// Cause is why nodes have a verdict in the last evaluation, as Evaluation.Cause.
func (w *Watched) Cause(kind rollout.VerdictKind) string { return w.last.Cause(kind) }

// Stopped is why nothing starts in the last evaluation before a user acts, as Evaluation.Stopped.
func (w *Watched) Stopped() string { return w.last.Stopped() }

// Unheld says in the last evaluation that another controller updates the nodes without a policy that was deleted, as Evaluation.Unheld.
func (w *Watched) Unheld() string { return w.last.Unheld() }

// Reread makes the next evaluation read the policies again.
func (w *Watched) Reread() { w.read = time.Time{} }

// Unsure reports whether the policies could not be read the last time, although the user has the right to: then the answer to another attempt counts.
func (w *Watched) Unsure() bool { return w.unread != nil && !apierrors.IsForbidden(w.unread) }

// Watch watches one set; see live.Watch. Its policies are read again from time to time. If they cannot be read the first time, a note has the reason; later, the last ones stay in use.
func Watch(ctx context.Context, o *options.Options, c *options.Clients, set *resolver.Set) (*Watched, error) {
	w := &Watched{o: o, c: c, set: set}
	w.refresh(ctx, o.Note)
	var err error
	w.Set, err = live.Watch(ctx, live.Options{
		Client: c.Kubernetes, Dynamic: c.Dynamic, Source: set.Source, Namespace: set.Namespace(), Name: set.Name(),
		Facts: facts(), InPlace: set.Dialect.InPlace, OwnNamespace: true,
		Govern: func(now *live.View) {
			if w.read.IsZero() || o.Now().Sub(w.read) >= rereads {
				w.refresh(ctx, func(string, ...any) {})
			}
			w.governance.Govern(now)
			w.last = Evaluation{View: *now, Set: set, Governance: w.governance}
		},
	})
	return w, err //nolint:wrapcheck // it is one of live.Watch, which says what failed
}

// refresh reads the policies.
func (w *Watched) refresh(ctx context.Context, note func(string, ...any)) {
	rules := governor{c: w.c, note: note}
	before, now := w.governance, w.o.Now()
	next := rules.of(ctx, w.set)
	w.read, w.unread = now, rules.unread
	if w.unread != nil && len(before.Policies) > 0 {
		return
	}
	w.governance = next
	if len(next.Policies) == 1 && next.Policies[0].Rules.Group != nil {
		if w.governance.Neighbours = before.Neighbours; before.Neighbours == nil || now.Sub(w.groupRead) >= groupRereads {
			w.governance.Neighbours, w.groupRead = rules.neighbours(ctx, w.set, next.Policies[0].Rules, w.o.Time()), now
		}
	}
}
