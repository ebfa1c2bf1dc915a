// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/testing/realprometheus"
	"everynode.dev/everynode/test/harness"
)

// exporter has metrics as pods of the set would have them: the share of requests that fail, by revision. It also has one that makes an alert fire.
type exporter struct {
	mu     sync.Mutex
	ratios map[string]float64
	alert  int
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for revision, ratio := range e.ratios {
		_, _ = fmt.Fprintf(w, "agent_error_ratio{revision=%q} %g\n", revision, ratio)
	}
	_, _ = fmt.Fprintf(w, "cluster_is_broken %d\n", e.alert)
}

func (e *exporter) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

const measuredByPrometheus = `  analyses:
  - {name: errors, provider: main, interval: 5s, query: 'max(agent_error_ratio{revision="{{new}}"})', success: "result < 0.01", failureLimit: 1}
  waves: [{name: canary, nodes: {count: 3}, soak: 1s, analysis: [errors]}]
  failure: {action: Undo}
  blockOnAlerts: {provider: main, match: 'severity="critical"', firingOnly: true}
`

// TestPrometheus: with a real Prometheus, a version that is available and has errors in a metric is undone in the canary, a good one passes, and alerts hold
// it meanwhile.
func TestPrometheus(t *testing.T) {
	shared.Cluster(t) // it chooses the port
	e := startExporter(t)
	inEachKind(t, func(s *stage) { s.judgedByPrometheus(e) })
}

// TestPrometheusAlongside is TestPrometheus for a DaemonSet whose pods the controller of Kubernetes creates: the undo changes the template back.
func TestPrometheusAlongside(t *testing.T) {
	c := nextToNative(t)
	e := startExporter(t)
	s := undoable(stageOn(t, c, alongside(), failureNodes))
	s.govern(measuredByPrometheus)
	before := s.status().CommittedRevision
	s.updatesUnmeasured()
	e.set(func() { e.ratios[s.hash(s.status().TargetRevision)] = 0.3 })
	s.revertedTo(before, "Measured: 0.3. result < 0.01 is false.")
	if touched := s.touched(harness.Image3); len(touched) != canaries {
		t.Errorf("the bad version was on %v, want %d nodes", touched, canaries)
	}
	s.heldByAnAlert(e)
}

// startExporter serves metrics, and starts a Prometheus at the port of the provider main that reads them.
func startExporter(t *testing.T) *exporter {
	t.Helper()
	e := &exporter{ratios: map[string]float64{}}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	realprometheus.Start(t, judge.port, strings.TrimPrefix(server.URL, "http://"),
		"groups: [{name: test, rules: [{alert: Broken, expr: cluster_is_broken == 1, labels: {severity: critical}}]}]")
	return e
}

func (s *stage) judgedByPrometheus(e *exporter) {
	s.t.Helper()
	s.govern(measuredByPrometheus)
	before := s.status().TargetRevision
	s.updatesUnmeasured()
	e.set(func() { e.ratios[s.hash(s.status().TargetRevision)] = 0.3 })
	s.undone(harness.Image3, before)
	if st := s.status(); st.Failure == nil || !strings.Contains(st.Failure.Message, "Measured: 0.3. result < 0.01 is false.") {
		s.t.Errorf("the failure is %+v", st.Failure)
	}
	if touched := s.touched(harness.Image3); len(touched) != canaries {
		s.t.Errorf("the bad version was on %v, want %d nodes", touched, canaries)
	}
	s.heldByAnAlert(e)
}

// updatesUnmeasured updates to a version that no metric exists for yet, and waits until the answer is unknown.
func (s *stage) updatesUnmeasured() {
	s.t.Helper()
	s.update(harness.Image3)
	s.Poll("the answer is unknown", func() error {
		if st := s.status(); len(st.Analyses) != 1 || len(st.Analyses[0].Measurements) == 0 || st.Analyses[0].Answer != v1alpha1.AnswerUnknown {
			return fmt.Errorf("the status is %s, %+v", st.Phase, st.Analyses)
		}
		return nil
	})
	if m := s.status().Analyses[0].Measurements[0]; m.Message != "The query has returned no data." {
		s.t.Errorf("measured %+v", m)
	}
}

// heldByAnAlert updates to a good version, which an alert holds for a time.
func (s *stage) heldByAnAlert(e *exporter) {
	s.t.Helper()
	e.set(func() { e.alert = 1 })
	s.update(harness.Image2)
	s.Poll("the alert holds it", func() error {
		if st := s.status(); st.Alerts == nil || st.Alerts.Answer != v1alpha1.AnswerFail || !strings.Contains(st.Alerts.Message, "Broken") {
			return fmt.Errorf("the status is %s, %+v", st.Phase, st.Alerts)
		}
		return nil
	})
	s.holds(3*time.Second, "no node has the version", runs(harness.Image2, 0))
	if out, err := s.Plugin("explain-node", s.Nodes[0], s.dialect.argument()); err != nil || !strings.Contains(out, "wait-alerts") || !strings.Contains(out, "These alerts hold it: Broken.") {
		s.t.Errorf("explain-node prints (%v):\n%s", err, out)
	}
	e.set(func() { e.alert, e.ratios[s.hash(s.status().TargetRevision)] = 0, 0.001 })
	s.await(v1alpha1.PhaseComplete)
	s.Wait("the good version runs everywhere", runs(harness.Image2, failureNodes))
}
