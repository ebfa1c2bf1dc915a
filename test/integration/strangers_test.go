// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	"everynode.dev/everynode/test/harness"
)

// TestARevisionWithAFinalizer: the only revision is deleted, and a finalizer of somebody else keeps it for a while. No pod is restarted, neither then
// nor when it has gone.
func TestARevisionWithAFinalizer(t *testing.T) {
	s := cluster(t).Space(t, 3)
	s.Run("ds")
	before := harness.UIDs(s.View().Pods("ds"))
	revision := strings.TrimSpace(s.Kubectl("get", "controllerrevisions", "-o", "name"))
	s.Kubectl("patch", revision, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/somebody"]}}`)
	s.Kubectl("delete", revision, "--wait=false")
	unharmed := func(when string, seconds int32) {
		t.Helper()
		written := s.Update("ds", harness.WithMinReady(seconds)) // the manager has looked since
		s.Wait(when+": the set is looked at again", harness.RolledOut("ds", written.Generation, 3))
		if now := harness.UIDs(s.View().Pods("ds")); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("%s: the pods %v became %v", when, before, now)
		}
	}
	unharmed("it is being deleted", 1)
	s.Kubectl("patch", revision, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.Poll("there is one again", func() error {
		if out := s.Kubectl("get", "controllerrevisions", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}{.items[*].metadata.name}"); out != strings.TrimPrefix(revision, "controllerrevision.apps/") {
			return fmt.Errorf("revisions: %s", out)
		}
		return nil
	})
	unharmed("it has gone", 2)
}
