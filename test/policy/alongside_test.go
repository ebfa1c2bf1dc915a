// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
)

// mayUndo lets the manager change the templates of a namespace.
const mayUndo = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everynode-manager-undo, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everynode-manager-undo}
subjects: [{kind: ServiceAccount, name: everynode-manager, namespace: everynode-system}]
`

// TestFailuresAlongside plays what fails with a DaemonSet whose pods the controller of Kubernetes creates. An undo changes the template there. TestAlongside shows what happens where it must not.
func TestFailuresAlongside(t *testing.T) {
	c := nextToNative(t)
	for _, test := range []struct {
		name  string
		nodes int
		run   func(s *stage)
	}{
		{"one after the other", failureNodes, (*stage).failsThreeTimes},
		{"in the soak", failureNodes, (*stage).failsInTheSoakAlongside},
		{"broken before", failureNodes, (*stage).goesOnWithABrokenNode},
		{"retry", smallNodes, (*stage).retriesAlongside},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(undoable(stageOn(t, c, alongside(), test.nodes))) })
	}
}

// undoable gives the manager the right to undo by the template, and creates the set again with kubectl create: the field manager of kubectl apply would own the template.
func undoable(s *stage) *stage {
	s.t.Helper()
	s.Apply(fmt.Sprintf(mayUndo, s.Name)) // until the end of the test: nothing else needs it
	s.kubectl("", "delete", s.dialect.resource(), set)
	s.Wait("the pods are gone", func(v harness.View) error {
		if n := len(v.Pods(set)); n > 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	s.kubectl(s.manifest(harness.Image), "create", "-f", "-")
	s.Wait("the set runs on every node", harness.RolledOut(set, 1, len(s.Nodes)))
	return s
}

// revertedTo waits until the template has the image of before again, and all nodes too, and blocking says why.
func (s *stage) revertedTo(before, why string) {
	s.t.Helper()
	s.Poll("the template is changed back", func() error {
		st := s.status()
		if st.Phase != v1alpha1.PhaseComplete || st.CommittedRevision != before || st.TargetRevision != before {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.Wait("all nodes run the image of before", runOn(harness.Image, s.Nodes))
	st := s.status()
	if len(st.Blocking) == 0 || st.Blocking[0].Reason != "Undone" || !strings.Contains(st.Blocking[0].Message, why) {
		s.t.Errorf("what blocks is %+v, want %q", st.Blocking, why)
	}
	if took := time.Since(s.updated); took > undoneWithin {
		s.t.Errorf("it was undone after %s", took)
	}
	if got := s.Kubectl("get", s.dialect.resource(), set, "-o", "jsonpath={.spec.template.spec.containers[0].image}"); got != harness.Image {
		s.t.Errorf("the template has the image %s", got)
	}
}

// failsThreeTimes updates to one bad version after the other: one that crashes, one whose image cannot be pulled, one with a bad metric.
func (s *stage) failsThreeTimes() {
	s.t.Helper()
	s.govern(strings.ReplaceAll(analysed, "failure: {action: Undo}", "failure: {nodeDeadline: 30s, maxRestarts: 1, waitingReasons: [ImagePullBackOff], action: Undo}"))
	before := s.status().CommittedRevision
	for _, version := range []struct {
		image, why string
		metric     verdict
	}{
		{crashingImage, "nodes failed, and 0 may fail", down}, {harness.BrokenImage, "ImagePullBackOff", down}, {harness.Image3, "Measured: 0.3. result < 0.01 is false.", bad},
	} {
		judge.says(s.Name, version.metric)
		s.update(version.image)
		s.revertedTo(before, version.why)
		touched := s.touched(version.image)
		s.t.Logf("%s: %d nodes had it, undone after %s: %+v", version.image, len(touched), time.Since(s.updated).Round(100*time.Millisecond), s.status().Blocking)
		if len(touched) == 0 || len(touched) > canaries {
			s.t.Errorf("%s was on %v, want at most %d nodes", version.image, touched, canaries)
		}
	}
	judge.says(s.Name, good)
	s.update(harness.Image2)
	s.await(v1alpha1.PhaseComplete)
	s.Wait("the good version runs everywhere", runs(harness.Image2, len(s.Nodes)))
}

// failsInTheSoakAlongside: a version that works on the whole canary stops working while it is observed.
func (s *stage) failsInTheSoakAlongside() {
	s.t.Helper()
	before := s.soaksGated()
	s.says(corev1.ConditionFalse)
	s.revertedTo(before, "Wave canary failed")
	if touched := s.touched(harness.Image2); len(touched) != canaries {
		s.t.Errorf("%v had it, want %d nodes", touched, canaries)
	}
}

// retriesAlongside: a version fails because something else is broken. When that works again, a user applies the version again and has it rolled out once more.
func (s *stage) retriesAlongside() {
	s.t.Helper()
	s.govern("  waves: [{name: canary, nodes: {count: 3}, soak: 2s}]\n  failure: {nodeDeadline: 20s, action: Undo}\n")
	before := s.status().CommittedRevision
	s.updateGated()
	s.Poll("the rollout has begun", func() error {
		if st := s.status(); st.TargetRevision == before {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.revertedTo(before, "Wave canary failed")
	s.updateGated()
	s.Poll("it is not undone again", func() error {
		if st := s.status(); st.Phase != v1alpha1.PhaseFailed || !strings.Contains(fmt.Sprint(st.Blocking), "another user has changed the template to it again") {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.plugin("retry", s.dialect.argument(), "--reason", "the database works again")
	s.Poll("all waves pass", func() error {
		s.says(corev1.ConditionTrue)
		if st := s.status(); st.Phase != v1alpha1.PhaseComplete || st.CommittedRevision == before {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.Wait("the version runs everywhere", runOn(harness.Image2, s.Nodes))
}
