// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/testing/realprometheus"
	"everynode.dev/everynode/test/harness"
)

// verdict is how the webhook answers for a namespace.
type verdict string

// The answers of the webhook: a value that passes, one that does not, a connection that breaks, and none at all.
const (
	good  verdict = "good"
	bad   verdict = "bad"
	down  verdict = "down"
	hangs verdict = "hangs"
)

// webhook is the provider judge of the plane: each test says how it answers for its namespace.
type webhook struct {
	mu       sync.Mutex
	verdicts map[string]verdict
	requests map[string]int
	file     string
	// port is where the provider main is: the Prometheus that TestPrometheus starts, if there is one.
	port int
}

// start serves the webhook on loopback, until the process ends, and writes the file with the providers.
func (w *webhook) start() (file string, err error) {
	w.verdicts, w.requests = map[string]verdict{}, map[string]int{}
	server := httptest.NewServer(w)
	dir, err := os.MkdirTemp("", "everynode-providers-")
	if err != nil {
		return "", err
	}
	if w.port, err = realprometheus.FreePort(); err != nil {
		return "", err
	}
	w.file = filepath.Join(dir, "providers.yaml")
	text := fmt.Sprintf("apiVersion: config.everynode.dev/v1alpha1\nkind: AnalysisProviders\nproviders:\n- {name: judge, timeout: 2s, webhook: {url: %q}}\n"+
		"- {name: main, timeout: 2s, prometheus: {url: 'http://127.0.0.1:%d'}}\n", server.URL, w.port)
	return w.file, os.WriteFile(w.file, []byte(text), 0o600)
}

// remove removes the file.
func (w *webhook) remove() {
	if w.file != "" {
		_ = os.RemoveAll(filepath.Dir(w.file))
	}
}

// ServeHTTP implements http.Handler.
func (w *webhook) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var asked struct{ Namespace, Name, Analysis, Old, New, Wave string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.New == "" || asked.Old == "" {
		out.WriteHeader(http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	answer := w.verdicts[asked.Namespace]
	w.requests[asked.Namespace]++
	w.mu.Unlock()
	switch answer {
	case good:
		_, _ = out.Write([]byte(`{"result": 0.001}`))
	case bad:
		_, _ = out.Write([]byte(`{"result": 0.3}`))
	case hangs:
		<-r.Context().Done()
	default:
		panic(http.ErrAbortHandler) // the connection breaks
	}
}

func (w *webhook) says(namespace string, v verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdicts[namespace] = v
}

func (w *webhook) asked(namespace string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[namespace]
}

const analysed = `  analyses: [{name: errors, provider: judge, interval: 5s, success: "result < 0.01", failureLimit: 1}]
  waves: [{name: canary, nodes: {count: 3}, soak: 1s, analysis: [errors]}]
  failure: {action: Undo}
`

// TestAnalysis: a version of which the pods are available, but the webhook says that it is bad, reaches the canary only, and all nodes return. While the webhook
// is down, or hangs, nothing passes, also after a restart of the manager; the rollout goes on when there is an answer.
func TestAnalysis(t *testing.T) {
	for _, d := range dialects() {
		if d.owned || d.name == "surge" {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, d, failureNodes)
			s.govern(analysed)
			before := s.status().TargetRevision
			judge.says(s.Name, bad)
			s.update(harness.Image3)
			s.undone(harness.Image3, before)
			st := s.status()
			if st.Failure == nil || st.Failure.Wave != "canary" || !strings.Contains(st.Failure.Message, "the analysis errors failed 2 times in a row, and 1 may fail. Measured: 0.3. result < 0.01 is false.") {
				t.Errorf("the failure is %+v", st.Failure)
			}
			touched := s.touched(harness.Image3)
			t.Logf("%s: %d nodes had the bad version, undone after %s", d.name, len(touched), time.Since(s.updated).Round(100*time.Millisecond))
			if len(touched) != canaries {
				t.Errorf("the bad version was on %v, want %d nodes", touched, canaries)
			}
			if out, err := s.Plugin("status", d.argument()); err != nil || !strings.Contains(out, "errors") || !strings.Contains(out, "result < 0.01") || !strings.Contains(out, "0.3") {
				t.Errorf("status prints (%v):\n%s", err, out)
			}
			s.heldWhileDown()
		})
	}
}

