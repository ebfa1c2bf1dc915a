// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/harness"
)

// neighbours plays what others in the cluster do (harness.Subject). AdvancedRollingUpdate deletes pods, and neither changes them nor surges.
func neighbours(t *testing.T, c *harness.Cluster) {
	subject := func(t *testing.T, nodes int) *harness.Subject {
		s := c.Space(t, nodes)
		return &harness.Subject{
			Space: s, Set: set, APIVersion: "apps/v1", Kind: "DaemonSet", Image: harness.Image2,
			Create: func() { s.Create(set, harness.WithOnDelete, rolls("1")) },
			Roll:   func() { s.Update(set, harness.WithImage(harness.Image2)) },
			Touch: func(seconds int) {
				written := s.Update(set, harness.WithMinReady(int32(seconds)))
				s.Wait("the set is looked at again", harness.RolledOut(set, written.Generation, len(s.Nodes)))
			},
			UID: func() types.UID { return s.View().Set(set).UID },
		}
	}
	t.Run("ProtectedOnTheFirstNode", func(t *testing.T) { subject(t, 7).OneProtectedPod("DELETE", false) })
	t.Run("ProtectedOnTheLastNode", func(t *testing.T) { subject(t, 7).OneProtectedPod("DELETE", true) })
	t.Run("DeleteWebhookIsDown", func(t *testing.T) { subject(t, 7).ADeleteWebhookThatIsDown() })
	t.Run("WebhookNeverAnswers", func(t *testing.T) { subject(t, 7).AWebhookThatNeverAnswers() })
	t.Run("WebhookDeniesWithoutACode", func(t *testing.T) { subject(t, 7).AWebhookThatDeniesWithoutACode() })
	t.Run("ARevisionWithAFinalizer", func(t *testing.T) { subject(t, 7).ARevisionWithAFinalizer() })
	t.Run("PodsOfStrangers", func(t *testing.T) { subject(t, 7).PodsOfStrangers(t, c.Space(t, 0)) })
}
