// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/record"
	logsapi "k8s.io/component-base/logs/api/v1"

	"everynode.dev/everynode/internal/agent/pull"
)

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Setenv(nodeNameVariable, "")
	for want, args := range map[string]string{
		"set --node-name":                       "",
		`--node-name "A_b" is not`:              "--node-name A_b",
		"write for example unix:///run":         "--node-name a --cri-socket /run/containerd.sock",
		"use host:port, or 0":                   "--node-name a --metrics-bind-address here",
		"must not be negative":                  "--node-name a --max-concurrent-pulls -1",
		"a percentage from 0 to 100":            "--node-name a --image-fs-limit 101",
		`--pull-secret-namespace "" is not`:     "--node-name a --pull-secret-namespace=",
		"must be set together":                  "--node-name a --credential-provider-config /etc/c.yaml",
		`unexpected argument "serve"`:           "serve",
		"unknown flag: --max-concurrent-images": "--max-concurrent-images 3",
	} {
		command := NewCommand("test")
		command.SetArgs(strings.Fields(args))
		command.SetOut(io.Discard)
		err := command.ExecuteContext(t.Context())
		if usage := (*UsageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", args, err, want)
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	tell := newReporter(record.NewFakeRecorder(1), registry)
	tell.observe([]pull.State{{Phase: pull.Succeeded}, {Phase: pull.Pulling}}, pull.Facts{Down: "no socket"})
	tell.pulled(pull.Run{Result: pull.Failed}, time.Now())
	tell.wrote(nil)
	tell.answered(http.StatusServiceUnavailable)
	tell.connected(true)
	tell.storeSetAside("it is of another node")
	ready, heartbeat := false, atomic.Int64{}
	handler := probes{ready: func() bool { return ready }, heartbeat: &heartbeat}.handler(registry)
	get := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer.Code, answer.Body.String()
	}
	for step, c := range []struct {
		ready        bool
		last         time.Time
		ready1, live int
	}{
		{false, time.Unix(0, 0), 503, 200},
		{true, time.Now(), 200, 200},
		{true, time.Now().Add(-time.Hour), 200, 503},
	} {
		ready = c.ready
		heartbeat.Store(c.last.Unix())
		if code, _ := get("/readyz"); code != c.ready1 {
			t.Errorf("step %d: ready %d", step, code)
		}
		if code, _ := get("/healthz"); code != c.live {
			t.Errorf("step %d: healthy %d", step, code)
		}
	}
	_, metrics := get("/metrics")
	for _, line := range []string{
		`everynode_agent_images{phase="Succeeded"} 1`, `everynode_agent_images{phase="Waiting"} 0`, "everynode_agent_runtime_up 0",
		`everynode_agent_pulls_total{result="failed"} 1`, `everynode_agent_status_writes_total{result="done"} 1`, `everynode_agent_api_answers_total{code="503"} 1`,
		"everynode_agent_connected 1", "everynode_agent_stores_set_aside_total 1",
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics lack %s:\n%s", line, metrics)
		}
	}
	for _, d := range Declared() {
		if !strings.Contains(metrics, "# HELP "+d.Name+" "+d.Help) && d.Type != "histogram" {
			t.Errorf("%s is declared, but not served", d.Name)
		}
	}
}

func TestOptionsOfTheAPI(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--listen", "0"}, ""},
		{[]string{"--listen", "localhost:0"}, ""},
		{[]string{"--listen", "[::1]:10267", "--openyurt-api"}, ""},
		{[]string{"--listen", "10267"}, "not a valid address"},
		{[]string{"--listen", ":10267"}, "can be reached from other machines, and tokens"},
		{[]string{"--listen", "0.0.0.0:10267"}, "can be reached from other machines, and tokens"},
		{[]string{"--listen", "node-1:10267"}, "can be reached from other machines, and tokens"},
		{[]string{"--listen", ":10267", "--tls-cert-file", "a", "--tls-private-key-file", "b", "--openyurt-api"}, "have no authentication"},
		{[]string{"--tls-cert-file", "a"}, "must be set together"},
		{[]string{"--tls-private-key-file", "a"}, "must be set together"},
		{[]string{"--tls-cert-file", "no-such-file", "--tls-private-key-file", "no-such-file"}, "cannot be used"},
		{[]string{"--listen", "0", "--openyurt-api"}, "set only one of them"},
		{[]string{"--state-dir", ""}, "--state-dir is empty"},
	} {
		o := &options{logs: logsapi.NewLoggingConfiguration()}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(fs)
		if err := fs.Parse(append([]string{"--node-name", "n"}, row.args...)); err != nil {
			t.Fatal(err)
		}
		err := o.complete()
		if got := fmt.Sprint(err); row.want == "" && err != nil || !strings.Contains(got, row.want) {
			t.Errorf("%q: %v, want %q", row.args, err, row.want)
		}
	}
}
