// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/api/everynode"
)

// cluster is an API server that raises generations, and perhaps another controller that observes them.
type cluster struct {
	mu sync.Mutex
	// other is whether another controller is at work.
	other bool
	// down makes every request fail, refused every change of the probe.
	down, refused bool
	// closed makes every change of the probe's status fail, by whomever.
	closed bool
	asks   int
	// settled counts how often the writes of the other were waited for.
	settled int
	guard   *Guard
	client  *fake.Clientset
	stop    func() // ends the guard
	clock   *clocktesting.FakeClock
	told    chan bool
	sent    *record.FakeRecorder
}

func start(t *testing.T, other bool, change ...func(c *cluster)) *cluster {
	t.Helper()
	c := &cluster{other: other, clock: clocktesting.NewFakeClock(time.Now()), told: make(chan bool, 10), sent: record.NewFakeRecorder(100)}
	for _, how := range change {
		how(c)
	}
	client := fake.NewClientset()
	client.PrependReactor("create", "daemonsets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.refused {
			return true, nil, apierrors.NewForbidden(appsv1.Resource("daemonsets"), everynode.ProbeName, errors.New("denied by a policy"))
		}
		a.(clienttesting.CreateAction).GetObject().(*appsv1.DaemonSet).Generation = 1
		return false, nil, nil
	})
	client.PrependReactor("*", "daemonsets", c.refuse)
	client.PrependReactor("patch", "daemonsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return c.raise(client, action)
	})
	client.PrependReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return c.observe(client)
	})
	c.client = client
	c.lead(t)
	return c
}

// lead starts a guard, as a new leader does. That of the leader before ends.
func (c *cluster) lead(t *testing.T) {
	t.Helper()
	if c.stop != nil {
		c.stop()
	}
	c.guard = New(Options{Client: c.client, Namespace: "ns", Events: c.sent, Clock: c.clock, Settle: c.settle, Changed: func(may bool) { c.told <- may }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.guard.Run(ctx)
	}()
	c.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(c.stop)
}

func (c *cluster) settle(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled++
	return nil
}

func (c *cluster) refuse(clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return true, nil, errors.New("connection refused")
	}
	return false, nil, nil
}

func (c *cluster) probe(client *fake.Clientset) *appsv1.DaemonSet {
	obj, err := client.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("daemonsets"), "ns", everynode.ProbeName)
	if err != nil {
		return nil
	}
	return obj.(*appsv1.DaemonSet).DeepCopy()
}

func (c *cluster) raise(client *fake.Clientset, action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if action.GetSubresource() == "status" {
		if c.closed {
			return true, nil, apierrors.NewInternalError(errors.New(`failed calling webhook "workloads.example": connection refused`))
		}
		return true, c.probe(client), nil
	}
	c.asks++
	p := c.probe(client)
	if c.refused {
		return true, nil, apierrors.NewInternalError(errors.New(`failed calling webhook "workloads.example": connection refused`))
	}
	p.Generation++
	return true, p, client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("daemonsets"), p, "ns")
}

// observe is the other controller: it has seen the newest generation by the time that anybody looks.
func (c *cluster) observe(client *fake.Clientset) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return true, nil, errors.New("connection refused")
	}
	p := c.probe(client)
	if p == nil {
		return false, nil, nil
	}
	if c.other && !c.closed {
		p.Status.ObservedGeneration = p.Generation
	}
	return true, p, client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("daemonsets"), p, "ns")
}

// next lets time go on until the guard says something.
func (c *cluster) next(t *testing.T) bool {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case may := <-c.told:
			return may
		case <-deadline:
			t.Fatal("the guard says nothing")
		default:
			if c.clock.HasWaiters() {
				c.clock.Step(time.Second)
			}
		}
	}
}

// passTime lets the guard wait 100 times, with a second for each.
func (c *cluster) passTime(t *testing.T) {
	t.Helper()
	deadline := time.After(time.Minute)
	for range 100 {
		for !c.clock.HasWaiters() {
			select {
			case <-c.told:
			case <-deadline:
				t.Fatal("the guard does not wait for time to pass")
			default:
				goruntime.Gosched()
			}
		}
		c.clock.Step(time.Second)
	}
}

