// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestALeaseOfSlowWritesThatSomebodyDeletes: slow writes go on for hours where a webhook is slow, and each of them is announced. So who deletes the lease meanwhile,
// or restores the storage from a copy of before, does not have a later leader begin while one may still take effect.
func TestALeaseOfSlowWritesThatSomebodyDeletes(t *testing.T) {
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("everynode-system")
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	a, b := &SlowLease{leases: leases, holder: "a", clock: clock}, &SlowLease{leases: leases, holder: "b", clock: clock}
	if err := a.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := leases.Delete(t.Context(), SlowLeaseName, metav1.DeleteOptions{}); err != nil {
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

// TestALeaseOfSlowWritesThatMayBeGivenBack: to give the lease back may take effect although no answer comes. The next slow write announces itself anew.
func TestALeaseOfSlowWritesThatMayBeGivenBack(t *testing.T) {
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("everynode-system")
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	a, b := &SlowLease{leases: leases, holder: "a", clock: clock}, &SlowLease{leases: leases, holder: "b", clock: clock}
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
