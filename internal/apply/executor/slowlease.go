// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// SlowLeaseName is the name of the lease by which a leader says that it may have writes under way that take up to SlowWriteTimeout.
const SlowLeaseName = "everynode-manager-slow-writes"

// SlowFence is for how long after the end of a leader that holds the lease a write of it can still take effect.
const SlowFence = SlowWriteTimeout + Fence

// SlowLease is that lease. It is held from before the first slow write is sent until the last has been answered, so a failover waits for
// slow writes only where there may be one. It is written again before later slow writes, and does not expire: what counts is whether it has a holder.
type SlowLease struct {
	leases typedcoordinationv1.LeaseInterface
	holder string
	clock  clock.PassiveClock

	mu sync.Mutex
	// held is when the lease was last seen to be held; zero when it is not.
	held time.Time
}

// NewSlowLease is the lease for a leader, which no other one calls itself.
func NewSlowLease(leases typedcoordinationv1.LeaseInterface, holder string, c clock.PassiveClock) *SlowLease {
	return &SlowLease{leases: leases, holder: holder, clock: c}
}

// Lane is a lane whose writes hold the lease.
func (s *SlowLease) Lane(client kubernetes.Interface) *SlowLane {
	return &SlowLane{Pods: NewSlowPods(client), Hold: s.Hold, Free: s.Free}
}

// slowLeaseTimeout is how long a write waits until the lease is held.
const slowLeaseTimeout = 5 * time.Second

// slowLeaseRenewal is after how long the lease is written again before the next slow write: it may have been deleted, or restored from a backup.
const slowLeaseRenewal = 10 * time.Second

// Hold makes sure that the lease has a holder; it does nothing where that was so a moment ago.
func (s *SlowLease) Hold(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Free says that no slow write is under way any more, if that is still so. If that fails the next leader waits for nothing, which is harmless.
func (s *SlowLease) Free(ctx context.Context, idle func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !idle() { // the write that has begun meanwhile goes on with the lease as it is
		return
	}
	s.held = time.Time{} // also where there is no answer: that the lease was given back may take effect all the same
	ctx, cancel := context.WithTimeout(ctx, slowLeaseTimeout)
	defer cancel()
	if err := s.write(ctx, ""); err != nil {
		klog.FromContext(ctx).Info("Cannot give the lease of slow writes back", "lease", SlowLeaseName, "reason", err.Error())
	}
}

func (s *SlowLease) write(ctx context.Context, holder string) error {
	lease, err := s.leases.Get(ctx, SlowLeaseName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading the lease %s: %w", SlowLeaseName, err)
	}
	if holder == "" && (missing || ptr.Deref(lease.Spec.HolderIdentity, "") != s.holder) {
		return nil // a later leader has it
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

// TakeOver clears what an earlier leader has left, when its writes can take effect no longer.
func (s *SlowLease) TakeOver(ctx context.Context) {
	if err := s.Hold(ctx); err != nil {
		klog.FromContext(ctx).Info("Cannot take over the lease of slow writes", "lease", SlowLeaseName, "reason", err.Error())
		return
	}
	s.Free(ctx, func() bool { return true })
}

// Fence is for how long a new leader waits before it reads the cluster: until no write of an earlier one can take effect any more.
func (s *SlowLease) Fence(ctx context.Context) time.Duration {
	if s.mayBeUnderWay(ctx) {
		return SlowFence
	}
	return Fence
}

// mayBeUnderWay is whether a slow write of an earlier leader may be under way. One that could not hold the lease, because it has no right to,
// has sent none.
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