func (c *cluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func TestNobodyElse(t *testing.T) {
	c := start(t, false)
	if c.guard.MayWrite() {
		t.Error("may write before anybody was asked")
	}
	if !c.next(t) || !c.guard.MayWrite() {
		t.Error("may not write although nobody else is at work")
	}
}

func TestSomebodyElseStopsUsAndLeaves(t *testing.T) {
	c := start(t, true)
	if c.next(t) || c.guard.MayWrite() {
		t.Fatal("may write although another controller is at work")
	}
	if event := <-c.sent.Events; !strings.Contains(event, ReasonConflict) || !strings.Contains(event, "--controllers=*,-daemonset") {
		t.Errorf("event %q does not say what to do", event)
	}
	c.set(func() { c.other = false })
	if !c.next(t) || !c.guard.MayWrite() {
		t.Error("may not write although the other controller has gone")
	}
	c.set(func() {
		if c.settled != 1 {
			t.Errorf("the writes of the other were waited for %d times", c.settled)
		}
	})
	c.set(func() { c.other = true })
	if c.next(t) {
		t.Error("another controller came later and was not found")
	}
}

func TestAnUnreachableServerChangesNothing(t *testing.T) {
	c := start(t, false)
	c.next(t)
	c.set(func() { c.down = true })
	for range 100 {
		if c.clock.HasWaiters() {
			c.clock.Step(time.Minute)
		}
	}
	if !c.guard.MayWrite() {
		t.Error("an error was taken for another controller")
	}
}

// TestAProbeThatMayNotBeChanged: a webhook for DaemonSets is down, or a policy refuses the probe. kube-controller-manager would create pods all the same, which the
// webhook may need, so a new leader does too: no controller has observed the probe as it is.
func TestAProbeThatMayNotBeChanged(t *testing.T) {
	c := start(t, false)
	c.next(t)
	c.set(func() { c.refused = true })
	c.lead(t)
	if !c.next(t) || !c.guard.MayWrite() {
		t.Fatal("a new leader may not write")
	}
	c.set(func() { c.other = true })
	if c.next(t) || c.guard.MayWrite() {
		t.Error("may write although another controller has come")
	}
}

// TestAProbeThatMayNotBeCreated: a policy refuses the first probe, so nothing shows whether another controller is active. The dialect writes nothing, which is
// reported as if one were, and ends when the probe exists.
func TestAProbeThatMayNotBeCreated(t *testing.T) {
	c := start(t, false, func(c *cluster) { c.refused = true })
	if c.next(t) || c.guard.MayWrite() || c.guard.Other() {
		t.Fatal("may write, or another controller counts as active, and neither is known")
	}
	c.passTime(t)
	if c.guard.MayWrite() {
		t.Error("may write after a while although nothing is known")
	}
	c.set(func() { c.refused = false })
	if !c.next(t) || !c.guard.MayWrite() {
		t.Error("may not write although the probe exists and no controller observes it")
	}
}

// TestAProbeThatMayNotBeChangedAndWasObserved: then the probe does not show whether the other controller is still active.
func TestAProbeThatMayNotBeChangedAndWasObserved(t *testing.T) {
	c := start(t, true)
	c.next(t)
	c.set(func() { c.other, c.refused = false, true })
	c.lead(t)
	c.passTime(t)
	if c.guard.MayWrite() {
		t.Error("may write although it is not known whether the other controller is active")
	}
	if c.guard.Other() {
		t.Error("another controller counts as active, and that is not known either")
	}
}

// TestAProbeThatNoControllerCanObserve: where the status cannot be written either, a probe that no controller has observed shows nothing.
func TestAProbeThatNoControllerCanObserve(t *testing.T) {
	c := start(t, false)
	c.next(t)
	c.set(func() { c.other, c.refused, c.closed = true, true, true })
	c.lead(t)
	c.passTime(t)
	if c.guard.MayWrite() {
		t.Error("may write although another controller is active, and cannot show it")
	}
}

func TestTheProbeMatchesNoNodeAndIsAllowedInARestrictedNamespace(t *testing.T) {
	spec := newProbe("ns").Spec.Template.Spec
	if len(spec.NodeSelector) == 0 {
		t.Error("no node selector: the probe would run everywhere")
	}
	if spec.SecurityContext == nil || spec.SecurityContext.RunAsNonRoot == nil || !*spec.SecurityContext.RunAsNonRoot {
		t.Error("the probe would be refused under Pod Security restricted")
	}
	if _, err := metav1.LabelSelectorAsSelector(newProbe("ns").Spec.Selector); err != nil {
		t.Error(err)
	}
}
