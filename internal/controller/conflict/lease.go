// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// KruiseNamespace and KruiseLease name the lease that the leader of OpenKruise's manager holds unless told otherwise.
const (
	KruiseNamespace = "kruise-system"
	KruiseLease     = "kruise-manager"
)

// KruiseMessage tells what is wrong and how to mend it.
const KruiseMessage = "OpenKruise's own manager is at work (it holds the lease " + KruiseNamespace + "/" + KruiseLease + "), so the dialect of OpenKruise writes nothing: " +
	"either scale that manager to zero, or leave kruise out of --dialects of everynode-manager"

// LeaseGuard finds out whether OpenKruise's own manager runs, by the lease of its leader. Make one with NewLeaseGuard.
type LeaseGuard struct {
	client  kubernetes.Interface
	clock   clock.WithTicker
	changed func(mayWrite bool)
	permit  permit

	// renewed is what the lease said of its renewal, and since is when that was first seen here: the clock of whoever wrote it
	// may differ from ours.
	renewed string
	since   time.Time
}

// NewLeaseGuard returns a guard that does not let anybody write until Run has looked for the first time, and after OpenKruise's manager
// was seen, until settle has returned. changed is called from Run when the answer of MayWrite has changed.
func NewLeaseGuard(client kubernetes.Interface, c clock.WithTicker, settle Settle, changed func(mayWrite bool)) *LeaseGuard {
	return &LeaseGuard{client: client, clock: c, changed: changed, permit: permit{settle: settle}}
}

// MayWrite is whether nobody else was seen at work.
func (g *LeaseGuard) MayWrite() bool { return g.permit.may.Load() }

// Run looks at once and then at intervals until ctx ends.
func (g *LeaseGuard) Run(ctx context.Context) {
	for first := true; ctx.Err() == nil; {
		again := false
		lease, err := g.client.CoordinationV1().Leases(KruiseNamespace).Get(ctx, KruiseLease, metav1.GetOptions{})
		pause := lookEvery
		switch {
		case err == nil:
			// Who has just ended before the first look may have writes under way, too.
			g.permit.unsettled = g.permit.unsettled || first && g.justNow(lease)
			again = g.decide(ctx, g.held(lease))
		case apierrors.IsNotFound(err):
			again = g.decide(ctx, false)
		case ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "Could not find out whether OpenKruise's manager is at work; trying again")
			pause = time.Second
		}
		first = first && err != nil
		if again {
			continue
		}
		select {
		case <-ctx.Done():
		case <-g.clock.After(pause):
		}
	}
}

// maxSkew is how far the clock of a node may be off. A lease whose last renewal is longer ago belongs to nobody.
const maxSkew = 5 * time.Minute

// held is whether the lease is in use. One that is seen not to be renewed for as long as it says belongs to nobody.
func (g *LeaseGuard) held(lease *coordinationv1.Lease) bool {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return false
	}
	now := g.clock.Now()
	if renewed := *spec.HolderIdentity + spec.RenewTime.String(); renewed != g.renewed {
		g.renewed, g.since = renewed, now
	}
	return now.Sub(spec.RenewTime.Time) < maxSkew && now.Sub(g.since) < time.Duration(*spec.LeaseDurationSeconds)*time.Second
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
		klog.FromContext(ctx).Error(nil, KruiseMessage)
	} else {
		klog.FromContext(ctx).Info("OpenKruise's own manager is not at work; the dialect of OpenKruise is")
	}
	g.changed(!other)
	return again
}
