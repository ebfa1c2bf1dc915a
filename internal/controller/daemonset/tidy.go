// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect/base"
)

// tidyLimit is the number of revisions not needed by a decision that a pass adopts, labels or deletes.
const tidyLimit = 32

// tidyPause is how long no such revision is adopted or labelled after a failed write.
const tidyPause = time.Minute

// mayTidy is whether revisions that no decision needs may be written.
func (p *pass) mayTidy() bool { return !p.c.Clock.Now().Before(p.state.tidyAfter) }

// tidyHistory adopts revisions of an earlier life of the set, labels those without a label, and writes those for other controllers, once in a pass. Everyone who may create revisions in the
// namespace can create any number of them, at any time. So revisions that appear in the meantime are left to the next pass, and the set does not wait for
// those that no decision needs: a pass handles only some of them, and if a write is refused, the rest waits for a while.
func (p *pass) tidyHistory(ctx context.Context, h *clustercache.Resolved, orphans []clustercache.Revision) error {
	if p.tidied {
		return nil
	}
	p.tidied = true
	needed, others := p.neededOrphans(h, orphans)
	if !p.mayTidy() {
		others = nil
	}
	others = others[:min(len(others), tidyLimit)]
	if len(needed)+len(others) > 0 {
		if err := p.mayAdopt(ctx); err != nil {
			return err
		}
	}
	moved := false
	for i := range needed {
		if err := p.patchRevision(ctx, &needed[i], executor.AdoptionPatch(needed[i].UID, p.owner())); !errors.Is(err, errHistoryMoved) {
			return err
		}
		moved = true
	}
	for i := range others {
		if !p.tidyUp(ctx, &others[i], executor.AdoptionPatch(others[i].UID, p.owner())) {
			break
		}
		moved = true
	}
	moved = p.labelRevisions(ctx, h) || moved
	moved = p.writeForms(ctx, h) || moved
	if moved {
		return errHistoryMoved
	}
	return nil
}

// labelRevisions labels revisions of very old versions, which lack the label; their name is used as the hash (as upstream). It returns whether it has
// changed the history.
func (p *pass) labelRevisions(ctx context.Context, h *clustercache.Resolved) (moved bool) {
	if !p.mayTidy() {
		return false
	}
	count := 0
	for i := range h.Revisions {
		r := &h.Revisions[i]
		if r.Labelled || count == tidyLimit {
			continue
		}
		count++
		if !p.tidyUp(ctx, r, metadataPatch(r.UID, "labels", map[string]string{appsv1.ControllerRevisionHashLabelKey: r.Hash})) {
			break
		}
		moved = true
	}
	return moved
}

// tidyUp patches a revision for which no decision waits. It returns false if the next revision must wait.
func (p *pass) tidyUp(ctx context.Context, r *clustercache.Revision, patch []byte) bool {
	return p.tidyMoved(ctx, p.patchRevisionAs(ctx, writesOldRevision, r, patch))
}

// tidyMoved returns whether a write has changed the history; err is the answer to the write, and no decision waits for it. If not, the next write must wait.
func (p *pass) tidyMoved(ctx context.Context, err error) bool {
	if errors.Is(err, errHistoryMoved) {
		return true
	}
	if errors.Is(err, errLater) || errors.Is(err, errTooManySlow) || ctx.Err() != nil {
		return false
	}
	p.state.tidyAfter = p.c.Clock.Now().Add(tidyPause)
	if answer := apply.OfDelete(err); answer == apply.Refused || answer == apply.Unclear {
		p.recordEvent(base.ReasonFailedRevision, apply.Brief(err).Error())
	}
	return false
}

// neededOrphans divides orphans into those that a decision needs, because pods carry their hash, or because the template has no other revision, and
// others.
func (p *pass) neededOrphans(h *clustercache.Resolved, orphans []clustercache.Revision) (needed, others []clustercache.Revision) {
	if len(orphans) == 0 {
		return nil, nil
	}
	live := p.c.Index.LiveHashes(p.key)
	var maybe []clustercache.Revision // the rest is not decoded
	for i := range orphans {
		if h.Current < 0 || live[orphans[i].Hash] {
			maybe = append(maybe, orphans[i])
		} else {
			others = append(others, orphans[i])
		}
	}
	all := clustercache.Resolve(p.w, slices.Concat(h.Revisions, maybe))
	sources := all.Sources(p.w.Name, live)
	if h.Current < 0 && all.Current >= 0 {
		sources[all.Current] = true
	}
	for i := range maybe {
		if sources[len(h.Revisions)+i] {
			needed = append(needed, maybe[i])
		} else {
			others = append(others, maybe[i])
		}
	}
	return needed, others
}

// mayAdopt asks the API server itself whether the set is still there and not being deleted (as upstream; see
// kubernetes/kubernetes#42639).
func (p *pass) mayAdopt(ctx context.Context) error {
	live, err := p.live(ctx)
	switch {
	case err != nil:
		return err
	case live.GetUID() != p.w.UID:
		return fmt.Errorf("%s was recreated: its uid is %s, wanted %s", p.key, live.GetUID(), p.w.UID)
	case live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is being deleted", p.key)
	default:
		return nil
	}
}
