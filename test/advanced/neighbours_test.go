// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/test/harness"
)

// neighbourScenarios are about what others in the cluster do: a policy that protects the pod of one node, while all others are updated with a budget
// of one, and it follows when the policy has gone; and people who delete revisions.
func neighbourScenarios() []scenario {
	return []scenario{
		{"protected-from-being-deleted", 7, true, protected("DELETE", "maxUnavailable: 1", false)},
		{"revision-with-a-finalizer-is-deleted", 3, false, revisionIsDeleted},
		{"protected-from-being-deleted-on-the-last-node", 7, false, protected("DELETE", "maxUnavailable: 1", true)},
		{"protected-from-being-changed-in-place", 7, false, protected("UPDATE", inPlace+", maxUnavailable: 1", false)},
	}
}

func protected(operation, strategy string, last bool) func(s *stage) {
	return func(s *stage) {
		s.run(rolling(strategy))
		nodes := s.sorted()
		at := 0
		if last {
			at = len(nodes) - 1
		}
		kept := s.pod(nodes[at])
		others := slices.Delete(slices.Clone(nodes), at, at+1)
		remove := s.Apply(s.PodPolicy(operation, fmt.Sprintf("oldObject.metadata.name != '%s'", kept.Name)))
		probe := []string{"delete", "pod", kept.Name, "--dry-run=server"}
		if operation == "UPDATE" {
			probe = []string{"annotate", "pod", kept.Name, "probe=yes", "--dry-run=server"}
		}
		s.InForce("this one is protected", "", probe...)
		s.apply(withImage(two))
		s.WaitFor(90*time.Second, "all others are updated", func(v harness.View) error {
			for _, node := range others {
				if pod := v.PodOn(s.name, node); pod == nil || pod.Spec.Containers[0].Image != two || !harness.Ready(pod) {
					return fmt.Errorf("node %s is not updated", node)
				}
			}
			return nil
		})
		if now := s.pod(nodes[at]); now.UID != kept.UID || now.Spec.Containers[0].Image != one {
			s.t.Errorf("the protected pod is %s with %s", now.Name, now.Spec.Containers[0].Image)
		}
		s.Wait("an event names the policy", func(v harness.View) error {
			for _, reason := range []string{"FailedDelete", "FailedUpdatePodInPlace"} {
				if event := v.Event(s.name, reason); event != nil && strings.Contains(event.Message, "this one is protected") {
					return nil
				}
			}
			return errors.New("there is none")
		})
		remove()
		s.WaitFor(time.Minute, "the last one follows", s.runs(two))
	}
}

// revisionIsDeleted: a finalizer keeps the only revision for a while. No pod is restarted, neither then nor when it has gone.
func revisionIsDeleted(s *stage) {
	s.run(rolling("maxUnavailable: 3"))
	before := s.uids()
	revision := strings.TrimSpace(s.Kubectl("get", "controllerrevisions", "-o", "name"))
	s.Kubectl("patch", revision, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/somebody"]}}`)
	s.Kubectl("delete", revision, "--wait=false")
	s.apply("spec: {minReadySeconds: 1}")
	s.rolled()
	s.samePods(before)
	s.Kubectl("patch", revision, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	s.Poll("there is one again", func() error {
		if s.Kubectl("get", "controllerrevisions", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}") != "" {
			return errors.New("it is being deleted")
		}
		return nil
	})
	s.apply("spec: {minReadySeconds: 2}")
	s.rolled()
	s.samePods(before)
}
