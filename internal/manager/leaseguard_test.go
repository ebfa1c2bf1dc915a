// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/internal/apply"
)

// terms are two managers and their lease.
type terms struct {
	clock  *clocktesting.FakePassiveClock
	client *fake.Clientset
	locks  [2]*lock
}

func newTerms(t *testing.T) *terms {
	t.Helper()
	o, err := parse(t, "")
	if err != nil {
		t.Fatal(err)
	}
	w := &terms{clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), client: fake.NewClientset()}
	for i := range w.locks {
		w.locks[i], err = newLock(o, &rest.Config{Host: "https://nowhere"}, &leaseGuard{deadline: o.renewDeadline, clock: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		w.locks[i].Client = w.client.CoordinationV1()
	}
	return w
}

func (w *terms) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func recordOf(l *lock) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}
}

func TestTenure(t *testing.T) {
	w := newTerms(t)
	a, b := w.locks[0], w.locks[1]
	holds := func(after string, wantA, wantB bool) {
		t.Helper()
		if gotA, gotB := a.leaseGuard.holds(), b.leaseGuard.holds(); gotA != wantA || gotB != wantB {
			t.Errorf("after %s: %v and %v, want %v and %v", after, gotA, gotB, wantA, wantB)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	holds("the start", false, false)
	do(a.Create(t.Context(), recordOf(a)))
	holds("a lease is made", true, false)
	w.pass(6 * time.Second)
	do(a.Update(t.Context(), recordOf(a)))
	w.pass(6 * time.Second)
	holds("a renewal", true, false)
	w.pass(time.Second)
	holds("the deadline", false, false)
	do(a.Update(t.Context(), recordOf(a)))
	holds("a late renewal", true, false)
	w.pass(-time.Hour)
	holds("the clock was set back", true, false)
	do(a.Update(t.Context(), recordOf(a)))

	// A renewal that has no answer is none; one that takes long counts from its beginning.
	refuse := errors.New("no answer")
	w.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.pass(5 * time.Second)
		return refuse != nil, nil, refuse
	})
	if err := a.Update(t.Context(), recordOf(a)); !errors.Is(err, refuse) {
		t.Fatal(err)
	}
	holds("a renewal failed", true, false)
	w.pass(2 * time.Second)
	holds("the deadline of the last that succeeded", false, false)
	refuse = nil
	do(a.Update(t.Context(), recordOf(a)))
	w.pass(2 * time.Second)
	holds("the deadline of a slow one", false, false)
	do(a.Update(t.Context(), recordOf(a)))

	// Somebody deletes the lease, and the other one makes it anew.
	do(w.client.CoordinationV1().Leases("everynode-system").Delete(t.Context(), leaseName, metav1.DeleteOptions{}))
	do(b.Create(t.Context(), recordOf(b)))
	holds("the lease was deleted", true, true)
	_, _, err := a.Get(t.Context())
	do(err)
	holds("it was seen who has it", false, true)

	given := recordOf(b)
	given.HolderIdentity = ""
	do(b.Update(t.Context(), given))
	holds("it was given back", false, false)
}

// A manager that still waits for the writes of an earlier one keeps the lease: the next one would wait only for its own.
func TestALeaseIsNotGivenBackTooEarly(t *testing.T) {
	w := newTerms(t)
	a := w.locks[0]
	if err := a.Create(t.Context(), recordOf(a)); err != nil {
		t.Fatal(err)
	}
	free := a.leaseGuard.bind()
	for _, want := range []string{a.Identity(), ""} {
		if err := a.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Fatal(err)
		}
		if got, _, err := a.Get(t.Context()); err != nil || got.HolderIdentity != want || a.leaseGuard.holds() {
			t.Errorf("the lease belongs to %+v, want %q; holds: %v, %v", got, want, a.leaseGuard.holds(), err)
		}
		free()
	}
}

// Whatever the controllers write, and not only to pods, is refused before it is sent.
func TestNoWriteLeavesWithoutTheLease(t *testing.T) {
	var written atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			written.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`))
	}))
	defer server.Close()
	now := clocktesting.NewFakePassiveClock(time.Now())
	own := &leaseGuard{deadline: 7 * time.Second, clock: now}
	client, err := kubernetes.NewForConfig(own.guard(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("ns").Create(ctx, &corev1.ConfigMap{}, metav1.CreateOptions{})
		return err
	}
	if err := own.renew(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context()); err != nil || written.Load() != 1 {
		t.Errorf("with the lease: %d written, %v", written.Load(), err)
	}
	now.SetTime(now.Now().Add(7 * time.Second))
	if err := write(t.Context()); apply.OfCreate(err) != apply.Busy || !strings.Contains(err.Error(), "not sent") || written.Load() != 1 {
		t.Errorf("without the lease: %d written, %v", written.Load(), err)
	}
	if _, err := client.CoreV1().ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("reading without the lease: %v", err)
	}
}

// The lease is asked for as controller-runtime does it, with a user agent of its own, and without changing how others ask.
func TestTheLockIsTheOneOfTheLibrary(t *testing.T) {
	agents := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent() + " " + r.URL.Path
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	o, err := parse(t, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: server.URL, UserAgent: "everynode-manager"}
	l, err := newLock(o, cfg, &leaseGuard{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Get(t.Context()); err == nil {
		t.Error("a lease where there is none")
	}
	const want = "/leader-election /apis/coordination.k8s.io/v1/namespaces/everynode-system/leases/everynode-manager"
	if got := <-agents; !strings.HasSuffix(got, want) {
		t.Errorf("asked as %s, want %s", got, want)
	}
	if cfg.UserAgent != "everynode-manager" || cfg.Timeout != 0 {
		t.Errorf("the others ask as %s, with the time-out %v", cfg.UserAgent, cfg.Timeout)
	}
}
