// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"everynode.dev/everynode/api/everynode"
)

// SecondManager is the component of the second manager of a plane that has two.
const SecondManager = ManagerComponent + "-2"

// Leader is the one of two managers that leads, as its metrics say, and the other one.
func (s *Space) Leader(t testing.TB) (leader, other string) {
	t.Helper()
	s.Poll("a manager leads", func() error {
		var errs []error
		for _, pair := range [][2]string{{ManagerComponent, SecondManager}, {SecondManager, ManagerComponent}} {
			leads, err := s.Cluster.Gauge(s.ctx, pair[0], "leader_election_master_status", nil)
			if leads == 1 {
				leader, other = pair[0], pair[1]
				return nil
			}
			errs = append(errs, err)
		}
		return fmt.Errorf("none does: %w", errors.Join(errs...))
	})
	return leader, other
}

// SlowWriter is the holder of the lease that a leader holds while it may have slow writes, and empty if there is none.
func (c *Cluster) SlowWriter(t testing.TB) string {
	t.Helper()
	const slowWrites = "everynode-manager-slow-writes"
	lease, err := c.Client.CoordinationV1().Leases(everynode.Namespace).Get(t.Context(), slowWrites, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}
