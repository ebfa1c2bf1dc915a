// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"strings"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/policyinput"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// mostCollisions is how many collisions of the name of a revision are looked at.
const mostCollisions = 16

// foreign finds the revisions that may not be what the pods with their hashes were made of. After a revision was deleted, everyone who may create
// ControllerRevisions can make another one with its name and hash, and the set adopts it. Under a policy, nodes that are held back get no pod from it. The
// template of the set is known. Another is known by its template, which gives the hash, and not by a mark, which they can write too; or, for
// other versions of Kubernetes make the hash in other ways, by having the name that a controller gives it and being as old as the oldest pod with the hash.
// It returns nil for none.
func (p *pass) foreign(h *clustercache.Resolved) []bool {
	if !p.governs() {
		return nil
	}
	genuine := p.state.history.hashed(p.w, h)
	var all []bool
	var oldest map[string]rollout.Time
	for i := range h.Entries {
		e, r := &h.Entries[i], &h.Revisions[i]
		replaces := p.replacesCommitted(h, i)
		if i == h.Current || slices.Contains(h.Duplicates, i) || genuine[i] && !replaces {
			continue
		}
		if oldest == nil {
			oldest = p.c.Index.OldestPods(p.key)
		}
		if at, carried := oldest[e.Hash]; carried && !replaces && e.Name == p.w.Name+"-"+e.Hash && r.Created <= at {
			continue
		}
		if all == nil {
			all = make([]bool, len(h.Entries))
		}
		all[i] = true
	}
	return all
}

// hashed says of each revision of the resolved history whether its template has its hash.
func (c *historyCache) hashed(w *dialect.Workload, h *clustercache.Resolved) []bool {
	if c.genuine == nil {
		c.genuine = make([]bool, len(h.Entries))
		for i := range h.Entries {
			c.genuine[i] = i != h.Current && hashes(w, &h.Entries[i])
		}
	}
	return c.genuine
}

// hashes reports whether the template of a revision has its hash, with one of the last counts of collisions.
func hashes(w *dialect.Workload, e *revision.Entry) bool {
	if e.Template == nil {
		return false
	}
	counts := []*int32{nil}
	for n := count(w.CollisionCount); n >= 0 && len(counts) <= mostCollisions; n-- {
		counts = append(counts, &n)
	}
	return slices.ContainsFunc(counts, func(n *int32) bool {
		hash, err := revision.Hash(e.Template, n)
		return err == nil && hash == e.Hash
	})
}

// withoutForeign takes the revisions from a history that are not sources of pods.
func withoutForeign(view *clustercache.History, foreign []bool) {
	for hash, i := range view.Index {
		if i < len(foreign) && foreign[i] {
			delete(view.Index, hash)
		}
	}
}

// newestMark is the index of the revision with the newest mark, but for the excepted hashes and for revisions of strangers; -1 if there is none, or no policy may
// restrict the update. Of equal marks that of the newer revision counts, as in package policy.
func (p *pass) newestMark(h *clustercache.Resolved, except func(hash string) bool) int {
	newest := -1
	for i := range h.Revisions {
		marked := h.Revisions[i].Committed > 0 && (i >= len(p.foreigners) || !p.foreigners[i]) && !except(h.Entries[i].Hash)
		if p.governs() && marked && (newest < 0 || h.Revisions[i].Committed >= h.Revisions[newest].Committed) {
			newest = i
		}
	}
	return newest
}

// committedHash is the hash of the committed revision: the one that the status names, or otherwise the one with the newest mark. It is empty if there is none.
func (p *pass) committedHash(h *clustercache.Resolved) string {
	if i := p.confirmed(h); i >= 0 {
		return h.Entries[i].Hash
	}
	return p.markedHash(h, func(string) bool { return false })
}

// confirmed is the index of the committed revision that the status names, which only managers write; -1 if it names none.
func (p *pass) confirmed(h *clustercache.Resolved) int {
	if len(p.rules.Policies) == 0 {
		return -1
	}
	return policy.Remembered(p.lastGoverned(), p.revisions(h))
}

// markedHash is the hash of the revision with the newest mark, but for the excepted hashes; empty if there is none.
func (p *pass) markedHash(h *clustercache.Resolved, except func(hash string) bool) string {
	if i := p.newestMark(h, except); i >= 0 {
		return h.Entries[i].Hash
	}
	return ""
}

// enterCommitted adds the committed revision to a view of the history, and what counts instead if a stranger has marked the target.
func (p *pass) enterCommitted(view *clustercache.History, h *clustercache.Resolved) {
	if i := p.confirmed(h); i >= 0 {
		view.Committed = h.Entries[i].Hash
		return
	}
	isTarget := func(hash string) bool {
		i, known := view.Index[hash]
		return known && i == view.Update
	}
	view.Committed = p.markedHash(h, func(string) bool { return false })
	if len(p.rules.Policies) > 0 && isTarget(view.Committed) {
		view.Unconfirmed, view.Earlier = true, p.markedHash(h, isTarget)
	}
}

// replacesCommitted reports whether a revision has the name or the hash of the committed one, but another template than the status says.
func (p *pass) replacesCommitted(h *clustercache.Resolved, i int) bool {
	if len(p.rules.Policies) == 0 {
		return false
	}
	last := p.lastGoverned()
	if last == nil || last.CommittedDigest == "" || last.CommittedDigest == p.state.history.digestsOf(h)[i] {
		return false
	}
	e := &h.Entries[i]
	rest, same := strings.CutPrefix(last.CommittedRevision, p.w.Name+"-"+e.Hash)
	return e.Name == last.CommittedRevision || same && (rest == "" || rest[0] == '-')
}

// revisions is what package policy needs to know of the history.
func (p *pass) revisions(h *clustercache.Resolved) []policy.Revision {
	return policyinput.Revisions(p.w, h, p.foreigners, p.state.history.digestsOf(h))
}

// digestsOf are the digests of the resolved history.
func (c *historyCache) digestsOf(h *clustercache.Resolved) []string {
	if c.digests == nil {
		c.digests = policyinput.Digests(h)
	}
	return c.digests
}

// lastGoverned is the outcome of the last decision about the policy, or what its status has of the set.
func (p *pass) lastGoverned() *v1alpha1.SetStatus {
	if p.state.governed.of == p.rules.Policies[0].UID {
		return p.state.governed.last
	}
	return p.rules.remembered()
}
