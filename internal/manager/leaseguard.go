// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
)

// leaseGuard tracks how long this manager may write: until the renew deadline after the last renewal of its lease. The
// timers of leader election are not sufficient: if the process was paused for a while, for example during the migration
// of a virtual machine, its writes continue at the same time as the timer that should stop them, and another manager
// may be the leader by then. So each write checks the leaseGuard just before it is sent.
type leaseGuard struct {
	deadline time.Duration
	clock    clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time // when the last successful renewal was sent; zero if the lease is not held
	bound   bool      // see bind
}

// holds reports whether the lease is still held. It uses the later of the monotonic and the wall clock: one stops while
// the machine is suspended, and the other can be set.
func (t *leaseGuard) holds() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	passed := max(now.Sub(t.renewed), now.Round(0).Sub(t.renewed.Round(0)))
	return !t.renewed.IsZero() && passed < t.deadline
}

// renew sends a renewal. It counts from the time before it was sent, because other managers may have observed it
// immediately.
func (t *leaseGuard) renew(send func() error) error {
	began := t.clock.Now()
	if err := send(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = began
	return nil
}

func (t *leaseGuard) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = time.Time{}
}

// bind keeps the lease until it expires, even if this manager stops, until free is called. The next leader then waits
// for the writes of this manager, and this manager still waits for those of the leader before.
func (t *leaseGuard) bind() (free func()) {
	set := func(bound bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.bound = bound
	}
	set(true)
	return func() { set(false) }
}

func (t *leaseGuard) isBound() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bound
}

// lock is the leader election lock; it reports its state to leaseGuard.
type lock struct {
	*resourcelock.LeaseLock
	leaseGuard *leaseGuard
}

// newLock creates the lock as controller-runtime does. A request of the lock that hangs does not cost the leadership.
func newLock(o *options, cfg *rest.Config, t *leaseGuard) (*lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the name of this machine for the lease: %w", err)
	}
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election")
	cfg.Timeout = max(o.renewDeadline/2, time.Second)
	client, err := coordinationv1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &lock{leaseGuard: t, LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: leaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}}, nil
}

// Get implements resourcelock.Interface. If another manager holds the lease, this manager stops immediately, before
// leader election gives up.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.leaseGuard.end()
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.leaseGuard.renew(func() error { return l.LeaseLock.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == l.Identity() {
		return l.leaseGuard.renew(func() error { return l.LeaseLock.Update(ctx, record) })
	}
	l.leaseGuard.end() // the lease is released
	if l.leaseGuard.isBound() {
		return nil // it expires
	}
	return l.LeaseLock.Update(ctx, record)
}

// guard rejects writes of the clients of cfg while the lease is not held. It is the last check before a request is
// sent.
func (t *leaseGuard) guard(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet || t.holds() {
				return next.RoundTrip(r)
			}
			if r.Body != nil {
				_ = r.Body.Close() // as required of a RoundTripper
			}
			return nil, apply.ErrNotLeading
		})
	})
	return cfg
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
