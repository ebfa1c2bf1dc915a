// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"everynode.dev/everynode/internal/features"
)

// parse gives the options that args lead to; a configuration file, if not empty, is given as --config.
func parse(t *testing.T, file string, args ...string) (*options, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	o := newOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o, o.complete(fs)
}

const head = "apiVersion: config.everynode.dev/v1alpha1\nkind: ManagerConfiguration\n"

func TestFlagsWinOverTheFile(t *testing.T) {
	o, err := parse(t, head+"kubeAPIQPS: 7\nkubeAPIBurst: 8\nleaderElection: {enabled: false, leaseDuration: 1m}\nfeatureGates: {ConflictProbe: false}\n",
		"--kube-api-qps", "9")
	if err != nil {
		t.Fatal(err)
	}
	if o.qps != 9 || o.burst != 8 || o.leaderElect || o.leaseDuration != time.Minute || o.concurrentSyncs != 4 || o.gates.Enabled(features.ConflictProbe) {
		t.Errorf("%+v", o)
	}
}

func TestEveryFieldOfTheFileIsHonoured(t *testing.T) {
	o, err := parse(t, head+`kubeconfig: k
namespace: here
dialects: [kruise]
comeBackFirstNamespaces: [agents]
concurrentSyncs: 1
kubeAPIQPS: 2
kubeAPIBurst: 3
metricsBindAddress: "4"
metricsPerSet: true
inPlaceWaitForImages: false
deployment: own
endingTimeout: 9s
healthProbeBindAddress: "5"
webhook: {url: "https://u:6", bindAddress: ":7", certDir: d}
leaderElection: {enabled: true, leaseDuration: 60s, renewDeadline: 50s, retryPeriod: 40s}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{o.kubeconfig, o.namespace, o.concurrentSyncs, o.qps, o.burst, o.metricsAddress, o.metricsPerSet, o.imagesInPlace, o.healthAddress, o.leaderElect, o.leaseDuration, o.renewDeadline, o.retryPeriod,
		o.dialects[0], o.comeBackFirstNamespaces[0], o.webhookURL, o.webhookAddress, o.webhookCertDir, o.deployment, o.endingTimeout}
	want := []any{"k", "here", 1, float32(2), 3, "4", true, false, "5", true, time.Minute, 50 * time.Second, 40 * time.Second,
		"kruise", "agents", "https://u:6", ":7", "d", "own", 9 * time.Second}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("field %d: %v, want %v", i, got[i], want[i])
		}
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		args []string
		want string
	}{
		"unknown dialect":        {"", []string{"--dialects", "klingon"}, `unknown dialect "klingon" in --dialects: known are native`},
		"no dialect":             {"", []string{"--dialects", ""}, "--dialects is empty"},
		"no workers":             {"", []string{"--concurrent-syncs", "0"}, "--concurrent-syncs must be greater than 0, but got 0"},
		"no requests":            {"", []string{"--kube-api-qps", "-1"}, "--kube-api-qps must be 0, for no limit"},
		"no burst":               {"", []string{"--kube-api-burst", "-1"}, "--kube-api-burst must be greater than 0"},
		"no namespace":           {"", []string{"--namespace", ""}, `--namespace "" is not the name of a namespace`},
		"bad namespace":          {"", []string{"--namespace", "Bad Name"}, `--namespace "Bad Name" is not the name`},
		"a Deployment":           {"", []string{"--deployment", "Bad Name"}, `--deployment "Bad Name" is not the name of a Deployment`},
		"time to end":            {"", []string{"--ending-timeout", "-1s"}, "--ending-timeout must be 0, to stop at once"},
		"profiles of nowhere":    {"", []string{"--profiling", "--metrics-bind-address", "0"}, "--profiling needs a --metrics-bind-address"},
		"one address twice":      {"", []string{"--metrics-bind-address", ":1", "--health-probe-bind-address", ":1"}, "are both :1"},
		"lease shorter":          {"", []string{"--leader-elect-lease-duration", "1s"}, "lease duration (1s) > renew deadline (7s)"},
		"retry too late":         {"", []string{"--leader-elect-retry-period", "6s"}, "> renew deadline (7s) > 1.2 times retry period (6s)"},
		"lease of no second":     {"", []string{"--leader-elect-lease-duration", "999ms", "--leader-elect-renew-deadline", "500ms", "--leader-elect-retry-period", "100ms"}, "1s or more"},
		"URL without webhooks":   {"", []string{"--dialects", "native", "--webhook-url", "https://a:1"}, "--webhook-url is given, but only the dialect kruise has webhooks"},
		"a namespace of sets":    {"", []string{"--come-back-first-namespaces", "A"}, `"A" in --come-back-first-namespaces is not the name of a namespace`},
		"webhooks on no port":    {"", []string{"--webhook-bind-address", "localhost"}, `--webhook-bind-address "localhost" cannot be listened on`},
		"webhooks on port 0":     {"", []string{"--webhook-bind-address", ":0"}, "write host:port or :port"},
		"field of the file":      {head + "concurrentSync: 1\n", nil, `unknown field "concurrentSync"`},
		"kind of the file":       {"kind: Deployment\n", nil, "write apiVersion: config.everynode.dev/v1alpha1 and kind: ManagerConfiguration"},
		"value in the file":      {head + "concurrentSyncs: 0\n", nil, "--concurrent-syncs must be greater than 0"},
		"gate in the file":       {head + "featureGates: {Nonsense: true}\n", nil, "Nonsense"},
		"providers of nowhere":   {"", []string{"--analysis-providers", "/does/not/exist"}, "--analysis-providers /does/not/exist: reading the providers of analyses"},
		"targets of nowhere":     {"", []string{"--notification-targets", "/does/not/exist"}, "--notification-targets /does/not/exist: reading the targets of notifications"},
		"targets in the file":    {head + "notificationTargets: /does/not/exist\n", nil, "--notification-targets /does/not/exist:"},
		"providers in the file":  {head + "analysisProviders: /does/not/exist\n", nil, "--analysis-providers /does/not/exist:"},
		"not a file of settings": {"{", nil, "configuration file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.file, c.args...)
			if usage := (*UsageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant a usage error with %s", err, c.want)
			}
		})
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	o := newOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.addFlags(fs)
	_ = fs.Parse([]string{"--config", "/does/not/exist"})
	if err := o.complete(fs); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("error %v", err)
	}
}

func TestTheSampleIsUnderstood(t *testing.T) {
	sample, err := os.ReadFile("../../docs/samples/manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := parse(t, string(sample)); err != nil || o.metricsAddress != "127.0.0.1:8080" {
		t.Errorf("error %v", err)
	}
}

// Who says under which port the API server reaches the webhooks has them served there.
func TestWhereWebhooksAreServed(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing is said":       {nil, ":9443"},
		"the port of the URL":   {[]string{"--webhook-url=https://a:19443"}, ":19443"},
		"a URL without a port":  {[]string{"--webhook-url=https://a"}, ":9443"},
		"behind another port":   {[]string{"--webhook-url=https://a:19443", "--webhook-bind-address=:9443"}, ":9443"},
		"an address without it": {[]string{"--webhook-bind-address=127.0.0.1:1"}, "127.0.0.1:1"},
	} {
		if o, err := parse(t, "", c.args...); err != nil || o.webhookAddress != c.want {
			t.Errorf("%s: %q, error %v, want %q", name, o.webhookAddress, err, c.want)
		}
	}
}
