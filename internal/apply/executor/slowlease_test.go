// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func TestTheLeaseOfSlowWrites(t *testing.T) {
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("everynode-system")
	as := func(holder string) *SlowLease {
		return NewSlowLease(leases, holder, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)))
	}
	holder := func() string {
		lease, err := leases.Get(t.Context(), SlowLeaseName, metav1.GetOptions{})
		if err != nil {
			return "error: " + err.Error()
		}
		return ptr.Deref(lease.Spec.HolderIdentity, "none")
	}
	idle, busy := func() bool { return true }, func() bool { return false }
	a, b := as("a"), as("b")
	if b.mayBeUnderWay(t.Context()) {
		t.Error("without a lease something may be under way")
	}
	for range 2 {
		if err := a.Hold(t.Context()); err != nil || holder() != "a" || !b.mayBeUnderWay(t.Context()) {
			t.Fatalf("held by %q, error %v", holder(), err)
		}
	}
	if a.Free(t.Context(), busy); holder() != "a" {
		t.Error("given back while a write is under way")
	}
	if a.Free(t.Context(), idle); holder() != "" || b.mayBeUnderWay(t.Context()) {
		t.Errorf("held by %q after it was given back", holder())
	}
	if err := a.Hold(t.Context()); err != nil || holder() != "a" {
		t.Errorf("held by %q, error %v: it is to be held once more", holder(), err)
	}
	if b.TakeOver(t.Context()); holder() != "" {
		t.Errorf("held by %q: what the last leader has left makes every later one wait", holder())
	}
	if err := b.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.Free(t.Context(), idle); holder() != "b" {
		t.Errorf("held by %q: the last leader has given back what is not its own", holder())
	}
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("down") })
	if c := as("c"); c.Hold(t.Context()) == nil || !c.mayBeUnderWay(t.Context()) {
		t.Error("what is not known counts as held")
	}
}

// twoManagers are two of the same cluster, of which either may hold the lease.
func twoManagers() (client *fake.Clientset, clock *clocktesting.FakePassiveClock, a, b *SlowLease) {
	client = fake.NewClientset()
	leases := client.CoordinationV1().Leases("everynode-system")
	clock = clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	return client, clock, NewSlowLease(leases, "a", clock), NewSlowLease(leases, "b", clock)
}

// TestALeaseOfSlowWritesThatSomebodyDeletes: slow writes go on for hours where a webhook is slow, and each of them is announced. So who deletes the lease meanwhile,
// or restores the storage from a copy of before, does not have a later leader begin while one may still take effect.
func TestALeaseOfSlowWritesThatSomebodyDeletes(t *testing.T) {
	_, clock, a, b := twoManagers()
	if err := a.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.leases.Delete(t.Context(), SlowLeaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	if err := a.Hold(t.Context()); err != nil { // before the next slow write
		t.Fatal(err)
	}
	if !b.mayBeUnderWay(t.Context()) {
		t.Error("a slow write was announced a moment ago, and the next leader does not wait for it")
	}
}

// TestALeaseOfSlowWritesThatMayBeGivenBack: to give the lease back may take effect although no answer comes. So the next slow write is announced again.
func TestALeaseOfSlowWritesThatMayBeGivenBack(t *testing.T) {
	client, _, a, b := twoManagers()
	if err := a.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := true
	client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !lost {
			return false, nil, nil
		}
		lost = false
		object := action.(clienttesting.UpdateAction).GetObject()
		return true, nil, errors.Join(errors.New("no answer"), client.Tracker().Update(action.GetResource(), object, action.GetNamespace()))
	})
	a.Free(t.Context(), func() bool { return true })
	if err := a.Hold(t.Context()); err != nil { // before the next slow write, a moment later
		t.Fatal(err)
	}
	if !b.mayBeUnderWay(t.Context()) {
		t.Error("a slow write is under way, and the next leader does not wait for it")
	}
}

// TestWritesThatWaitForTheLeaseShareAnAttempt: while the API server gives no answer, each of 128 slow writes would otherwise try by itself, for 5 seconds, one after
// the other.
func TestWritesThatWaitForTheLeaseShareAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		asked, answer := 0, make(chan struct{})
		client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			<-answer
			return true, nil, errors.New("down")
		})
		lease := NewSlowLease(client.CoordinationV1().Leases("everynode-system"), "a", clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)))
		results := make(chan error, 8)
		for range cap(results) {
			go func() { results <- lease.Hold(t.Context()) }()
		}
		synctest.Wait()
		close(answer)
		for range cap(results) {
			if err := <-results; err == nil {
				t.Error("held without an answer")
			}
		}
		if asked != 1 {
			t.Errorf("the lease was read %d times", asked)
		}
	})
}
