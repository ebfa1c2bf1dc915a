// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"everynode.dev/everynode/internal/apply/executor"
)

// slowLeaseName is the name of the lease by which a leader says that it may have writes under way that take up to executor.SlowWriteTimeout.
const slowLeaseName = "everynode-manager-slow-writes"

// slowFence is for how long after the end of a leader that holds the lease a write of it can still take effect.
const slowFence = executor.SlowWriteTimeout + executor.Fence

// slowLease is that lease. It is held from before the first slow write is sent until the last has been answered, so a failover waits for
// slow writes only where there may be one. It is written again before later slow writes, and does not expire: what counts is whether it has a holder.
type slowLease struct {
	leases typedcoordinationv1.LeaseInterface
	holder string
	clock  clock.PassiveClock

	mu sync.Mutex
	// held is when the lease was last seen to be held; zero when it is not.
	held time.Time
}

func newSlowLease(client kubernetes.Interface, namespace string) *slowLease {
	return &slowLease{leases: client.CoordinationV1().Leases(namespace), holder: string(uuid.NewUUID()), clock: clock.RealClock{}}
}

// lane is a lane whose writes hold the lease.
func (s *slowLease) lane(client kubernetes.Interface) *executor.SlowLane {
	return &executor.SlowLane{Pods: executor.NewSlowPods(client), Hold: s.hold, Free: s.free}
}

// slowLeaseTimeout is how long a write waits until the lease is held.
const slowLeaseTimeout = 5 * time.Second

// slowLeaseRenewal is after how long the lease is written again before the next slow write: it may have been deleted, or restored from a backup.
const slowLeaseRenewal = 10 * time.Second

// hold makes sure that the lease has a holder; it does nothing where that was so a moment ago.
func (s *slowLease) hold(ctx context.Context) error {
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

// free says that no slow write is under way any more, if that is still so. If that fails the next leader waits for nothing, which is harmless.
func (s *slowLease) free(ctx context.Context, idle func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !idle() { // the write that has begun meanwhile goes on with the lease as it is
		return
	}
	ctx, cancel := context.WithTimeout(ctx, slowLeaseTimeout)
	defer cancel()
	if err := s.write(ctx, ""); err != nil {
		klog.FromContext(ctx).Info("Cannot give the lease of slow writes back", "lease", slowLeaseName, "reason", err.Error())
		return
	}
	s.held = time.Time{}
}

func (s *slowLease) write(ctx context.Context, holder string) error {
	lease, err := s.leases.Get(ctx, slowLeaseName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading the lease %s: %w", slowLeaseName, err)
	}
	if holder == "" && (missing || ptr.Deref(lease.Spec.HolderIdentity, "") != s.holder) {
		return nil // a later leader has it
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: slowLeaseName}}
	}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To(int32(slowFence / time.Second)), RenewTime: &metav1.MicroTime{Time: s.clock.Now()},
	}
	if missing {
		_, err = s.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = s.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the lease %s: %w", slowLeaseName, err)
	}
	return nil
}

// takeOver clears what an earlier leader has left, when its writes can take effect no longer.
func (s *slowLease) takeOver(ctx context.Context) {
	if err := s.hold(ctx); err != nil {
		klog.FromContext(ctx).Info("Cannot take over the lease of slow writes", "lease", slowLeaseName, "reason", err.Error())
		return
	}
	s.free(ctx, func() bool { return true })
}

// mayBeUnderWay is whether a slow write of an earlier leader may be under way. One that could not hold the lease, because it has no right to,
// has sent none.
func (s *slowLease) mayBeUnderWay(ctx context.Context) bool {
	lease, err := s.leases.Get(ctx, slowLeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false
	case err != nil:
		return true
	default:
		return ptr.Deref(lease.Spec.HolderIdentity, "") != ""
	}
}
