// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/cert"
	logsapi "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/agent"
	"everynode.dev/everynode/internal/manager"
)

// given are the values that become flags of the programs.
type given struct {
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	Manager      flags           `json:"manager"`
	Agent        flags           `json:"agent"`
}

type flags struct {
	Flags map[string]any `json:"flags,omitempty"`
}

func (g given) yaml(t *testing.T) string {
	t.Helper()
	data, err := yaml.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// noCluster is where a program stops that has taken all of its flags.
const noCluster = "/no/such/kubeconfig"

// refused is why one of the programs does not start with these flags; nil where both do.
func (g given) refused(t *testing.T) error {
	t.Helper()
	of := func(values map[string]any, more ...string) []string {
		args := append(more, "--kubeconfig="+noCluster)
		for name, value := range values {
			text, isText := value.(string)
			if !isText {
				data, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				text = string(data)
			}
			args = append(args, "--"+name+"="+text)
		}
		return args
	}
	var gates []string
	for name, on := range g.FeatureGates {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	if err := run(t, manager.NewCommand(""), of(g.Manager.Flags, "--feature-gates="+strings.Join(gates, ","))); err != nil {
		return err
	}
	return run(t, agent.NewCommand(""), of(g.Agent.Flags, "--node-name=a"))
}

func run(t *testing.T, command *cobra.Command, args []string) error {
	t.Helper()
	defer func() {
		if err := logsapi.ResetForTest(nil); err != nil {
			t.Fatal(err)
		}
	}()
	command.SetArgs(args)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := command.ExecuteContext(ctx)
	if err == nil {
		t.Fatalf("%q: it runs without a cluster", args)
	}
	if strings.Contains(err.Error(), noCluster) {
		return nil
	}
	return err
}

// TestFlagsThatDependOnOneAnother are refused as the programs refuse them, and in words.
func TestFlagsThatDependOnOneAnother(t *testing.T) {
	for values, want := range map[string]string{
		"manager: {flags: {leader-elect-lease-duration: 5s, leader-elect-renew-deadline: 10s}}":                                        "leader-elect-lease-duration (5s) must be at least 1s and longer than leader-elect-renew-deadline (10s)",
		"manager: {flags: {leader-elect-lease-duration: 7s}}":                                                                          "leader-elect-lease-duration (7s)",
		"manager: {flags: {leader-elect-renew-deadline: 10s}}":                                                                         "leader-elect-renew-deadline (10s)",
		"manager: {flags: {leader-elect-renew-deadline: 1.8s}}":                                                                        "1.2 times leader-elect-retry-period (1500ms)",
		"manager: {flags: {leader-elect-retry-period: 7s}}":                                                                            "leader-elect-retry-period (7s)",
		"manager: {flags: {leader-elect-lease-duration: 900ms, leader-elect-renew-deadline: 500ms, leader-elect-retry-period: 100ms}}": "at least 1s",
		"manager: {flags: {leader-elect-lease-duration: 9999999999h}}":                                                                 "9999999999h",
		"manager: {flags: {log-flush-frequency: 9999999999h}}":                                                                         "9999999999h",
		"manager: {flags: {logging-format: json, vmodule: a=1}}":                                                                       "manager.flags: vmodule works only with logging-format text",
		"manager: {flags: {log-json-split-stream: true}}":                                                                              "log-json-split-stream needs featureGates: {LoggingAlphaOptions: true}",
		"{manager: {flags: {log-text-info-buffer-size: 4Ki}}, featureGates: {AllAlpha: true, LoggingAlphaOptions: false}}":             "log-text-info-buffer-size needs featureGates",
		"{manager: {flags: {logging-format: json}}, featureGates: {LoggingBetaOptions: false}}":                                        "LoggingBetaOptions",
		"{manager: {flags: {logging-format: json}}, featureGates: {AllBeta: false}}":                                                   "LoggingBetaOptions",
		"agent: {flags: {logging-format: json, vmodule: a=1}}":                                                                         "agent.flags: vmodule works only with logging-format text",
		"agent: {flags: {log-json-split-stream: true}}":                                                                                "log-json-split-stream",
		"agent: {flags: {listen: 0, openyurt-api: 'true'}}":                                                                            "openyurt-api adds routes to the API of the node, but listen: 0 switches this API off",
		"agent: {flags: {listen: '0', openyurt-api: true}}":                                                                            "openyurt-api adds routes",
		"agent: {flags: {listen: ':10267'}}":                                                                                           "set tls-cert-file and tls-private-key-file",
		"agent: {flags: {listen: '127.0.0.300:1'}}":                                                                                    "can be reached from other machines",
		"agent: {flags: {listen: ':1', tls-cert-file: /c, tls-private-key-file: /k, openyurt-api: true}}":                              "have no authentication",
		"agent: {flags: {tls-cert-file: /c}}":                                                                                          "tls-private-key-file",
		"agent: {flags: {tls-private-key-file: /k}}":                                                                                   "tls-cert-file",
		"agent: {flags: {credential-provider-config: /c}}":                                                                             "credential-provider-bin-dir",
		"agent: {flags: {credential-provider-bin-dir: /b}}":                                                                            "credential-provider-config",
	} {
		g := given{}
		if err := yaml.UnmarshalStrict([]byte(values), &g); err != nil {
			t.Fatal(err)
		}
		if _, err := (release{values: values}).texts(t); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error that says %s, got %v", values, want, err)
		}
		if g.refused(t) == nil {
			t.Errorf("%s: the programs take that", values)
		}
	}
	// The agent would start, and its second server not.
	values := "agent: {flags: {listen: '127.0.0.1:10268'}}"
	if _, err := (release{values: values}).texts(t); err == nil || !strings.Contains(err.Error(), "the agent serves its metrics on the port of listen") {
		t.Errorf("%s: %v", values, err)
	}
}

// TestFlagsThatBelongTogether are taken, by the chart as by the programs.
func TestFlagsThatBelongTogether(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("node", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	for name, data := range map[string][]byte{"c": certificate, "k": key} {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, values := range []string{
		"manager: {flags: {leader-elect-lease-duration: 1m0.5s, leader-elect-renew-deadline: 60s, leader-elect-retry-period: 49s}}",
		"manager: {flags: {leader-elect-lease-duration: 1s, leader-elect-renew-deadline: 900ms, leader-elect-retry-period: 700ms}}",
		"{manager: {flags: {log-json-split-stream: true, logging-format: json}}, featureGates: {AllAlpha: true}}",
		"{manager: {flags: {log-text-info-buffer-size: 4Ki, log-text-split-stream: 'true'}}, featureGates: {LoggingAlphaOptions: true}}",
		"{manager: {flags: {logging-format: json}}, featureGates: {LoggingBetaOptions: true, AllBeta: false}}",
		"manager: {flags: {log-json-split-stream: false, log-text-info-buffer-size: 0}}",
		"agent: {flags: {listen: ':10267', tls-cert-file: AT/c, tls-private-key-file: AT/k}}",
		"agent: {flags: {listen: '[::1]:1', openyurt-api: true}}",
		"agent: {flags: {listen: 0, openyurt-api: 'false'}}",
		"agent: {flags: {credential-provider-config: /c, credential-provider-bin-dir: /b}}",
	} {
		values = strings.ReplaceAll(values, "AT/", at+"/")
		g := given{}
		if err := yaml.UnmarshalStrict([]byte(values), &g); err != nil {
			t.Fatal(err)
		}
		if _, err := (release{values: values}).texts(t); err != nil {
			t.Errorf("%s: %v", values, err)
		}
		if err := g.refused(t); err != nil && !strings.Contains(values, "credential-provider") { // they are read when there is a cluster
			t.Errorf("%s: %v", values, err)
		}
	}
}

// tries are values that somebody may give to a flag.
func tries() []any {
	return []any{
		0, 1, -1, 100, 101, 2147483648, 99999999999, 0.5, 1e39, true, false, "", "0", "08", "1", "101", "99999999999999999999", "0.0", "12.5", "true", "TRUE", "yes",
		"xml", "json", "text", "a=1", "a=1,b=2", "=1", "a=", "a=b", "a=1=2", "a=99999999999", "a=1\nb: d",
		"0s", "-1s", "1ns", "1s", "1500ms", "7s", "10s", "99999999h", "4Ki", "4Kb",
		"nonsense", ":10267", "127.0.0.1:0", "127.0.0.1:10267", "LocalHost:1", "[::1]:1", "::1:1", "0.0.0.0:1", "/a", "a/b",
	}
}

// TestWhatTheChartTakesStarts: a value that the chart takes for a flag is one with which the program starts, whatever it is. Else it would be the pods that
// tell, by not becoming ready.
func TestWhatTheChartTakesStarts(t *testing.T) {
	root, loaded := schemaOf(t), load(t)
	shapeless := map[string]bool{} // what the schema refuses for one flag it refuses for all of the same definition
	for program, to := range map[string]func(*given) *flags{"manager": func(g *given) *flags { return &g.Manager }, "agent": func(g *given) *flags { return &g.Agent }} {
		all := root.Properties[program].Properties["flags"].Properties
		for _, name := range slices.Sorted(maps.Keys(all)) {
			alone := !strings.HasPrefix(name, "tls-") && !strings.HasPrefix(name, "credential-")
			taken, not := 0, 0
			for _, value := range tries() {
				try := fmt.Sprintf("%s %#v", all[name].Ref, value)
				if shapeless[try] {
					not++
					continue
				}
				g := given{}
				to(&g).Flags = map[string]any{name: value}
				if _, err := (release{values: g.yaml(t), of: loaded}).texts(t); err != nil {
					not++
					shapeless[try] = alone && strings.Contains(err.Error(), "specifications of the schema")
					continue
				}
				taken++
				if err := g.refused(t); err != nil {
					t.Errorf("the chart takes %s.flags.%s: %#v, and the program says: %v", program, name, value, err)
				}
			}
			if not == 0 || alone && taken == 0 {
				t.Errorf("%s.flags.%s: %d values are taken and %d are not, so this test sees nothing", program, name, taken, not)
			}
		}
	}
}
