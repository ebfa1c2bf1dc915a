// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialects"
)

// leased is a cluster in which another manager may run, and a guard.
type leased struct {
	t      *testing.T
	other  dialect.Peer
	lease  string // the one that the other manager holds
	client *fake.Clientset
	clock  *clocktesting.FakeClock
	guard  *LeaseGuard
	told   chan bool
	down   atomic.Bool
	// settled counts calls of settle, which fails while broken, and calls then.
	settled atomic.Int32
	broken  atomic.Bool
	then    func()
}

func newLeased(t *testing.T) *leased { return newLeasedBy(t, dialects.PeerOf(dialects.Kruise)) }

func newLeasedBy(t *testing.T, other dialect.Peer) *leased {
	l := &leased{t: t, other: other, lease: other.Leases[0], client: fake.NewClientset(), clock: clocktesting.NewFakeClock(time.Now()), told: make(chan bool, 10)}
	l.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return l.down.Load(), nil, errors.New("connection refused")
	})
	l.guard = NewLeaseGuard(other, LeaseOptions{Client: l.client, Clock: l.clock, Settle: l.settle, Changed: func(may bool) { l.told <- may }})
	return l
}

func (l *leased) settle(context.Context) error {
	if l.guard.MayWrite() {
		l.t.Error("may write before everything has settled")
	}
	l.settled.Add(1)
	if l.broken.Load() {
		return errors.New("connection refused")
	}
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
	return nil
}

func (l *leased) run() {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.guard.Run(ctx)
	}()
	l.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// renew writes the lease as its holder does, whose clock is off by skew.
