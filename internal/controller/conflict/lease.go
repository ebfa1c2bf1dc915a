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

// Other is a manager that does the work of a dialect where it runs.
type Other struct {
	// Name is how it is called in a sentence, Dialect the name of the dialect.
	Name, Dialect string
	// Namespace and Lease name the lease that its leader holds unless told otherwise.
	Namespace, Lease string
}

// OpenKruise is OpenKruise's own manager.
func OpenKruise() Other {
	return Other{Name: "OpenKruise's own manager", Dialect: "kruise", Namespace: "kruise-system", Lease: "kruise-manager"}
}

// OpenYurt is yurt-manager. Its lease is named in openyurtio/openyurt, cmd/yurt-manager/app/options/generic.go.
func OpenYurt() Other {
	return Other{Name: "OpenYurt's own yurt-manager", Dialect: "openyurt", Namespace: "kube-system", Lease: "yurt-manager"}
}

// message tells what is wrong and how to mend it.
func (o Other) message() string {
	return o.Name + " is at work (it holds the lease " + o.Namespace + "/" + o.Lease + "), so nothing is written for the dialect " + o.Dialect + ": " +
		"either scale that manager to zero, or leave " + o.Dialect + " out of --dialects of everynode-manager"
}

// LeaseGuard finds out whether another manager runs, by the lease of its leader. Make one with NewLeaseGuard.
type LeaseGuard struct {
	other   Other
	client  kubernetes.Interface
	clock   clock.WithTicker
	changed func(mayWrite bool)
	permit  permit

	// renewed is what the lease said of its renewal, and since is when that was first seen here: the clock of whoever wrote it
	// may differ from ours.
	renewed string
	since   time.Time
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
func NewLeaseGuard(other Other, o LeaseOptions) *LeaseGuard {
	return &LeaseGuard{other: other, client: o.Client, clock: o.Clock, changed: o.Changed, permit: permit{settle: o.Settle}}
}

// MayWrite is whether nobody else was seen at work.
func (g *LeaseGuard) MayWrite() bool { return g.permit.may.Load() }

// Run looks at once and then at intervals until ctx ends.
func (g *LeaseGuard) Run(ctx context.Context) {
	for first := true; ctx.Err() == nil; {
		again := false
		lease, err := g.client.CoordinationV1().Leases(g.other.Namespace).Get(ctx, g.other.Lease, metav1.GetOptions{})
		pause := lookEvery
		switch {
		case err == nil:
			// Who has just ended before the first look may have writes under way, too.
			g.permit.unsettled = g.permit.unsettled || first && g.justNow(lease)
			again = g.decide(ctx, g.held(lease))
		case apierrors.IsNotFound(err):
			again = g.decide(ctx, false)
		case ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "Could not find out whether another manager is at work; trying again", "manager", g.other.Name)
			pause = time.Second
		}
		first = first && err != nil && !apierrors.IsNotFound(err)
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
		klog.FromContext(ctx).Error(nil, g.other.message())
	} else {
		klog.FromContext(ctx).Info(g.other.Name+" is not at work; Everynode is", "dialect", g.other.Dialect)
	}
	g.changed(!other)
	return again
}
