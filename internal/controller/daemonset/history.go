// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// historyCache keeps the resolution of one history and template, and what can be done in place with it: comparing templates costs more than
// everything else in a pass in which nothing happens.
type historyCache struct {
	id string
	h  *clustercache.Resolved
	// changes say for each revision of h whether its pods can become current in place; nil until it is needed.
	changes []rollout.Change
	// last is the last entry that was current, and same are the hashes that it and revisions with the same template have had.
	last revision.Entry
	same map[string]bool
	// genuine says for each revision of h whether its template has its hash; nil if that has not been asked yet.
	genuine []bool
	// digests are the digests of the templates of h; nil if they have not been computed yet.
	digests []string
	// missing are those of the first formsAsked forms that h lacks; nil if this has not been computed yet.
	missing    []form
	formsAsked int
	// tries are how often deletes of old revisions were tried.
	tries map[types.UID]int
}

func (c *historyCache) resolve(w *dialect.Workload, owned []clustercache.Revision) *clustercache.Resolved {
	id := historyID(w, owned)
	if c.h != nil && c.id == id {
		return c.h
	}
	h := clustercache.Resolve(w, owned)
	c.id, c.h, c.changes, c.genuine, c.digests, c.missing = id, h, nil, nil, nil, nil
	if h.Current >= 0 {
		c.keep(h)
	}
	return h
}

func (c *historyCache) keep(h *clustercache.Resolved) {
	current := h.Entries[h.Current]
	if c.same == nil || !revision.Same(c.last.Template, current.Template) {
		c.same = map[string]bool{}
	}
	c.last, c.same[current.Hash] = current, true
	for _, i := range h.Duplicates {
		c.same[h.Entries[i].Hash] = true
	}
}

// observe is resolve for a history that another controller writes; see clustercache.Observe.
func (c *historyCache) observe(w *dialect.Workload, owned []clustercache.Revision, seen, newest bool) *clustercache.Resolved {
	id := fmt.Sprint(historyID(w, owned), seen, newest)
	if c.h == nil || c.id != id {
		c.id, c.h, c.changes, c.genuine, c.digests, c.missing = id, clustercache.Observe(w, owned, seen, newest), nil, nil, nil, nil
	}
	return c.h
}

// historyID names the template and the revisions.
func historyID(w *dialect.Workload, owned []clustercache.Revision) string {
	id := fmt.Sprint(w.UID, w.Generation)
	for i := range owned {
		id += "/" + string(owned[i].UID) + "@" + owned[i].RV
		if owned[i].Deleting {
			id += "-"
		}
	}
	return id
}

// inPlace compares each revision of the resolved history with the current one, if there is one.
func (c *historyCache) inPlace(compare func(from, to map[string]any) rollout.Change) []rollout.Change {
	if c.changes != nil || c.h.Current < 0 {
		return c.changes
	}
	c.changes = make([]rollout.Change, len(c.h.Entries))
	for i := range c.h.Entries {
		if i != c.h.Current {
			c.changes[i] = compare(c.h.Entries[i].Template, c.h.Entries[c.h.Current].Template)
		}
	}
	return c.changes
}

// errHistoryMoved ends a pass whose own write changed the history; the next pass goes on from there.
var errHistoryMoved = errors.New("the history was changed; the pass begins again")

// resolveHistory adopts revisions of an earlier life of the set, creates the revision of the template when there is none, and
// gives it the highest number. Each write is observed in the cache; a few rounds lead to a history at rest. With an error it returns
// the history as it is: the set can still be looked at.
func (p *pass) resolveHistory(ctx context.Context) (*clustercache.Resolved, error) {
	if of := (writesOf{p.key, writesRevision}); p.c.slow.waits(of) {
		return p.unfinishedHistory(), fmt.Errorf("bringing the history in order: %w", p.c.slow.later(of))
	}
	for range 4 {
		owned, orphans := p.c.Index.History(p.key)
		h := p.state.history.resolve(p.w, owned)
		err := p.improveHistory(ctx, h, orphans)
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, errHistoryMoved) {
			return p.unfinishedHistory(), fmt.Errorf("bringing the history in order: %w", err)
		}
	}
	return p.unfinishedHistory(), errors.New("updating the revision history: another client keeps changing it")
}

