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

// healthy is a readiness gate of a version: the version itself says whether it works.
const healthy = "registry.example/healthy"

// TestFailureInTheSoak: a version that works on the whole canary, and stops working while it is observed, reaches no further node and is undone.
func TestFailureInTheSoak(t *testing.T) { inEachKind(t, (*stage).failsInTheSoak) }

func (s *stage) failsInTheSoak() {
	s.t.Helper()
	before, began := s.soaksGated(), time.Now()
	s.says(corev1.ConditionFalse)
	s.undone(harness.Image2, before)
	st := s.status()
	touched := s.touched(harness.Image2)
	s.t.Logf("%d nodes had it, undone %s after it had soaked for 3s: %s", len(touched), time.Since(began).Round(100*time.Millisecond), st.Failure.Message)
	if len(touched) != canaries || st.Failure.Wave != "canary" || st.RejectedRevision != st.TargetRevision || st.Waves[0].FailedNodes[0].Reason != "NotAvailable" {
		s.t.Errorf("%v had it, and the status is %+v", touched, st)
	}
}

// soaksGated updates to a version that works on the whole canary, and lets it soak for some seconds. It returns the target of before.
func (s *stage) soaksGated() (before string) {
	s.t.Helper()
	s.govern("  waves: [{name: canary, nodes: {count: 3}, soak: 10m}]\n  failure: {nodeDeadline: 10s, action: Undo}\n")
	before = s.status().TargetRevision
	s.updateGated()
	s.Poll("the canary works", func() error {
		s.says(corev1.ConditionTrue)
		if st := s.status(); st.Phase != v1alpha1.PhaseSoaking || st.Waves[0].Available != canaries {
			return fmt.Errorf("the status is %+v", st)
		}
		return nil
	})
	s.holds(3*time.Second, "it soaks", func(harness.View) error {
		if st := s.status(); st.Phase != v1alpha1.PhaseSoaking {
			return fmt.Errorf("the phase is %s", st.Phase)
		}
		return nil
	})
	return before
}

// says sets the readiness gate of the pods of the version that have another value.
func (s *stage) says(is corev1.ConditionStatus) {
	s.t.Helper()
	for _, p := range s.View().Pods(set) {
		if c := condition(p, healthy); p.Spec.Containers[0].Image == harness.Image2 && (c == nil || c.Status != is) {
			s.say(p, is)
		}
	}
}

// laterNodes are the nodes of TestReachOfAVersionThatFailsLater, laterBudget a tenth of them, and works how long each pod of the version works.
const laterNodes, laterBudget, works = 20, 2, 5 * time.Second

// TestReachOfAVersionThatFailsLater: with Kubernetes' own controller, a version of which each pod works for some seconds reaches more nodes than the budget: further
// nodes get it while the first ones still work. TestFailureInTheSoak shows what a policy changes. docs/rollout-policy.md has the numbers.
func TestReachOfAVersionThatFailsLater(t *testing.T) {
	cluster := shared.Cluster(t)
	upstream := cluster.Hands(t)[harness.Native]
	cluster.Kill(t, harness.ManagerComponent)
	upstream.Start(t)
	defer func() {
		upstream.Kill(t)
		cluster.StartComponent(t, harness.ManagerComponent)
	}()
	s := newStage(t, tenth(), laterNodes)
	s.updateGated()
	reached, since := 0, time.Now()
	s.Poll("no further node gets it for 10 seconds", func() error {
		for _, p := range s.View().Pods(set) {
			c := condition(p, healthy)
			switch {
			case p.Spec.Containers[0].Image != harness.Image2 || p.DeletionTimestamp != nil:
			case c == nil:
				s.say(p, corev1.ConditionTrue)
			case c.Status == corev1.ConditionTrue && time.Since(transition(p, corev1.PodReady)) > works && harness.Ready(p):
				s.say(p, corev1.ConditionFalse)
			}
		}
		if n := len(s.touched(harness.Image2)); n > reached {
			reached, since = n, time.Now()
		}
		if reached == 0 || time.Since(since) < 2*works {
			return fmt.Errorf("%d nodes have had it", reached)
		}
		return nil
	})
	t.Logf("%d of %d nodes had it, with a budget of %d", reached, laterNodes, laterBudget)
	if reached <= laterBudget {
		t.Errorf("%d nodes had it, so this test shows nothing", reached)
	}
}

// updateGated updates to a version that says itself whether it works.
func (s *stage) updateGated() {
	s.t.Helper()
	s.observe()
	s.kubectl("", "patch", s.dialect.resource(), set, "--type=json", "-p", fmt.Sprintf(`[{"op":"add","path":"/spec/template/spec/readinessGates","value":[{"conditionType":%q}]},
		{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, healthy, harness.Image2))
}

// say sets the readiness gate of a pod, unless it is gone meanwhile.
func (s *stage) say(p *corev1.Pod, is corev1.ConditionStatus) {
	s.t.Helper()
	out, err := s.KubectlWith("", "patch", "pod", p.Name, "--subresource=status", "--type=strategic", "-p", fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q}]}}`, healthy, is))
	if err != nil && !strings.Contains(out, "(NotFound)") {
		s.t.Fatalf("setting the readiness gate of pod %s: %v\n%s", p.Name, err, out)
	}
}
