// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// observed is what is known about a history that another controller writes.
type observed struct {
	// read names the template for which the history was read from the API server itself, and what was the newest revision then.
	read string
	// highest is the highest number that a newest revision has had for that generation of the set: after a template has gone back, that of a
	// deleted revision is not reached again.
	highest    int64
	generation int64
}

// observeHistory returns the history of an external set as the other controller has written it. Which revision is the newest counts only when that
// controller has seen the template, for it writes the revision before it reports that, and only as read from the API server itself after that:
// the watch of revisions may be older than that of the sets, and a pod that is up to date would be deleted. One read for each template, and
// for each change of the newest revision, is enough. A number only goes back when the newest revision is deleted; the
// other controller writes it again.
func (p *pass) observeHistory(ctx context.Context) (*clustercache.Resolved, error) {
	owned, _ := p.c.Index.History(p.key)
	if p.w.Plain == nil && !p.byPolicy {
		return p.state.history.observe(p.w, owned, true, true), nil // nothing is deleted: all that is left to do is to withdraw what pods say
	}
	seen := p.w.ObservedGeneration == p.w.Generation
	if seen && p.state.observed.read != p.newest(owned) {
		if err := p.readHistory(ctx); err != nil {
			return p.state.history.observe(p.w, owned, false, false), err
		}
		owned, _ = p.c.Index.History(p.key)
		p.state.observed.read = p.newest(owned)
	}
	if p.state.observed.generation != p.w.Generation {
		p.state.observed.generation, p.state.observed.highest = p.w.Generation, 0
	}
	newest := true
	if n := len(owned); n > 0 {
		newest = owned[n-1].Number >= p.state.observed.highest
		p.state.observed.highest = max(p.state.observed.highest, owned[n-1].Number)
	}
	return p.state.history.observe(p.w, owned, seen, newest), nil
}

// newest names the template and the newest of the revisions.
func (p *pass) newest(owned []clustercache.Revision) string {
	if len(owned) == 0 {
		return fmt.Sprint(p.w.Generation)
	}
	last := &owned[len(owned)-1]
	return fmt.Sprint(p.w.Generation, "/", last.UID, "/", last.Number)
}

// errCrowded is of a history that was not read, because that takes long in the namespace and other sets there are read now.
var errCrowded = errors.New("reading the revisions of daemon sets takes long in this namespace, so they are read one after the other")

// readHistory reads the revisions of the set from the API server itself. A tenant who may create revisions and daemon sets can let that take long again and again, so it
// counts as one of the meetings.
func (p *pass) readHistory(ctx context.Context) error {
	most, began := max(p.c.Workers/2, 1), p.c.Clock.Now()
	if !p.c.meetings.begin(p.w.Namespace, most, began) {
		return errCrowded
	}
	defer func() { p.c.meetings.end(p.w.Namespace, began, p.c.Clock.Now()) }()
	if err := p.c.Executor.Pace.Throttle(ctx); err != nil {
		return err
	}
	err := p.c.Revisions.List(ctx, p.w.Namespace, p.w.Selector, func(r *appsv1.ControllerRevision) {
		if rec, ours := informers.RevisionFrom(r); ours {
			p.c.Index.ObserveRevision(rec)
		}
	})
	if err != nil {
		return fmt.Errorf("reading the revisions of a daemon set: %w", err)
	}
	return nil
}

// bystander reports whether nothing is to be done for an external set, because no annotation asks for anything and no pod says anything.
func (c *Controller) bystander(key clustercache.Key, w *dialect.Workload) bool {
	return w.Set.ExternalController && w.Plain == nil && !c.Index.Announced(key)
}

// standBy removes what is known of a set that has become a bystander, and its jobs, which are not needed any more.
func (p *pass) standBy(ctx context.Context) (time.Duration, error) {
	p.c.Observer.Forgotten(p.key)
	p.c.orders.drop(p.w.UID)
	if err := p.dropJobs(ctx); err != nil {
		return 0, err
	}
	return p.writeStatus(ctx, dialect.Report{})
}

// dropJobs deletes the jobs by which the set has images pulled ahead.
func (p *pass) dropJobs(ctx context.Context) error {
	if p.c.PullJobs == nil || !p.d.Predownload {
		return nil
	}
	if ready, _ := p.c.PullJobs.Serving(); !ready {
		return nil
	}
	jobs, err := p.c.PullJobs.Owned(ctx, p.w.Namespace, p.w.UID)
	for i := range jobs {
		err = errors.Join(err, p.dropJob(ctx, jobs[i].Name))
	}
	return err
}

// standsBack reports whether annotations of OpenYurt count as not there, because OpenYurt's own manager is at work.
func (p *pass) standsBack() bool { return p.d.MayAnnotate != nil && !p.d.MayAnnotate() }

// mayWrite is asked before every write of a pass.
func (p *pass) mayWrite() bool {
	return p.d.MayWrite() && (p.w.Plain == nil || p.stoodBack || !p.standsBack())
}

// standBack takes what the annotations of OpenYurt ask for out of the decision while its own manager is at work. Policies see the set like that.
func (p *pass) standBack(s *rollout.Snapshot) {
	p.stoodBack = p.standsBack()
	if p.stoodBack && p.w.Plain != nil {
		update := s.Set.Update
		s.Set = *p.w.Plain
		s.Set.Update = update
	}
}

// decide makes the one decision of a pass.
func (p *pass) decide(s *rollout.Snapshot, h *clustercache.Resolved) rollout.Plan {
	p.c.Index.MarkAgents(s)
	plan := p.decideNow(s)
	if h.Current >= 0 && h.Current != s.Set.Update { // a policy returns nodes to another revision; the status speaks of the template
		plan.Status.Updated = s.CountUpdated(h.Current)
	}
	if p.stoodBack {
		plan.Announcements = nil // what pods say is OpenYurt's own business then
	}
	return plan
}