// unfinishedHistory is the history of a pass that could not bring it in order, to look at the set by. Revisions that are still to be adopted belong
// to it: the pods of an earlier life of the set, which may be adopted already, carry their hashes, and are counted by what they are.
func (p *pass) unfinishedHistory() *clustercache.Resolved {
	owned, orphans := p.c.Index.History(p.key)
	all := slices.Concat(owned, orphans)
	slices.SortStableFunc(all, func(a, b clustercache.Revision) int { return cmp.Compare(a.Number, b.Number) })
	return p.state.history.resolve(p.w, all)
}

// improveHistory makes one kind of change that the history needs and returns errHistoryMoved; nil when it needs none.
func (p *pass) improveHistory(ctx context.Context, h *clustercache.Resolved, orphans []clustercache.Revision) error {
	if err := p.tidyHistory(ctx, h, orphans); err != nil {
		return err
	}
	if h.Current < 0 {
		return p.createRevision(ctx, h.Number)
	}
	if hash := p.replacedHash(h); hash != "" && p.mayTidy() {
		cur := &h.Revisions[h.Current]
		if p.tidyUp(ctx, cur, metadataPatch(cur.UID, "labels", map[string]string{appsv1.ControllerRevisionHashLabelKey: hash})) {
			return errHistoryMoved
		}
	}
	if cur := &h.Revisions[h.Current]; cur.Number != h.Number {
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.RV}, "revision": h.Number})
		return p.patchRevision(ctx, cur, patch)
	}
	if p.writeTwin(ctx, h) {
		return errHistoryMoved
	}
	return nil
}

func metadataPatch(uid types.UID, field string, value any) []byte {
	// Maps of strings can always be encoded.
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, field: value}})
	return patch
}

func (p *pass) patchRevision(ctx context.Context, r *clustercache.Revision, patch []byte) error {
	return p.patchRevisionAs(ctx, writesRevision, r, patch)
}

