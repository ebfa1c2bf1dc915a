// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/revision"
)

// truncateHistory deletes the oldest revisions beyond the limit, never one that a pod still carries. Those that were tried least often come first, so one whose
// delete is refused keeps none of the others. Refusals are shown as events, and the first one is returned, so that the pass is repeated.
func (p *pass) truncateHistory(ctx context.Context, h *clustercache.Resolved) error {
	if of := (writesOf{p.key, writesOldRevision}); p.c.slow.waits(of) {
		p.recordFailure(p.c.slow.later(of), base.ReasonFailedRevision)
		return nil // the pass that follows the answer continues
	}
	remove := p.excess(h)
	if len(remove) == 0 {
		p.state.history.tries = nil
		return nil
	}
	tries := p.triesOf(h)
	slices.SortStableFunc(remove, func(a, b int) int { return cmp.Compare(tries[h.Revisions[a].UID], tries[h.Revisions[b].UID]) })
	var first error
	for _, i := range remove[:min(len(remove), tidyLimit)] { // another pass follows the deletes
		tries[h.Revisions[i].UID]++
		err := p.deleteRevision(ctx, &h.Revisions[i])
		p.recordFailure(err, base.ReasonFailedRevision)
		switch {
		case errors.Is(err, errLater):
			return first
		case first == nil:
			first = err
		}
		if errors.Is(err, errTooManySlow) || apply.OfDelete(err) == apply.Busy || ctx.Err() != nil {
			return first
		}
	}
	return first
}

// triesOf is how often deletes of the revisions of a history were tried.
func (p *pass) triesOf(h *clustercache.Resolved) map[types.UID]int {
	tries := map[types.UID]int{}
	for i := range h.Revisions {
		if n := p.state.history.tries[h.Revisions[i].UID]; n > 0 {
			tries[h.Revisions[i].UID] = n
		}
	}
	p.state.history.tries = tries
	return tries
}

// excess are the revisions that are to be deleted, by their index.
func (p *pass) excess(h *clustercache.Resolved) []int {
	if len(h.Entries)-1 <= p.w.HistoryLimit {
		return nil
	}
	live := p.c.Index.LiveHashes(p.key)
	if hash := p.committedHash(h); hash != "" {
		live[hash] = true
	}
	remove := revision.Truncate(h.Entries, h.Current, live, p.w.HistoryLimit)
	return slices.DeleteFunc(remove, func(i int) bool { return h.Revisions[i].Deleting }) // a finalizer keeps it
}

// deleteRevision deletes a revision that is not needed any more. One with a finalizer stays, and counts, until that is removed.
func (p *pass) deleteRevision(ctx context.Context, r *clustercache.Revision) error {
	of := *r
	return p.write(ctx, writesOldRevision, func(ctx context.Context) error {
		err := p.c.Revisions.Delete(ctx, of.Namespace, of.Name, of.UID)
		p.c.Observer.Wrote("delete-revision", err)
		switch {
		case err == nil:
			p.c.Index.ExpectRevisionDeleted(of.UID)
		case p.revisionGone(ctx, &of, err):
			p.c.Index.DropRevision(of.UID)
		default:
			return fmt.Errorf("deleting revision %s: %w", of.Name, err)
		}
		return nil
	})
}
