// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/peers"
)

// message tells what is wrong and how to mend it.
func message(o peers.Manager) string {
	return o.Name + " is at work (it holds the lease " + o.Namespace + "/" + strings.Join(o.Leases, " or ") + "), so nothing is written for the dialect " + o.Dialect + ": " +
		"either " + o.Remedy + ", or leave " + o.Dialect + " out of --dialects of everynode-manager " +
		"(a lease that is not renewed is waited for until it has run out, and then Everynode writes)"
}

// LeaseGuard finds out whether another manager runs, by the lease of its leader. Make one with NewLeaseGuard.
type LeaseGuard struct {
	other   peers.Manager
	client  kubernetes.Interface
	clock   clock.WithTicker
	changed func(mayWrite bool)
	permit  permit

	// seen is what each lease said of its renewal.
	seen map[string]renewal
}

// renewal is what a lease said of its renewal, and when that was first seen here: the clock of whoever wrote it may differ from ours.
type renewal struct {
	says  string
	since time.Time
}

// LeaseOptions are the parts of a LeaseGuard; all are required.
type LeaseOptions struct {
	Client kubernetes.Interface
	Clock  clock.WithTicker
	// Settle is called after the other was seen, before MayWrite is true again.
	Settle Settle
	// Changed is called from Run when the answer of MayWrite has changed.
	Changed func(mayWrite bool)
}

// NewLeaseGuard returns a guard that does not let anybody write until Run has looked for the first time.
func NewLeaseGuard(other peers.Manager, o LeaseOptions) *LeaseGuard {
	return &LeaseGuard{other: other, client: o.Client, clock: o.Clock, changed: o.Changed, permit: permit{settle: o.Settle}, seen: map[string]renewal{}}
}

// MayWrite is whether nobody else was seen at work.
func (g *LeaseGuard) MayWrite() bool { return g.permit.may.Load() }

// Run looks at once and then at intervals until ctx ends.
func (g *LeaseGuard) Run(ctx context.Context) {
	for first := true; ctx.Err() == nil; {
		again, pause := false, lookEvery
		s, err := g.look(ctx)
		switch {
		case err == nil:
			// Who has just ended before the first look may have writes under way, too.
			g.permit.unsettled = g.permit.unsettled || first && s.justNow
			again = g.decide(ctx, s.atWork)
			first = false
		case ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "Could not find out whether another manager is at work; trying again", "manager", g.other.Name)
			pause = time.Second
		}
		if again {
			continue
		}
		select {
		case <-ctx.Done():
		case <-g.clock.After(pause):
		}
	}
}

// sight is what the leases of the other manager tell: whether who holds one does the work of the dialect, and whether one was written a moment ago.
type sight struct{ atWork, justNow bool }

func (g *LeaseGuard) look(ctx context.Context) (sight, error) {
	s := sight{}
	for _, name := range g.other.Leases {
		lease, err := g.client.CoordinationV1().Leases(g.other.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return s, fmt.Errorf("reading the lease %s/%s: %w", g.other.Namespace, name, err)
		}
		s.justNow = s.justNow || g.justNow(lease)
		if !g.held(lease) {
			continue
		}
		off, err := g.other.SwitchedOff(ctx, g.client, *lease.Spec.HolderIdentity)
		if err != nil {
			return s, err
		}
		s.atWork = s.atWork || !off
	}
	return s, nil
}

// maxSkew is how far the clocks of nodes may differ.
const maxSkew = 5 * time.Minute

// abandoned is the age of a renewal from which on a lease is nobody's at the first look: clocks are wrong by an hour or by a day. Who has taken a cluster
// over from OpenKruise need not wait at each start for a lease that stays there.
const abandoned = 7 * 24 * time.Hour

// longestLease is how long a lease that is not renewed counts at most. The managers of both projects renew theirs every few seconds; anyone who may write
// a lease of that name could claim decades.
const longestLease = 2 * time.Minute

// held is whether the lease is in use. One that is seen not to be renewed for as long as it says belongs to nobody. When it was renewed last tells
// little at the first look: the clock of either may be wrong, so one that a holder has left who died less than a week ago is waited for once.
func (g *LeaseGuard) held(lease *coordinationv1.Lease) bool {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	duration := min(time.Duration(*spec.LeaseDurationSeconds)*time.Second, longestLease)
	seen, again := g.seen[lease.Name]
	if says := *spec.HolderIdentity + spec.RenewTime.String(); says != seen.says {
		seen = renewal{says: says, since: g.clock.Now()}
		if !again && g.clock.Since(spec.RenewTime.Time) > abandoned {
			seen.since = seen.since.Add(-duration)
		}
		g.seen[lease.Name] = seen
	}
	return g.clock.Since(seen.since) < duration
}

// justNow is whether the lease was last written a moment ago, also by somebody who gave it back.
func (g *LeaseGuard) justNow(lease *coordinationv1.Lease) bool {
	renewed := lease.Spec.RenewTime
	return renewed != nil && g.clock.Since(renewed.Time).Abs() < maxSkew
}

// decide takes what a look has found, and says whether to look again at once.
func (g *LeaseGuard) decide(ctx context.Context, other bool) (again bool) {
	changed, again := g.permit.decide(ctx, other)
	if !changed {
		return again
	}
	if other {
		klog.FromContext(ctx).Error(nil, message(g.other))
	} else {
		klog.FromContext(ctx).Info(g.other.Name+" is not at work; Everynode is", "dialect", g.other.Dialect)
	}
	g.changed(!other)
	return again
}
