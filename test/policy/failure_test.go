// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const (
	// failureNodes are the nodes of the tests of failures, and canaries those of the first wave.
	failureNodes, canaries = manyNodes, 3
	crashingImage          = "registry.example/daemon:crash"
	// undoneWithin is within how long after the update of the template a bad version is back at the latest. It is usually some seconds.
	undoneWithin = time.Minute
	// judges is a policy with a canary, which fails when one of its nodes does. An image that cannot be pulled fails by its reason; one that
	// crashes by its restarts.
	judges = `  waves: [{name: canary, nodes: {count: 3}, soak: 3s}]
  failure: {nodeDeadline: 30s, maxRestarts: 1, waitingReasons: [ImagePullBackOff], action: Undo}
`
)

// TestFailures: in every dialect in which Everynode creates the pods, a bad version reaches the canary only, and all nodes return to the committed
// revision while the template stays. A version that works is rolled out afterwards.
func TestFailures(t *testing.T) {
	for _, d := range dialects() {
		if d.owned {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, d, failureNodes)
			s.govern(judges)
			for _, image := range []string{crashingImage, harness.BrokenImage, crashingImage} {
				s.failsWith(image, false)
			}
			s.update(harness.Image2)
			s.await(v1alpha1.PhaseComplete)
			s.Wait("the good version runs everywhere", runs(harness.Image2, failureNodes))
		})
	}
}

// TestManagerIsKilledDuringAnUndo: in every dialect in which Everynode creates the pods, the next manager ends the undo. The template is applied again and again
// meanwhile and afterwards, as a GitOps tool does it, and that changes nothing.
func TestManagerIsKilledDuringAnUndo(t *testing.T) {
	inEachKind(t, func(s *stage) {
		s.govern(judges)
		s.failsWith(crashingImage, true)
		generation := s.generation()
		s.holds(6*time.Second, "the template is applied again, and no node gets it", func(v harness.View) error {
			s.applyAgain(crashingImage)
			return runs(crashingImage, 0)(v)
		})
		if now := s.generation(); now != generation {
			s.t.Errorf("the generation of the set is %s, and was %s", now, generation)
		}
	})
}

// TestRetryAfterAFix: a version fails because something else is broken, and all nodes return. When that works again, a user has the same version rolled out once more.
func TestRetryAfterAFix(t *testing.T) {
	for _, d := range dialects() {
		if !d.owned {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				newStage(t, d, smallNodes).isRetried() // kubectl reports for each pod that it works, which must not take as long as nodeDeadline
			})
		}
	}
}