// heldWhileDown updates to a good version while the webhook is down.
func (s *stage) heldWhileDown() {
	s.t.Helper()
	judge.says(s.Name, down)
	s.update(harness.Image2)
	s.Poll("the answer is unknown", func() error {
		st := s.status()
		if st.Phase != v1alpha1.PhaseSoaking || len(st.Analyses) != 1 || st.Analyses[0].Answer != v1alpha1.AnswerUnknown || len(st.Analyses[0].Measurements) == 0 {
			return fmt.Errorf("the status is %s, %+v", st.Phase, st.Analyses)
		}
		return nil
	})
	judge.says(s.Name, hangs)
	s.holds(9*time.Second, "only the canary has the version", runs(harness.Image2, canaries))
	judge.says(s.Name, good)
	s.await(v1alpha1.PhaseComplete)
	s.Wait("the good version runs everywhere", runs(harness.Image2, len(s.Nodes)))
	asked := judge.asked(s.Name)
	s.holds(6*time.Second, "nothing is measured after the rollout", func(harness.View) error {
		if n := judge.asked(s.Name); n != asked {
			return fmt.Errorf("%d requests more", n-asked)
		}
		return nil
	})
}

// TestManagerIsKilledDuringAnAnalysis: the next manager goes on with the measurements of the one before, and measures before anything passes.
func TestManagerIsKilledDuringAnAnalysis(t *testing.T) {
	s := newStage(t, native(), failureNodes)
	s.govern(strings.ReplaceAll(analysed, "failureLimit: 1", "failureLimit: 3"))
	judge.says(s.Name, bad)
	s.update(harness.Image2)
	s.Poll("it has failed twice", func() error {
		if st := s.status(); len(st.Analyses) != 1 || st.Analyses[0].Failures < 2 {
			return fmt.Errorf("the status is %s, %+v", st.Phase, st.Analyses)
		}
		return nil
	})
	s.Cluster.Kill(t, harness.ManagerComponent)
	judge.says(s.Name, down)
	s.restart()
	s.holds(5*time.Second, "only the canary has the version", runs(harness.Image2, canaries))
	judge.says(s.Name, bad)
	s.await(v1alpha1.PhaseFailed)
	if st := s.status(); st.Failure == nil || !strings.Contains(st.Failure.Message, "failed 4 times in a row, and 3 may fail") {
		t.Errorf("the failure is %+v", st.Failure)
	}
	s.Wait("all nodes run the version of before", runOn(harness.Image, s.Nodes), runs(harness.Image2, 0))
}

// TestAnalysesThatAreRefused: the API server refuses what cannot be meant, and what only the manager can judge stalls the policy, with the field.
func TestAnalysesThatAreRefused(t *testing.T) {
	s := newStage(t, native(), 4)
	const template = "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: refused}\nspec:\n  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: other}]\n"
	for spec, want := range map[string]string{
		"  waves: [{name: a, nodes: {count: 1}, analysis: [errors]}]\n":                                                            "each name in waves[].analysis must be that of an entry of analyses",
		"  analyses: [{name: a, provider: judge, success: 'true'}, {name: a, provider: judge, success: 'true'}]\n":                 "Duplicate value",
		"  analyses: [{name: a, provider: judge, success: 'true', interval: 1s}]\n":                                                "must be a duration from 5s to 24h",
		"  analyses: [{name: a, provider: judge, success: 'true', unknownDeadline: 9999h}]\n":                                      "must be a duration from 1s to 168h",
		"  analyses: [{name: a, provider: judge, success: 'true', onUnknown: Pass}]\n":                                             "Unsupported value",
		"  analyses: [{name: a, provider: judge, success: ''}]\n":                                                                  "success",
		"  blockOnAlerts: {provider: judge, match: 'a=\"b\"} or up{'}\n":                                                           "match",
		"  analyses: [{name: b, provider: judge, success: 'true'}]\n  waves: [{name: a, nodes: {count: 1}, analysis: [errors]}]\n": "each name in waves[].analysis",
	} {
		out, err := s.KubectlWith(template+spec, "apply", "-f", "-")
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %s\n%s", spec, err, want, out)
		}
	}
	s.kubectl(fmt.Sprintf("apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: %s}\nspec:\n  targets: [{apiVersion: apps/v1, kind: DaemonSet, name: %s}]\n%s",
		agents, set, strings.ReplaceAll(analysed, "result < 0.01", "outcome < 0.01")), "apply", "-f", "-")
	s.await(v1alpha1.PhaseStalled)
	stalled := ""
	for _, c := range s.policy().Status.Conditions {
		if c.Type == v1alpha1.ConditionStalled {
			stalled = c.Message
		}
	}
	if !strings.HasPrefix(stalled, "spec.analyses[0].success: the expression \"outcome < 0.01\" cannot be compiled") {
		t.Errorf("the condition has the message %q", stalled)
	}
}
