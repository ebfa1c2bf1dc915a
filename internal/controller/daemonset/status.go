// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// statusWindow is a period in which the status of a set is written at most twice. Only one of these writes is
// for numbers that keep changing; the other is reserved for changes that people and pipelines wait for.
const statusWindow = time.Second

// statusPace contains the times of the last two status writes of a set, and the version of the set for which a write was rejected as outdated.
type statusPace struct {
	last, before time.Time
	outdated     string
}

// wait is how long the next write must wait; 0 or less for not at all.
func (p *statusPace) wait(clock clock.PassiveClock, waitedFor bool) time.Duration {
	since := p.last
	if waitedFor {
		since = p.before
	}
	return statusWindow - clock.Since(since)
}

func (p *statusPace) wrote(now time.Time) { p.last, p.before = now, p.last }

// waitedFor reports whether a client may wait for a status: a new generation has been seen, or nothing is
// under way any more. During a rollout, a node is always in flight, so only the numbers at its end must be
// written immediately.
func waitedFor(w *dialect.Workload, r *dialect.Report) bool {
	return w.ObservedGeneration < r.ObservedGeneration || r.Plan == nil || len(r.Plan.Actions) == 0 && r.Plan.Budget.UsedByUpdate == 0
}

// writeStatus writes the status if it has changed and its turn has come. The returned duration is the delay until the postponed write.
func (p *pass) writeStatus(ctx context.Context, r dialect.Report) (time.Duration, error) {
	w := p.c.Index.Workload(p.key) // the newest: the answer to our last write may have come since
	if w == nil || w.UID != p.w.UID {
		return 0, nil
	}
	now := p.c.Clock.Now()
	r.Now = now
	patch, changed := p.d.StatusPatch(w, r)
	if !changed {
		return 0, nil
	}
	if wait := p.state.pace.wait(p.c.Clock, waitedFor(w, &r)); wait > 0 {
		return wait, nil
	}
	err := p.write(ctx, writesStatus, func(ctx context.Context) error {
		written, err := p.c.Sets.PatchStatus(ctx, p.key, patch)
		p.c.Observer.Wrote("status", err)
		if err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
		answer := p.d.Source.Digest(written.Object)
		p.c.Index.ObserveStatus(p.key, &answer)
		return nil
	})
	if apierrors.IsConflict(err) && p.state.pace.outdated != w.ResourceVersion {
		p.state.pace.outdated = w.ResourceVersion // the set has just changed, and the watch shows it in a moment
		return statusWindow, nil
	}
	if err != nil && !errors.Is(err, errLater) {
		return 0, err
	}
	p.state.pace.wrote(now)
	return 0, nil
}

// stalls returns when the status must report that the set is stalled, if nothing happens before; only an Advanced DaemonSet reports this.
func (p *pass) stalls(s *rollout.Snapshot) rollout.Time {
	if !p.w.Advanced {
		return 0
	}
	return s.StallsNext()
}
