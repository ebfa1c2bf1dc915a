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

// TestPodsOfStrangers: pods of another namespace that name the set as their owner take no part in it, whether they run or are on their way out.
func TestPodsOfStrangers(t *testing.T) {
	c := cluster(t)
	s, tenant := c.Space(t, 3), c.Space(t, 0)
	set := s.Run("ds")
	before := harness.UIDs(s.View().Pods("ds"))
	for i, node := range s.Nodes {
		manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: stranger-%d
  labels: {app: ds}
  finalizers: [example.com/somebody]
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: ds, uid: %s, controller: true}]
spec:
  nodeName: %s
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: registry.example/stranger}]
`, i, set.UID, node)
		if out, err := tenant.KubectlWith(manifest, "create", "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		for i := range s.Nodes {
			_, _ = tenant.KubectlWith("", "patch", "pod", fmt.Sprint("stranger-", i), "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		}
	})
	written := s.Update("ds", harness.WithMinReady(1))
	s.Wait("the set is looked at again", harness.RolledOut("ds", written.Generation, 3))
	tenant.Kubectl("delete", "pods", "--all", "--wait=false")
	written = s.Update("ds", harness.WithMinReady(2))
	s.Wait("the set is looked at again", harness.RolledOut("ds", written.Generation, 3))
	if now := harness.UIDs(s.View().Pods("ds")); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods %v became %v", before, now)
	}
	written = s.Update("ds", harness.WithImage(harness.Image2))
	s.Wait("the roll ends", harness.RolledOut("ds", written.Generation, 3))
}
