// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// SlowLeaseName is the name of the lease that a leader holds while it may have writes in flight that take up to
// SlowWriteTimeout.
const SlowLeaseName = "everynode-manager-slow-writes"

// SlowFence is how long a write of a leader that held the lease can still take effect after the leader has stopped.
const SlowFence = SlowWriteTimeout + Fence

// SlowLease is the lease of slow writes. It is held from before the first slow write is sent until the last one is answered, so a
// failover waits for slow writes only if there may be one. It is renewed before later slow writes and does not expire:
// only its holder matters.
type SlowLease struct {
	leases typedcoordinationv1.LeaseInterface
	holder string
	clock  clock.PassiveClock

	// holds lets the writes that wait for the lease at the same time share one attempt: after a failed one, the last of many
	// would otherwise wait for all attempts before its own.
	holds singleflight.Group
	// turn has an entry while the lease is being read or written. It guards held.
	turn chan struct{}
	// held is when the lease was last observed to be held; zero if it is not.
	held time.Time
}

// NewSlowLease is the lease for a leader, which no other one calls itself.
func NewSlowLease(leases typedcoordinationv1.LeaseInterface, holder string, c clock.PassiveClock) *SlowLease {
	return &SlowLease{leases: leases, holder: holder, clock: c, turn: make(chan struct{}, 1)}
}

// Lane returns a slow lane whose writes hold the lease.
func (s *SlowLease) Lane(client kubernetes.Interface) *SlowLane {
	return &SlowLane{Pods: NewSlowPods(client), Hold: s.Hold, Free: s.Free}
}

// slowLeaseTimeout is how long a write waits for the lease.
const slowLeaseTimeout = 5 * time.Second

// slowLeaseRenewal is the time after which the lease is written again before the next slow write, because it may have
// been deleted or restored from a backup.
const slowLeaseRenewal = 10 * time.Second

// Hold ensures that the lease has a holder; it does nothing if that was checked recently. All callers that wait share one attempt, and get its error.
func (s *SlowLease) Hold(ctx context.Context) error {
	_, err, _ := s.holds.Do("", func() (any, error) { return nil, s.hold(ctx) })
	return err
}

func (s *SlowLease) hold(ctx context.Context) error {
	defer s.inTurn()()
	if now := s.clock.Now(); !s.held.IsZero() && !now.Before(s.held) && now.Sub(s.held) < slowLeaseRenewal {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, slowLeaseTimeout)
	defer cancel()
	if err := s.write(ctx, s.holder); err != nil {
		return err
	}
	s.held = s.clock.Now()
	return nil
}

// Free removes the holder if no slow write is in flight any more. If that fails, the next leader waits unnecessarily,
// which is harmless.
func (s *SlowLease) Free(ctx context.Context, idle func() bool) {
	defer s.inTurn()()
	if !idle() { // a write that has started in the meantime keeps the lease
		return
	}
	s.held = time.Time{} // also without an answer: the release of the lease may take effect nevertheless
	ctx, cancel := context.WithTimeout(ctx, slowLeaseTimeout)
	defer cancel()
	if err := s.write(ctx, ""); err != nil {
		klog.FromContext(ctx).Info("Cannot give the lease of slow writes back", "lease", SlowLeaseName, "reason", err.Error())
	}
}

// inTurn waits until nothing else reads or writes the lease, until end is called.
func (s *SlowLease) inTurn() (end func()) {
	s.turn <- struct{}{}
	return func() { <-s.turn }
}

func (s *SlowLease) write(ctx context.Context, holder string) error {
	lease, err := s.leases.Get(ctx, SlowLeaseName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading the lease %s: %w", SlowLeaseName, err)
	}
	if holder == "" && (missing || ptr.Deref(lease.Spec.HolderIdentity, "") != s.holder) {
		return nil // a later leader holds it
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: SlowLeaseName}}
	}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To(int32(SlowFence / time.Second)), RenewTime: &metav1.MicroTime{Time: s.clock.Now()},
	}
	if missing {
		_, err = s.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = s.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the lease %s: %w", SlowLeaseName, err)
	}
	return nil
}

// TakeOver removes the holder that an earlier leader has left, when its writes can no longer take effect.
func (s *SlowLease) TakeOver(ctx context.Context) {
	if err := s.Hold(ctx); err != nil {
		klog.FromContext(ctx).Info("Cannot take over the lease of slow writes", "lease", SlowLeaseName, "reason", err.Error())
		return
	}
	s.Free(ctx, func() bool { return true })
}

// Fence is how long a new leader waits before it reads the cluster: until no write of an earlier one can take effect any more.
func (s *SlowLease) Fence(ctx context.Context) time.Duration {
	if s.mayBeUnderWay(ctx) {
		return SlowFence
	}
	return Fence
}

// mayBeUnderWay reports whether a slow write of an earlier leader may be in flight. A leader that could not acquire the
// lease has sent none.
func (s *SlowLease) mayBeUnderWay(ctx context.Context) bool {
	lease, err := s.leases.Get(ctx, SlowLeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false
	case err != nil:
		return true
	default:
		return ptr.Deref(lease.Spec.HolderIdentity, "") != ""
	}
}
