// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	everynode "everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/testing/realprometheus"
)

const alertRules = `
groups:
- name: test
  rules:
  - {alert: Down, expr: 'agent_error_ratio{revision="v2"} > 0.1', labels: {severity: critical}}
  - {alert: Slow, expr: 'agent_error_ratio{revision="v2"} > 0.1', for: 1h, labels: {severity: warning}}
`

// TestRealPrometheus: the answers of a real Prometheus are what TestPrometheusAnswers believes that they are.
func TestRealPrometheus(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "agent_error_ratio{revision=\"v2\",pod=\"a\"} 0.3\nagent_error_ratio{revision=\"v2\",pod=\"b\"} 0.2\nagent_error_ratio{revision=\"v3\",pod=\"a\"} 0.001\nagent_error_ratio{revision=\"q\\\"\\\\\"} 1\n")
	}))
	t.Cleanup(exporter.Close)
	port, err := realprometheus.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	url := realprometheus.Start(t, port, strings.TrimPrefix(exporter.URL, "http://"), alertRules)
	all := provide(t, "- {name: main, prometheus: {url: '"+url+"/'}}")
	measured := func(q policy.Question) everynode.Measurement {
		q.Provider = "main"
		return ask(t, all, q)
	}
	await(t, "the alert is firing", func() bool {
		return measured(policy.Question{Alerts: true, FiringOnly: true}).Answer == everynode.AnswerFail
	})
	for name, test := range map[string]struct {
		query, revision, success string
		want                     everynode.Answer
		value, says              string
	}{
		"bad":           {`max(agent_error_ratio{revision="{{new}}"})`, "v2", "result < 0.01", everynode.AnswerFail, "0.3", "is false"},
		"good":          {`max(agent_error_ratio{revision="{{new}}"})`, "v3", "result < 0.01", everynode.AnswerPass, "0.001", "is true"},
		"scalar":        {`scalar(max(agent_error_ratio{revision="{{new}}"}))`, "v3", "result < 0.01", everynode.AnswerPass, "0.001", "is true"},
		"no data":       {`max(agent_error_ratio{revision="{{new}}"})`, "v9", "result < 0.01", everynode.AnswerUnknown, "", "no data"},
		"no data known": {`max(agent_error_ratio{revision="{{new}}"}) or vector(0)`, "v9", "result < 0.01", everynode.AnswerPass, "0", "is true"},
		"NaN":           {`scalar(agent_error_ratio{revision="{{new}}"})`, "v2", "result < 0.01", everynode.AnswerUnknown, "NaN", "NaN"},
		"two":           {`agent_error_ratio{revision="{{new}}"}`, "v2", "result < 0.01", everynode.AnswerUnknown, "2 samples", "returned 2 samples"},
		"each of two":   {`agent_error_ratio{revision="{{new}}"}`, "v2", "results.all(r, r.value < 0.01)", everynode.AnswerFail, "2 samples", "is false"},
		"by labels":     {`agent_error_ratio`, "v2", "results.filter(r, r.labels.revision == 'v3').all(r, r.value < 0.01)", everynode.AnswerPass, "4 samples", "is true"},
		"range":         {`agent_error_ratio{revision="{{new}}"}[1m]`, "v2", "result < 0.01", everynode.AnswerUnknown, "", "returns a matrix"},
		"text":          {`"a"`, "v2", "result < 0.01", everynode.AnswerUnknown, "", "no answer that can be read"},
		"bad query":     {`max(`, "v2", "result < 0.01", everynode.AnswerUnknown, "", "Prometheus cannot evaluate the query: "},
		"escaped":       {`max(agent_error_ratio{revision="{{new}}"})`, `q"\`, "result == 1", everynode.AnswerPass, "1", "is true"},
		"injected":      {`max(agent_error_ratio{revision="{{new}}"})`, `v2"} or vector(0) or up{a="`, "result < 0.01", everynode.AnswerUnknown, "", "no data"},
	} {
		m := measured(policy.Question{Query: test.query, New: test.revision, Success: test.success})
		if m.Answer != test.want || !strings.Contains(m.Value, test.value) || !strings.Contains(m.Message, test.says) {
			t.Errorf("%s: measured %+v, want %s %s, %s", name, m, test.want, test.value, test.says)
		}
	}
	for match, want := range map[string]string{"": "Down", `severity="critical"`: "Down", `severity="warning"`: "", `severity=~"warn.*"`: "", `alertname!="Down"`: ""} {
		m := measured(policy.Question{Alerts: true, FiringOnly: true, Query: match})
		if (m.Answer == everynode.AnswerFail) != (want != "") || m.Answer == everynode.AnswerUnknown || !strings.Contains(m.Message, want) {
			t.Errorf("alerts with %s: %+v, want %q", match, m, want)
		}
	}
	if m := measured(policy.Question{Alerts: true, Query: `severity="warning"`}); m.Answer != everynode.AnswerFail || !strings.Contains(m.Message, "Slow") {
		t.Errorf("an alert that is pending: %+v", m)
	}
	if m := measured(policy.Question{Alerts: true, Query: `severity=`}); m.Answer != everynode.AnswerUnknown {
		t.Errorf("alerts with a matcher that is none: %+v", m)
	}
}
