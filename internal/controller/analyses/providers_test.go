// SPDX-License-Identifier: Apache-2.0

package analyses

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	everynode "everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

const header = "apiVersion: config.everynode.dev/v1alpha1\nkind: AnalysisProviders\nproviders:\n"

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "providers.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func provide(t *testing.T, text string) Providers {
	t.Helper()
	all, err := ReadProviders(write(t, header+text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ask measures a question once.
func ask(t *testing.T, all Providers, q policy.Question) everynode.Measurement {
	t.Helper()
	m, _ := New(all, clock.RealClock{}).measure(t.Context(), &q, func() (*expression, error) { return compile(q.Success) })
	return m
}

// serve starts a provider that answers every request in the same way.
func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// A file that is wrong is refused, with the place and the remedy.
func TestProvidersThatAreWrong(t *testing.T) {
	for body, want := range map[string]string{
		"- {name: a, webhook: {url: 'http://x'}, unknown: 1}": "unknown field",
		"- {name: A, webhook: {url: 'http://x'}}":             "providers[0]: name:",
		"- {name: a}": "exactly one of prometheus and webhook",
		"- {name: a, webhook: {url: 'http://x'}, prometheus: {url: 'http://x'}}":           "exactly one of prometheus and webhook",
		"- {name: a, webhook: {url: 'ftp://x'}}":                                           "webhook.url:",
		"- {name: a, prometheus: {url: 'x'}}":                                              "prometheus.url:",
		"- {name: a, prometheus: {url: 'http://u:p@x'}}":                                   "neither a user nor a query",
		"- {name: a, webhook: {url: 'http://x', bearerTokenFile: /t}}":                     "a token needs an url with https",
		"- {name: a, webhook: {url: 'https://x', caFile: /does/not/exist}}":                "caFile:",
		"- {name: a, timeout: 1h, webhook: {url: 'http://x'}}":                             "timeout:",
		"- {name: a, webhook: {url: 'http://x'}}\n- {name: a, webhook: {url: 'http://y'}}": "another provider with the name a",
	} {
		if _, err := ReadProviders(write(t, header+body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for _, body := range []string{"kind: Other\n", "\x00", header + "- 1"} {
		if _, err := ReadProviders(write(t, body)); err == nil {
			t.Errorf("%q is accepted", body)
		}
	}
}

// A policy with a provider that does not exist, an expression or a query that is wrong has a problem with the path of the field.
func TestPoliciesAreChecked(t *testing.T) {
	all := provide(t, "- {name: main, prometheus: {url: 'http://127.0.0.1:1'}, namespaces: [kube-system]}\n- {name: judge, webhook: {url: 'http://127.0.0.1:1'}}")
	p := &everynode.RolloutPolicy{}
	p.Namespace = "default"
	p.Spec.Analyses = []everynode.Analysis{
		{Name: "a", Provider: "judge", Success: "result < 1"},
		{Name: "b", Provider: "nowhere", Success: "result <"},
		{Name: "c", Provider: "main", Query: "{{revision}}", Success: "result < 1"},
	}
	p.Spec.BlockOnAlerts = &everynode.BlockOnAlerts{Provider: "judge"}
	got := all.Check(p)
	want := []string{"spec.analyses[1].success: ", "spec.analyses[1].provider: ", "spec.analyses[2].query: ", "spec.analyses[2].provider: policies of the namespace default may not", "spec.blockOnAlerts.provider: "}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("problems %q, want %q", got, want)
	}
	p.Namespace, p.Spec.Analyses, p.Spec.BlockOnAlerts.Provider = "kube-system", []everynode.Analysis{{Name: "c", Provider: "main", Success: "result < 1"}}, "main"
	if got := all.Check(p); len(got) != 1 || !strings.HasPrefix(got[0], "spec.analyses[0].query: it is empty") {
		t.Errorf("problems %q", got)
	}
}

// A webhook gets what is analysed, and its result is judged. Every other answer is Unknown, and shows nothing of where the webhook is.
func TestWebhook(t *testing.T) {
	got := request{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&got) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(`{"result": 0.3}`))
	})
	q := policy.Question{Provider: "judge", Namespace: "default", Set: "agent", Analysis: "errors", Old: "v1", New: "v2", Wave: "canary", Success: "result < 0.01"}
	m := ask(t, provide(t, "- {name: judge, webhook: {url: '"+url+"'}}"), q)
	if m.Answer != everynode.AnswerFail || m.Value != "0.3" || m.Message != "result < 0.01 is false." {
		t.Errorf("measured %+v", m)
	}
	if want := (request{"default", "agent", "errors", "v1", "v2", "canary"}); got != want {
		t.Errorf("the request is %+v, want %+v", got, want)
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"error":       {text(500, `{"result": 0}`), "The webhook answers with status 500."},
		"not found":   {text(404, `{"result": 0}`), "The webhook answers with status 404."},
		"created":     {text(201, `{"result": 0}`), "The webhook answers with status 201."},
		"nonsense":    {text(200, `<html>`), `The webhook does not answer {"result": VALUE} in JSON.`},
		"two answers": {text(200, `{"result": 0}{"result": 1}`), `The webhook does not answer {"result": VALUE} in JSON.`},
		"nothing":     {text(200, ``), `The webhook does not answer {"result": VALUE} in JSON.`},
		"no result":   {text(200, `{"value": 0}`), "The webhook has answered no result."},
		"null":        {text(200, `{"result": null}`), "The webhook has answered no result."},
		"a text":      {text(200, `{"result": "0"}`), "cannot be computed"},
		"too long":    {text(200, `{"result": 0, "more": "`+strings.Repeat("a", 10<<20)+`"}`), "The answer is longer than 1 MiB."},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, url, http.StatusTemporaryRedirect)
		}, "The provider answers with a redirect, which is not followed."},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"result": 0}`))
		}, "The provider has given no answer that can be read."},
	} {
		t.Run(name, func(t *testing.T) {
			address := serve(t, test.answer)
			m := ask(t, provide(t, "- {name: judge, webhook: {url: '"+address+"'}}"), q)
			if m.Answer != everynode.AnswerUnknown || !strings.Contains(m.Message, test.want) {
				t.Errorf("measured %+v, want %s", m, test.want)
			}
			if strings.Contains(m.Message+m.Value, "127.0.0.1") {
				t.Errorf("the message has the address: %s", m.Message)
			}
		})
	}
	down := httptest.NewServer(text(200, ""))
	down.Close()
	if m := ask(t, provide(t, "- {name: judge, webhook: {url: '"+down.URL+"'}}"), q); m.Answer != everynode.AnswerUnknown || m.Message != "The provider cannot be reached." {
		t.Errorf("measured %+v", m)
	}
}

// A provider that hangs is Unknown after its timeout, before or in the middle of its answer.
func TestAProviderThatHangs(t *testing.T) {
	for name, begin := range map[string]string{"at once": "", "in the middle": `{"result": `} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					_, _ = w.Write([]byte(begin))
					_ = http.NewResponseController(w).Flush()
				}
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
			defer close(release)
			for _, kind := range []string{"webhook", "prometheus"} {
				all := provide(t, fmt.Sprintf("- {name: judge, timeout: 1s, %s: {url: '%s'}}", kind, url))
				m := ask(t, all, policy.Question{Provider: "judge", Success: "result < 1", Query: "up"})
				if m.Answer != everynode.AnswerUnknown || m.Message != "The provider has not answered within 1s." {
					t.Errorf("%s: measured %+v", kind, m)
				}
			}
		})
	}
}

// With TLS, the certificate is verified, and the token of the file is sent.
func TestProviderWithTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(`{"result": 0}`))
	}))
	t.Cleanup(s.Close)
	ca, token := write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))), write(t, "secret\n")
	if _, err := x509.ParseCertificate(s.Certificate().Raw); err != nil {
		t.Fatal(err)
	}
	q := policy.Question{Provider: "judge", Success: "result == 0"}
	for config, want := range map[string]everynode.Answer{
		"{url: '" + s.URL + "', caFile: " + ca + ", bearerTokenFile: " + token + "}":   everynode.AnswerPass,
		"{url: '" + s.URL + "', caFile: " + ca + "}":                                   everynode.AnswerUnknown,
		"{url: '" + s.URL + "', bearerTokenFile: " + token + "}":                       everynode.AnswerUnknown,
		"{url: '" + s.URL + "', caFile: " + ca + ", bearerTokenFile: /does/not/exist}": everynode.AnswerUnknown,
	} {
		if m := ask(t, provide(t, "- {name: judge, webhook: "+config+"}"), q); m.Answer != want || strings.Contains(m.Message, "secret") {
			t.Errorf("%s: measured %+v, want %s", config, m, want)
		}
	}
}

// answerOf is an answer of Prometheus.
func answerOf(kind, result string) http.HandlerFunc {
	return text(200, `{"status":"success","data":{"resultType":"`+kind+`","result":`+result+`}}`)
}

// What a Prometheus may answer, and what it cannot: see also the test with a real one.
func TestPrometheusAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   everynode.Answer
		says   string
	}{
		"one":         {answerOf("vector", `[{"metric":{"a":"b"},"value":[1,"0.001"]}]`), everynode.AnswerPass, "is true"},
		"bad":         {answerOf("vector", `[{"metric":{},"value":[1,"0.3"]}]`), everynode.AnswerFail, "is false"},
		"scalar":      {answerOf("scalar", `[1,"0.001"]`), everynode.AnswerPass, "is true"},
		"no data":     {answerOf("vector", `[]`), everynode.AnswerUnknown, "The query has returned no data."},
		"NaN":         {answerOf("vector", `[{"metric":{},"value":[1,"NaN"]}]`), everynode.AnswerUnknown, "The value is NaN."},
		"two":         {answerOf("vector", `[{"metric":{},"value":[1,"0"]},{"metric":{"a":"b"},"value":[1,"0"]}]`), everynode.AnswerUnknown, "returned 2 samples"},
		"matrix":      {answerOf("matrix", `[]`), everynode.AnswerUnknown, "returns a matrix"},
		"bad query":   {text(400, `{"status":"error","errorType":"bad_data","error":"parse error: \u001b[31mred"}`), everynode.AnswerUnknown, "Prometheus cannot evaluate the query: parse error: [31mred."},
		"unavailable": {text(503, "no"), everynode.AnswerUnknown, "no answer that can be read"},
		"nonsense":    {text(200, "<html>"), everynode.AnswerUnknown, "no answer that can be read"},
		"null":        {text(200, "null"), everynode.AnswerUnknown, ""},
		"empty":       {text(200, `{"status":"success"}`), everynode.AnswerUnknown, ""},
		"too long":    {answerOf("vector", `[{"metric":{"a":"`+strings.Repeat("b", 10<<20)+`"},"value":[1,"0"]}]`), everynode.AnswerUnknown, "The answer is longer than 1 MiB."},
	} {
		t.Run(name, func(t *testing.T) {
			all := provide(t, "- {name: main, prometheus: {url: '"+serve(t, test.answer)+"'}}")
			m := ask(t, all, policy.Question{Provider: "main", Query: "x", Success: "result < 0.01"})
			if m.Answer != test.want || !strings.Contains(m.Message, test.says) {
				t.Errorf("measured %+v, want %s, %s", m, test.want, test.says)
			}
			if m = ask(t, all, policy.Question{Provider: "main", Alerts: true}); strings.HasPrefix(name, "no data") != (m.Answer == everynode.AnswerPass) {
				t.Errorf("as an answer about alerts: %+v", m)
			}
		})
	}
}

// A question about alerts names those that hold, and is asked as the policy says.
func TestAlerts(t *testing.T) {
	var query string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.FormValue("query")
		answerOf("vector", `[{"metric":{"alertname":"Down"},"value":[1,"1"]},{"metric":{"alertname":"Down"},"value":[1,"1"]},{"metric":{"alertname":"Slow"},"value":[1,"1"]}]`)(w, r)
	})
	all := provide(t, "- {name: main, prometheus: {url: '"+url+"'}}")
	m := ask(t, all, policy.Question{Provider: "main", Alerts: true, Query: `severity="critical"`, FiringOnly: true})
	if m.Answer != everynode.AnswerFail || m.Message != "These alerts hold it: Down, Slow." || query != `ALERTS{alertstate="firing",severity="critical"}` {
		t.Errorf("asked %s, measured %+v", query, m)
	}
	if ask(t, all, policy.Question{Provider: "main", Alerts: true}); query != `ALERTS{alertstate=~"firing|pending"}` {
		t.Errorf("asked %s", query)
	}
	if m := ask(t, provide(t, "- {name: main, webhook: {url: '"+url+"'}}"), policy.Question{Provider: "main", Alerts: true}); m.Answer != everynode.AnswerUnknown {
		t.Errorf("measured %+v", m)
	}
}

// An answer with warnings may lack a part of the data, so it neither passes nor fails. An alert that it names is firing all the same.
func TestPartialAnswers(t *testing.T) {
	const warned = `,"warnings":["no store matched","partial response"]}`
	for name, c := range map[string]struct {
		result       string
		query, alert everynode.Answer
	}{
		"nothing": {`[]`, everynode.AnswerUnknown, everynode.AnswerUnknown},
		"good":    {`[{"metric":{"alertname":"Down"},"value":[1,"0.001"]}]`, everynode.AnswerUnknown, everynode.AnswerFail},
		"bad":     {`[{"metric":{"alertname":"Down"},"value":[1,"0.3"]}]`, everynode.AnswerUnknown, everynode.AnswerFail},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, text(200, `{"status":"success","data":{"resultType":"vector","result":`+c.result+`}`+warned))
			all := provide(t, "- {name: main, prometheus: {url: '"+url+"'}}")
			const says = "The answer may be incomplete, because the provider warns: no store matched; partial response."
			if m := ask(t, all, policy.Question{Provider: "main", Query: "x", Success: "result < 0.01"}); m.Answer != c.query || m.Message != says {
				t.Errorf("measured %+v", m)
			}
			if m := ask(t, all, policy.Question{Provider: "main", Alerts: true}); m.Answer != c.alert || c.alert == everynode.AnswerUnknown && m.Message != says {
				t.Errorf("as an answer about alerts: %+v", m)
			}
		})
	}
}

// TestProvidersAreReplaced: policies that name a provider are measured with the one that counts now, also if it is new.
func TestProvidersAreReplaced(t *testing.T) {
	none, answers := serve(t, text(http.StatusInternalServerError, "")), serve(t, text(http.StatusOK, `{"result": 1}`))
	r := New(provide(t, "- {name: main, webhook: {url: \""+none+"\"}}\n"), clock.RealClock{})
	q := policy.Question{Provider: "main", Success: "result == 1", Namespace: "default"}
	measured := func() everynode.Answer {
		m, _ := r.measure(t.Context(), &q, func() (*expression, error) { return compile(q.Success) })
		return m.Answer
	}
	if got := measured(); got != everynode.AnswerUnknown {
		t.Errorf("the first provider answers %s", got)
	}
	r.Replace(provide(t, "- {name: main, webhook: {url: \""+answers+"\"}}\n- {name: new, webhook: {url: \""+answers+"\"}}\n"))
	if got := measured(); got != everynode.AnswerPass {
		t.Errorf("the one in its place answers %s", got)
	}
	p := &everynode.RolloutPolicy{Spec: everynode.RolloutPolicySpec{Analyses: []everynode.Analysis{{Name: "a", Provider: "new", Success: "result == 1"}}}}
	if problems := r.Check(p); len(problems) > 0 {
		t.Errorf("a new provider: %q", problems)
	}
	if got := Files([]byte("providers: [{name: a, prometheus: {url: 'https://a', caFile: /a.crt}}, {name: b, webhook: {caFile: /b.crt}}, {name: c}]")); !slices.Equal(got, []string{"/a.crt", "/b.crt"}) {
		t.Errorf("the files are %q", got)
	}
}
