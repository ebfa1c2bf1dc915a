// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/test/harness"
)

// The lease of yurt-manager, and what Everynode's says about it: see internal/controller/conflict.
const (
	leaseNamespace = "kube-system"
	leaseName      = "yurt-manager"
	atWork         = "OpenYurt's own yurt-manager is active"
	notAtWork      = "OpenYurt's own yurt-manager is not active"
)

// yurtManagerAtWork: while yurt-manager holds its lease no old pod is deleted for its annotations; then they are by themselves.
func yurtManagerAtWork(t *testing.T, c *harness.Cluster) {
	s := c.Space(t, 4)
	s.Run(set, harness.WithOnDelete, rolls("50%"))
	recorder := s.Observe(set)
	said := len(c.Log(harness.ManagerComponent))
	leases := c.Client.CoordinationV1().Leases(leaseNamespace)
	_, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("yurt-manager-0"), LeaseDurationSeconds: new(int32(60)), RenewTime: new(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitLog(s, said, atWork)
	said = len(c.Log(harness.ManagerComponent))
	s.Update(set, harness.WithImage(harness.Image2))
	s.Wait("the new revision is known", harness.Observed(set, 2))
	left := time.Now()
	if err := leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitLog(s, said, notAtWork)
	s.Wait("the roll begins by itself", runs(harness.Image2, s.Nodes), ready(4))
	if _, err := recorder.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, event := range recorder.Log() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.DeletionTimestamp != nil && event.At.Before(left) {
			t.Errorf("pod %s was deleted while yurt-manager was at work: %s", pod.Name, event)
		}
	}
}

// waitLog waits until the manager has said a text after what it had said before.
func waitLog(s *harness.Space, said int, text string) {
	s.Poll("the manager says: "+text, func() error {
		if !strings.Contains(s.Cluster.Log(harness.ManagerComponent)[said:], text) {
			return errors.New("it has not")
		}
		return nil
	})
}
