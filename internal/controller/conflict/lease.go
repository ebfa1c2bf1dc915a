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

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/peers"
)

// message describes the problem and the remedy.
func message(o dialect.Peer) string {
	return o.Name + " is active (it holds the lease " + o.Namespace + "/" + strings.Join(o.Leases, " or ") + "), so nothing is written for the dialect " + o.Dialect + ": " +
		"either " + o.Remedy + ", or leave " + o.Dialect + " out of --dialects of everynode-manager " +
		"(Everynode writes after the lease has expired)"
}

// LeaseGuard detects another manager by the lease of its leader. Create it with NewLeaseGuard.
type LeaseGuard struct {
	other   dialect.Peer
	client  kubernetes.Interface
	clock   clock.WithTicker
	changed func(mayWrite bool)
	permit  permit

	// seen is the last observed renewal of each lease.
	seen map[string]renewal
}

// renewal is the renewal time of a lease, and when it was first observed here: the clock of the holder may differ from
// ours.
type renewal struct {
	record string
	since  time.Time
}

// LeaseOptions are the parts of a LeaseGuard; all are required.
type LeaseOptions struct {
	Client kubernetes.Interface
	Clock  clock.WithTicker
	// Settle is called after another manager was detected, before MayWrite becomes true again.
	Settle Settle
	// Changed is called from Run when the result of MayWrite has changed.
	Changed func(mayWrite bool)
}

// NewLeaseGuard returns a guard that allows no writes before the first check of Run.
func NewLeaseGuard(other dialect.Peer, o LeaseOptions) *LeaseGuard {
	return &LeaseGuard{other: other, client: o.Client, clock: o.Clock, changed: o.Changed, permit: permit{settle: o.Settle}, seen: map[string]renewal{}}
}

// MayWrite reports whether no other manager was detected.
func (g *LeaseGuard) MayWrite() bool { return g.permit.may.Load() }

// Run checks immediately and then at intervals until ctx ends.
func (g *LeaseGuard) Run(ctx context.Context) {
	for first := true; ctx.Err() == nil; {
		again, pause := false, lookEvery
		s, err := g.observe(ctx)
		switch {
		case err == nil:
			// A manager that stopped just before the first check may have writes in flight, too.
			g.permit.unsettled = g.permit.unsettled || first && s.justNow
			again = g.decide(ctx, s.active)
			first = false
		case ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "Could not determine whether another manager is active; retrying", "manager", g.other.Name)
			pause = time.Second
			if g.permit.fail() {
				g.changed(false)
			}
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

// observation is the result of reading the leases of the other manager: whether their holder is active for the dialect, and
// whether a lease was written just before.
type observation struct{ active, justNow bool }

func (g *LeaseGuard) observe(ctx context.Context) (observation, error) {
	s := observation{}
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
		off, err := peers.SwitchedOff(ctx, g.client, &g.other, *lease.Spec.HolderIdentity)
		if err != nil {
			return s, err
		}
		s.active = s.active || !off
	}
	return s, nil
}

// maxSkew is the maximum assumed clock difference between nodes.
const maxSkew = 5 * time.Minute

// abandoned is the age of a renewal from which a lease is ignored at the first check: clocks may be wrong by an hour or
// a day. So after a migration from OpenKruise, a start need not wait for its old lease.
const abandoned = 7 * 24 * time.Hour

// longestLease limits how long a lease that is not renewed is respected. The managers of both projects renew theirs
// every few seconds, but anyone who may write such a lease could set a duration of decades.
const longestLease = 2 * time.Minute

// held reports whether the lease is in use. A lease that was not renewed for its duration, as observed here, is not in
// use. At the first check the renewal time is not reliable, because clocks may differ: so a lease that was last renewed
// less than a week ago is respected for its duration once.
func (g *LeaseGuard) held(lease *coordinationv1.Lease) bool {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	duration := min(time.Duration(*spec.LeaseDurationSeconds)*time.Second, longestLease)
	seen, again := g.seen[lease.Name]
	if record := *spec.HolderIdentity + spec.RenewTime.String(); record != seen.record {
		seen = renewal{record: record, since: g.clock.Now()}
		if !again && g.clock.Since(spec.RenewTime.Time) > abandoned {
			seen.since = seen.since.Add(-duration)
		}
		g.seen[lease.Name] = seen
	}
	return g.clock.Since(seen.since) < duration
}

// justNow reports whether the lease was written just before, also by a holder that released it.
func (g *LeaseGuard) justNow(lease *coordinationv1.Lease) bool {
	renewed := lease.Spec.RenewTime
	return renewed != nil && g.clock.Since(renewed.Time).Abs() < maxSkew
}

// decide uses the result of a check, and reports whether to check again immediately.
func (g *LeaseGuard) decide(ctx context.Context, other bool) (again bool) {
	changed, again := g.permit.decide(ctx, other)
	if !changed {
		return again
	}
	if other {
		klog.FromContext(ctx).Error(nil, message(g.other))
	} else {
		klog.FromContext(ctx).Info(g.other.Name+" is not active; Everynode is", "dialect", g.other.Dialect)
	}
	g.changed(!other)
	return again
}
