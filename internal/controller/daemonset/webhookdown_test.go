// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAWebhookThatIsDownFailsNoRevision: a webhook that cannot be called for a while says nothing about a revision.
func TestAWebhookThatIsDownFailsNoRevision(t *testing.T) {
	w, r := judgedWorld(t)
	w.crashing("none")
	w.before = func(verb, name string) error {
		if verb == "create" {
			return apierrors.NewInternalError(errors.New(`failed calling webhook "pods.example.com": connection refused`))
		}
		return nil
	}
	for range 30 * 60 {
		w.deliver()
		_ = w.pass()
		w.kubelets()
		w.clock.Step(time.Second)
	}
	if st := r.last(); st.Failure != nil {
		t.Errorf("no pod of the revision has ever been created or denied: %s %+v", st.Failure.Message, st.Waves[0].FailedNodes)
	}
}
