// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/test/harness"
)

// estimateNodes is how many nodes the set of TestEstimate has.
var estimateNodes = flag.Int("estimate-nodes", stageNodes, "the nodes of TestEstimate")

// slack is how far the real duration may be outside of the estimated range: 25%.
const slack = 1.25

// TestEstimate: after one rollout, the estimate of the next one holds. A machine whose other load changes between two rollouts makes one estimate wrong:
// of three, each from what was measured before it, one must hold.
func TestEstimate(t *testing.T) {
	s := newStage(t, *estimateNodes)
	update := func(image string) change {
		return change{spec: "updateStrategy: {rollingUpdate: {maxUnavailable: 5%}}", args: always("--image", "agent="+image)}
	}
	s.create(update(two))
	first := s.plan(update(two))
	if first.Estimate.Pods > 0 || !strings.Contains(first.Estimate.Source, "assumed") {
		t.Errorf("before the first rollout the estimate is %+v", first.Estimate)
	}
	t.Logf("the first rollout was estimated at %s (%s) and took %s", first.Estimate.Low, first.Estimate.Source, s.takes(first))
	s.Poll("the durations are written on a revision", s.measured)

	for number := 3; number <= 5; number++ {
		if s.estimateHolds(s.plan(update(fmt.Sprintf("registry.example/agent:%d", number)))) {
			return
		}
	}
	t.Error("none of three estimates held")
}

// estimateHolds carries a plan out, and reports whether that takes as long as the plan estimates.
func (s *stage) estimateHolds(d *document) bool {
	s.t.Helper()
	low, lowErr := time.ParseDuration(d.Estimate.Low)
	high, highErr := time.ParseDuration(d.Estimate.High)
	if lowErr != nil || highErr != nil || d.Estimate.Pods == 0 {
		s.t.Fatalf("after a rollout the estimate is %+v", d.Estimate)
	}
	took := s.takes(d)
	s.t.Logf("this rollout was estimated at %s to %s (%s) and took %s", low, high, d.Estimate.Source, took)
	return float64(took)*slack >= float64(low) && float64(took) <= float64(high)*slack
}

// takes carries a plan out, and returns how long that takes.
func (s *stage) takes(d *document) time.Duration {
	s.t.Helper()
	began := time.Now()
	s.Wait("the rollout ends", harness.RolledOut(s.set, s.apply(d), len(s.Nodes)))
	return time.Since(began).Round(time.Millisecond)
}

// measured reports whether a revision of the set has durations.
func (s *stage) measured() error {
	revisions, err := s.Cluster.Client.AppsV1().ControllerRevisions(s.Name).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range revisions.Items {
		if value, ok := revisions.Items[i].Annotations[everynode.MeasuredDurations]; ok {
			s.t.Logf("measured: %s", value)
			return nil
		}
	}
	return fmt.Errorf("none of %d revisions has durations", len(revisions.Items))
}