// patchRevisionAs is patchRevision as a write of that kind.
func (p *pass) patchRevisionAs(ctx context.Context, kind string, r *clustercache.Revision, patch []byte) error {
	of := *r
	err := p.write(ctx, kind, func(ctx context.Context) error {
		got, err := p.c.Revisions.Patch(ctx, of.Namespace, of.Name, patch)
		p.c.Observer.Wrote("patch-revision", err)
		switch {
		case err != nil && p.revisionGone(ctx, &of, err):
			p.c.Index.DropRevision(of.UID)
		case err != nil:
			return fmt.Errorf("patching revision %s: %w", of.Name, err)
		default:
			p.foldRevision(got)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errHistoryMoved
}

// revisionGone reports whether a revision is gone, or another one, that the answer to a write reports as gone. Admission answers with the same codes: then the revision
// is still there, and the watch, which has shown it, shows it no second time.
func (p *pass) revisionGone(ctx context.Context, r *clustercache.Revision, err error) bool {
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false
	}
	found, err := read(ctx, p.c, func(ctx context.Context) (*appsv1.ControllerRevision, error) {
		return p.c.Revisions.Get(ctx, r.Namespace, r.Name)
	})
	if err == nil && found.UID == r.UID {
		p.foldRevision(found) // it may be terminating, and must not be adopted then
		return false
	}
	return apierrors.IsNotFound(err) || err == nil
}

func (p *pass) foldRevision(r *appsv1.ControllerRevision) {
	if rec, ours := informers.RevisionFrom(r); ours {
		p.c.Index.ObserveRevision(rec)
	}
}

// createRevision writes the revision of the template, named and hashed as Kubernetes 1.37.1 does, or as it was when it has been lost: pods carry that hash, and
// another version may have made it in another way.
func (p *pass) createRevision(ctx context.Context, number int64) error {
	hash, err := revision.Hash(p.w.Template, p.w.CollisionCount)
	if err != nil {
		return fmt.Errorf("hashing the template: %w", err)
	}
	if lost := p.lostHash(); lost != "" {
		name := p.w.Name + "-" + lost
		if len(validation.NameIsDNSSubdomain(name, false)) > 0 { // the label was changed to what can be no name
			name = p.w.Name + "-" + hash
		}
		if err := p.createRevisionAs(ctx, p.revisionOf(number, name, lost)); !errors.Is(err, errNameTaken) {
			return err
		}
	}
	err = p.createRevisionAs(ctx, p.revisionOf(number, p.w.Name+"-"+hash, hash))
	if errors.Is(err, errTakenBySame) { // as by an earlier life of the set: its pods, which may be adopted, have the hash
		err = p.createRevisionAs(ctx, p.revisionOf(number, p.w.Name+"-"+hash+"-2", hash))
	}
	if errors.Is(err, errNameTaken) {
		return p.raiseCollisions(ctx, p.w.Name+"-"+hash)
	}
	return err
}

// statusHash is the hash of the revision of the template as the status says it, where that is of this generation, so of this template.
func (p *pass) statusHash() string {
	if p.w.ObservedGeneration != p.w.Generation || p.w.Generation == 0 {
		return ""
	}
	return p.w.UpdateRevision
}

// lostHash returns the hash of the revision of the template if that revision is no longer in the history; empty if it is not known.
func (p *pass) lostHash() string {
	if hash := p.statusHash(); hash != "" {
		return hash
	}
	if last := &p.state.history.last; revision.Same(last.Template, p.w.Template) {
		return last.Hash // an edit outside the template has raised the generation since
	}
	return ""
}

// nextHash is the hash that the revision of the template will have when it can be written; empty if that is another controller's, or not known. Pods
// that carry it are up to date.
func (p *pass) nextHash() string {
	if p.w.Set.ExternalController {
		return ""
	}
	if lost := p.lostHash(); lost != "" {
		return lost
	}
	hash, err := revision.Hash(p.w.Template, p.w.CollisionCount)
	if err != nil {
		return ""
	}
	return hash
}

// errNameTaken is of a revision whose name another object has.
var errNameTaken = errors.New("the name of the revision is taken")

// errTakenBySame is errNameTaken where that object has the same template and hash, and cannot be adopted.
var errTakenBySame = fmt.Errorf("%w by a revision of another owner with the same template", errNameTaken)

// newRevision is a revision of the template that is to be written.
type newRevision struct {
	name, hash string
	number     int64
	form       form
	kind       string // of the write
}

// revisionOf returns a revision for the template, in the form that the set's original controller would write.
func (p *pass) revisionOf(number int64, name, hash string) newRevision {
	return newRevision{name: name, hash: hash, number: number, form: p.form(), kind: writesRevision}
}

func (p *pass) createRevisionAs(ctx context.Context, r newRevision) error {
	data, err := r.form.encode(p.w.Template)
	if err != nil {
		return fmt.Errorf("encoding the template: %w", err)
	}
	revisionLabels := map[string]string{}
	ofTemplate, _, _ := unstructured.NestedStringMap(p.w.Template, "metadata", "labels")
	maps.Copy(revisionLabels, ofTemplate)
	revisionLabels[appsv1.ControllerRevisionHashLabelKey] = r.hash
	wanted := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.w.Namespace, Name: r.name, Labels: revisionLabels, Annotations: unmarked(p.w.Annotations),
			OwnerReferences: []metav1.OwnerReference{p.owner()},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: r.number,
	}
	if p.slow(r.kind) { // then no pass sees the answer that the name is taken
		if err := p.sameOrTaken(ctx, r); !apierrors.IsNotFound(err) {
			return err
		}
	}
	err = p.write(ctx, r.kind, func(ctx context.Context) error {
		created, err := p.c.Revisions.Create(ctx, wanted)
		p.c.Observer.Wrote("create-revision", err)
		if err != nil {
			return fmt.Errorf("creating revision %s: %w", wanted.Name, err)
		}
		p.foldRevision(created)
		return nil
	})
	switch {
	case err == nil:
		return errHistoryMoved
	case apply.OfCreate(err) == apply.Exists:
		return p.sameOrTaken(ctx, r)
	default:
		return err
	}
}

// unmarked returns annotations without those that the manager writes on a revision: a new revision is not committed, has not failed, and has no measurements.
func unmarked(annotations map[string]string) map[string]string {
	annotations = maps.Clone(annotations)
	delete(annotations, everynode.Committed)
	delete(annotations, everynode.Failed)
	delete(annotations, everynode.MeasuredDurations)
	return annotations
}

// replacedHash returns the hash that pods carry and that no revision has any more, because the label of the
// current revision was changed, or only another revision with the same template remains. The hash is valid if
// the status assigns it to the template, or if the name of the current revision ends with it: then the data
// cannot have changed since the pods were created. The current revision gets this hash, unless pods carry its
// present one.
func (p *pass) replacedHash(h *clustercache.Resolved) string {
	current := &h.Entries[h.Current]
	byName, _ := strings.CutPrefix(current.Name, p.w.Name+"-")
	known := func(hash string) bool {
		return hash == "" || slices.ContainsFunc(h.Entries, func(e revision.Entry) bool { return e.Hash == hash })
	}
	of := p.statusHash()
	if known(of) {
		of = byName
	}
	if known(of) {
		return ""
	}
	if live := p.c.Index.LiveHashes(p.key); !live[of] || live[current.Hash] {
		return ""
	}
	return of
}

// sameOrTaken reads the existing revision with the wanted name. It may be the one that an earlier pass created, or
// an orphan that must only be adopted; otherwise two templates hash to one name, or a set that is gone, or one of another kind, has that name.
func (p *pass) sameOrTaken(ctx context.Context, r newRevision) error {
	found, err := read(ctx, p.c, func(ctx context.Context) (*appsv1.ControllerRevision, error) {
		return p.c.Revisions.Get(ctx, p.w.Namespace, r.name)
	})
	if err != nil {
		return fmt.Errorf("looking at revision %s: %w", r.name, err)
	}
	rec, ours := informers.RevisionFrom(found)
	adoptable := rec.Owner == "" && !rec.Deleting && p.w.Selector.Matches(labels.Set(rec.Labels))
	own := rec.Owner == p.w.UID && rec.Advanced == p.w.Advanced
	if ours { // also one that is being deleted: the next pass knows of it then
		p.foldRevision(found)
	}
	if ours && (own || adoptable) && revision.Same(rec.Template(), p.w.Template) {
		return errHistoryMoved
	}
	if ours && rec.Hash == r.hash && revision.Same(rec.Template(), p.w.Template) {
		return errTakenBySame
	}
	return errNameTaken
}

// raiseCollisions raises the collision count in the status, so that the next hash differs.
func (p *pass) raiseCollisions(ctx context.Context, name string) error {
	live, err := p.live(ctx)
	if err != nil {
		return fmt.Errorf("reading the collision count: %w", err)
	}
	lived := p.d.Source.Digest(live.Object)
	if lived.UID != p.w.UID || count(lived.CollisionCount) != count(p.w.CollisionCount) {
		return fmt.Errorf("revision %s collides, but the collision count seen is old; trying again", name)
	}
	raised := count(p.w.CollisionCount) + 1
	patch, _ := p.d.StatusPatch(&lived, dialect.Report{Now: p.c.Clock.Now(), Numbers: lived.Status, ObservedGeneration: lived.ObservedGeneration, CollisionCount: &raised})
	err = p.write(ctx, writesStatus, func(ctx context.Context) error {
		_, err := p.c.Sets.PatchStatus(ctx, p.key, patch)
		return err
	})
	if err != nil {
		return fmt.Errorf("raising the collision count: %w", err)
	}
	return fmt.Errorf("revision %s collides with another of that name; raised the collision count to %d", name, raised)
}

func count(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// inPlace returns the history for a Snapshot, with the possible changes in place if the dialect supports them.
func (p *pass) inPlace(h *clustercache.Resolved) clustercache.History {
	view := h.History(p.w)
	withoutForeign(&view, p.foreigners)
	p.enterCommitted(&view, h)
	if h.Current < 0 {
		hash := p.nextHash()
		if _, taken := view.Index[hash]; !taken && hash != "" {
			view.Index[hash] = view.Update
		}
	}
	for _, hash := range p.lostHashes(h) {
		view.Index[hash] = view.Update
	}
	if p.d.InPlace == nil || !p.w.Set.InPlace {
		return view
	}
	for i, change := range p.state.history.inPlace(p.d.InPlace) {
		view.Revisions[i].Change = change
	}
	return view
}
