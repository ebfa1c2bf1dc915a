// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// The lease of OpenKruise's manager, and what Everynode's says about it: see internal/controller/conflict.
const (
	kruiseNamespace = "kruise-system"
	kruiseLease     = "kruise-manager"
	kruiseAtWork    = "scale that manager to zero, or leave kruise out of --dialects"
	kruiseGone      = "OpenKruise's own manager is not active"
)

// openkruise stands in for OpenKruise's manager: it holds the lease of its leader, and does nothing else.
type openkruise struct {
	s        *harness.Space
	stop     chan struct{}
	finished chan struct{}
}

const (
	leaseSeconds = 5
	renewEvery   = time.Second
)

// startOpenkruise takes the lease, and waits until Everynode's manager has noticed.
func startOpenkruise(t *testing.T, s *harness.Space) *openkruise {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kruiseNamespace}}
	_, err := s.Cluster.Client.CoreV1().Namespaces().Create(s.Context(), namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	o := &openkruise{s: s, stop: make(chan struct{}), finished: make(chan struct{})}
	leases := s.Cluster.Client.CoordinationV1().Leases(kruiseNamespace)
	lease, err := leases.Create(s.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: kruiseLease},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("kruise-controller-manager-0"), LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: new(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	said := len(s.Cluster.Log(harness.ManagerComponent))
	go o.renew(t, lease)
	t.Cleanup(func() { o.leaves(t) }) // once is enough, but a test may fail before
	waitLog(s, said, kruiseAtWork)
	return o
}

func (o *openkruise) renew(t *testing.T, lease *coordinationv1.Lease) {
	defer close(o.finished)
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-o.stop:
			return
		case <-o.s.Context().Done():
			return
		case <-tick.C:
		}
		lease.Spec.RenewTime = new(metav1.NowMicro())
		renewed, err := o.s.Cluster.Client.CoordinationV1().Leases(kruiseNamespace).Update(o.s.Context(), lease, metav1.UpdateOptions{})
		if err != nil {
			t.Errorf("renewing the lease: %v", err)
			return
		}
		lease = renewed
	}
}

// falls ends the manager without its giving the lease back.
func (o *openkruise) falls() {
	select {
	case <-o.stop:
	default:
		close(o.stop)
	}
	<-o.finished
}

// leaves ends the manager and takes the lease away.
func (o *openkruise) leaves(t *testing.T) {
	t.Helper()
	o.falls()
	err := o.s.Cluster.Client.CoordinationV1().Leases(kruiseNamespace).Delete(context.WithoutCancel(o.s.Context()), kruiseLease, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// waitLog waits until the manager has said a text after what it had said before.
func waitLog(s *harness.Space, said int, text string) {
	s.Poll("the manager says: "+text, func() error {
		if !strings.Contains(s.Cluster.Log(harness.ManagerComponent)[said:], text) {
			return fmt.Errorf("it has not")
		}
		return nil
	})
}

// openkruiseAtWork: while OpenKruise's manager renews its lease, Everynode writes nothing for Advanced DaemonSets and says
// what to do; sets of apps/v1 are looked after as ever. Once the lease has run out it goes to work by itself.
func openkruiseAtWork(t *testing.T) {
	s := cluster(t).Space(t, allNodes)
	o := startOpenkruise(t, s)
	w := newWitness(t, s)
	p := recorded(t, "minimal", openkruise13)
	apply(t, s, p.manifest(beta, standard))
	s.Run("native", harness.WithBudget("20%", "0"))
	if set := s.View().Advanced(agent); set == nil || set.Status.ObservedGeneration > 0 || len(set.Finalizers) != 0 {
		t.Errorf("the Advanced set was written to: %+v", set)
	}
	for _, revision := range s.View().Revisions() {
		if strings.HasPrefix(revision.Name, agent) {
			t.Errorf("revision %s was made", revision.Name)
		}
	}
	w.sawNothing(t, "OpenKruise at work")
	said := len(s.Cluster.Log(harness.ManagerComponent))
	o.falls()
	waitLog(s, said, kruiseGone)
	s.Wait("Everynode goes to work", harness.RolledOut(agent, 1, allNodes))
}