func (l *leased) renew(holder string, skew time.Duration) {
	l.t.Helper()
	seconds, at := int32(15), metav1.NewMicroTime(l.clock.Now().Add(skew))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.other.Namespace, Name: l.lease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
	leases := l.client.CoordinationV1().Leases(l.other.Namespace)
	_, err := leases.Update(l.t.Context(), lease, metav1.UpdateOptions{})
	if err != nil {
		_, err = leases.Create(l.t.Context(), lease, metav1.CreateOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// step lets the guard look once more, and returns when it has.
func (l *leased) step() {
	l.t.Helper()
	l.rests()
	l.clock.Step(lookEvery)
	l.rests()
}

// rests returns when the guard does nothing but wait.
func (l *leased) rests() {
	l.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !l.clock.HasWaiters() {
		if time.Now().After(deadline) {
			l.t.Fatal("the guard does not wait")
		}
		time.Sleep(time.Millisecond)
	}
}

func (l *leased) wants(may bool) {
	l.t.Helper()
	select {
	case got := <-l.told:
		if got != may || l.guard.MayWrite() != may {
			l.t.Fatalf("may write: told %v, says %v, want %v", got, l.guard.MayWrite(), may)
		}
	case <-time.After(time.Minute):
		l.t.Fatalf("nobody was told that may write is %v", may)
	}
}

func TestWithoutALeaseNobodyElseIsAtWork(t *testing.T) {
	l := newLeased(t)
	if l.guard.MayWrite() {
		t.Error("may write before it has looked")
	}
	l.run()
	l.wants(true)
	if l.settled.Load() != 0 {
		t.Error("waited for the writes of nobody")
	}
}

// TestALeaseThatComesLater: only at the first look can somebody have ended who was not seen; settling while others write would be no good.
func TestALeaseThatComesLater(t *testing.T) {
	l := newLeased(t)
	l.run()
	l.wants(true)
	l.renew("", 0)
	l.step()
	if l.settled.Load() != 0 || !l.guard.MayWrite() {
		t.Errorf("settled %d times, may write is %v", l.settled.Load(), l.guard.MayWrite())
	}
}

// TestTheLastWritesOfTheOtherAreWaitedFor: a lease that has ended does not mean that all writes of its holder have.
func TestTheLastWritesOfTheOtherAreWaitedFor(t *testing.T) {
	l := newLeased(t)
	l.renew("kruise-1", 0)
	l.run()
	l.wants(false)
	l.broken.Store(true)
	l.renew("", 0)
	l.step() // looks, but the cluster cannot be read
	l.step()
	if l.guard.MayWrite() {
		t.Error("may write on a view that may be older than the other's last write")
	}
	l.broken.Store(false)
	l.step()
	l.wants(true)
	if n := l.settled.Load(); n < 2 {
		t.Errorf("settled %d times", n)
	}
}

func TestALeaseGivenBackAMomentAgo(t *testing.T) {
	for skew, want := range map[time.Duration]int32{-time.Second: 1, time.Minute: 1, -time.Hour: 0} {
		l := newLeased(t)
		l.renew("", skew)
		l.run()
		l.wants(true)
		if n := l.settled.Load(); n != want {
			t.Errorf("given back %s ago: settled %d times, want %d", -skew, n, want)
		}
	}
}

func TestTheOtherComesBackWhileItIsWaitedFor(t *testing.T) {
	l := newLeased(t)
	l.renew("kruise-1", 0)
	l.run()
	l.wants(false)
	back := make(chan struct{})
	l.then = func() { l.renew("kruise-2", 0); close(back) }
	l.renew("", 0)
	l.step()
	<-back
	if l.guard.MayWrite() || l.settled.Load() != 1 {
		t.Errorf("may write: %v, settled %d times", l.guard.MayWrite(), l.settled.Load())
	}
	l.renew("", 0)
	l.step()
	l.wants(true)
}

func TestALeaseInUseKeepsTheDialectFromWriting(t *testing.T) {
	l := newLeased(t)
	l.renew("kruise-1", 0)
	l.run()
	l.wants(false)
	l.step() // 10 s old
	l.step() // 20 s old: the holder is gone
	l.wants(true)
	for _, skew := range []time.Duration{-time.Minute, time.Hour} { // clocks of nodes differ
		l.renew("kruise-2", skew)
		l.step()
		l.wants(false)
		l.renew("", 0)
		l.step()
		l.wants(true)
	}
}

// TestTheFirstLookAtALease: when it was renewed tells nothing, for our clock may be fast; it is waited for once whether that goes on.
func TestTheFirstLookAtALease(t *testing.T) {
	for _, skew := range []time.Duration{-maxSkew - time.Minute, -abandoned} {
		l := newLeased(t)
		l.renew("kruise-1", skew)
		l.run()
		l.wants(false)
		l.step() // 10 s old
		l.step() // 20 s old: the holder is gone
		l.wants(true)
	}
}

// TestAnOldLeaseIsNoReasonToWait: it stays in every cluster that was taken over from OpenKruise. But whoever renews it is at work.
func TestAnOldLeaseIsNoReasonToWait(t *testing.T) {
	l := newLeased(t)
	l.renew("kruise-1", -abandoned-time.Minute)
	l.run()
	l.wants(true)
	l.renew("kruise-1", -abandoned-time.Second)
	l.step()
	l.wants(false)
}

// TestAnErrorShowsNothing: until the lease can be read nothing is written, which is reported once, as if the other manager were active.
func TestAnErrorShowsNothing(t *testing.T) {
	l := newLeased(t)
	l.down.Store(true)
	l.run()
	l.wants(false)
	l.step()
	if l.guard.MayWrite() {
		t.Error("may write, but it is not known whether somebody else does")
	}
	l.down.Store(false)
	l.step()
	l.wants(true)
}

// TestAClockThatIsSetForward: a lease that is seen to be renewed is in use, whatever our clock says of its time.
func TestAClockThatIsSetForward(t *testing.T) {
	l := newLeased(t)
	l.renew("kruise-1", 0)
	l.run()
	l.wants(false)
	for range 3 {
		l.renew("kruise-1", -maxSkew-time.Minute)
		l.step()
	}
	if l.guard.MayWrite() {
		t.Error("may write while the other goes on to renew its lease")
	}
}

// A lease that claims to last for decades counts for as long as one that is not renewed may: anybody who may write in a namespace of that name
// could stop the dialect for ever.
func TestALeaseThatClaimsDecades(t *testing.T) {
	l := newLeased(t)
	now := metav1.NewMicroTime(l.clock.Now())
	holder, decades := "somebody", int32(1<<31-1)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.other.Namespace, Name: l.lease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &decades, RenewTime: &now},
	}
	if !l.guard.held(lease) {
		t.Error("a lease that was renewed just now does not count")
	}
	l.clock.Step(longestLease)
	if l.guard.held(lease) {
		t.Errorf("a lease that was not renewed for %s counts", longestLease)
	}
}