func (s *stage) isRetried() {
	s.t.Helper()
	s.govern("  waves: [{name: canary, nodes: {count: 3}, soak: 2s}]\n  failure: {nodeDeadline: 20s, action: Undo}\n")
	before := s.status().TargetRevision
	s.updateGated()
	s.undone(harness.Image2, before)
	failed := s.status().TargetRevision
	s.plugin("retry", s.dialect.argument(), "--reason", "the database works again")
	s.Poll("all waves pass", func() error {
		s.says(corev1.ConditionTrue)
		if st := s.status(); st.Phase != v1alpha1.PhaseComplete || st.CommittedRevision != failed {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.Wait("the version runs everywhere", runOn(harness.Image2, s.Nodes))
}

// failsWith updates to a bad image, and waits until all nodes run the image of before again. With kill the manager is killed when the failure is known.
func (s *stage) failsWith(image string, kill bool) {
	s.t.Helper()
	before := s.status().TargetRevision
	s.update(image)
	if kill {
		s.Poll("the failure is known", func() error {
			if st := s.status(); st.Failure == nil || st.TargetRevision == before {
				return fmt.Errorf("the phase is %s", st.Phase)
			}
			return nil
		})
		s.Cluster.Kill(s.t, harness.ManagerComponent)
		s.restart()
	}
	s.undone(image, before)
	st := s.status()
	if st.Failure == nil || st.Failure.Action != v1alpha1.FailureUndo || st.RejectedRevision != st.TargetRevision || st.Waves[0].Failed == 0 || len(st.Waves[0].FailedNodes) == 0 {
		s.t.Errorf("the status is %+v", st)
	}
	touched := s.touched(image)
	s.t.Logf("%s, %s: %d nodes had it, undone after %s: %s", s.dialect.name, image, len(touched), time.Since(s.updated).Round(100*time.Millisecond), st.Failure.Message)
	if took := time.Since(s.updated); took > undoneWithin {
		s.t.Errorf("%s was undone after %s", image, took)
	}
	if len(touched) == 0 || len(touched) > canaries {
		s.t.Errorf("%s was on %v, want at most %d nodes", image, touched, canaries)
	}
	out := s.Kubectl("get", s.dialect.resource(), set, "-o", "jsonpath={.spec.template.spec.containers[0].image}{.status.updatedNumberScheduled}")
	if strings.TrimSuffix(out, "0") != image {
		s.t.Errorf("the template and the number of updated nodes are %q, want %s and 0", out, image)
	}
	if out, err := s.Plugin("status", s.dialect.argument()); err != nil || !strings.Contains(out, "FAILED NODE") || !strings.Contains(out, "does not exist any more") && !strings.Contains(out, "kubectl logs -n "+s.Name) {
		s.t.Errorf("status prints (%v):\n%s", err, out)
	}
}

// undone waits until the revision has failed and no pod has its image any more; before is the target of before. The same template is applied all the time.
func (s *stage) undone(image, before string) {
	s.t.Helper()
	s.Poll("the revision is undone", func() error {
		s.applyAgain(image)
		if st := s.status(); st.Phase != v1alpha1.PhaseFailed || st.TargetRevision == before {
			return fmt.Errorf("the phase of %s is %s", st.TargetRevision, st.Phase)
		}
		return nil
	})
	s.Wait("all nodes run the image of before", runOn(harness.Image, s.Nodes), runs(image, 0))
}

// applyAgain applies the image as Argo CD does it, which must not conflict with what the manager writes. Server-side apply of a custom resource would own all containers,
// so the image of an Advanced DaemonSet is replaced.
func (s *stage) applyAgain(image string) {
	s.t.Helper()
	if s.dialect.advanced {
		s.kubectl("", "patch", s.dialect.resource(), set, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image))
		return
	}
	s.kubectl(s.manifest(image), "apply", "--server-side", "--field-manager=argocd-controller", "-f", "-")
}

// generation is the generation of the set.
func (s *stage) generation() string {
	s.t.Helper()
	return s.Kubectl("get", s.dialect.resource(), set, "-o", "jsonpath={.metadata.generation}")
}

// touched are the nodes that have had a pod of an image since the last update, as the watch of pods shows.
func (s *stage) touched(image string) []string {
	seen := map[string]bool{}
	for _, event := range s.recorder.Log() {
		if p, ok := event.Object.(*corev1.Pod); ok && p.Spec.Containers[0].Image == image {
			seen[observe.NodeOf(p)] = true
		}
	}
	nodes := make([]string, 0, len(seen))
	for node := range seen {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}

// inEachKind runs a test with each kind of set whose pods Everynode creates.
func inEachKind(t *testing.T, test func(s *stage)) {
	t.Helper()
	for _, d := range dialects() {
		if !d.owned {
			t.Run(d.name, func(t *testing.T) { test(newStage(t, d, failureNodes)) })
		}
	}
}

// inEachKindAtOnce is inEachKind for tests that end no program.
func inEachKindAtOnce(t *testing.T, test func(s *stage)) {
	t.Helper()
	for _, d := range dialects() {
		if !d.owned {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				test(newStage(t, d, failureNodes))
			})
		}
	}
}

// TestNodesBrokenBefore: a node whose pod was broken before the rollout does not stop it, also not for the next manager, and it is updated as well.
func TestNodesBrokenBefore(t *testing.T) { inEachKind(t, (*stage).goesOnWithABrokenNode) }

func (s *stage) goesOnWithABrokenNode() {
	s.t.Helper()
	missing := "-missing-on-" + s.Nodes[0] // it is in the canary
	s.kubectl("", "patch", s.dialect.resource(), set, "--type=json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, harness.Image+missing))
	if s.dialect.enforcement == v1alpha1.EnforcementOnDelete { // nothing else replaces them without a policy
		s.kubectl("", "delete", "pods", "--all", "--wait=false")
	}
	s.Wait("all other nodes run", runOn(harness.Image+missing, s.Nodes[1:]))
	s.govern(judges)
	s.update(harness.Image2 + missing)
	s.Cluster.Kill(s.t, harness.ManagerComponent)
	s.restart()
	s.Wait("all others run the new version", runOn(harness.Image2+missing, s.Nodes[1:]))
	s.holds(8*time.Second, "the broken node does not count", func(v harness.View) error {
		if st := s.status(); st.Failure != nil {
			return fmt.Errorf("%s", st.Failure.Message)
		}
		return runOn(harness.Image2+missing, s.Nodes[1:])(v)
	})
	s.update(harness.Image3)
	s.await(v1alpha1.PhaseComplete)
	s.Wait("all nodes run", runs(harness.Image3, failureNodes))
}

// TestUndoAndRetry: a user has a rollout undone while its template stays, and rolls the same revision out again later.
func TestUndoAndRetry(t *testing.T) {
	s := newStage(t, native(), failureNodes)
	s.govern("  waves: [{name: canary, nodes: {count: 3}, soak: 1h}]\n")
	s.update(harness.Image2)
	s.await(v1alpha1.PhaseSoaking)
	s.plugin("undo", s.dialect.argument(), "--to-committed", "--reason", "it leaks memory")
	s.await(v1alpha1.PhaseFailed)
	s.Wait("all nodes run the version of before", runOn(harness.Image, s.Nodes), runs(harness.Image2, 0))
	s.plugin("retry", s.dialect.argument())
	s.await(v1alpha1.PhaseSoaking)
	s.plugin("promote", s.dialect.argument())
	s.await(v1alpha1.PhaseComplete)
	s.Wait("the version runs everywhere", runs(harness.Image2, failureNodes))
}

// plugin runs kubectl everynode, which must succeed.
func (s *stage) plugin(args ...string) {
	s.t.Helper()
	if out, err := s.Plugin(args...); err != nil {
		s.t.Fatalf("kubectl everynode %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
