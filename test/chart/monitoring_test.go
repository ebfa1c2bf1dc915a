// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/agent"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/rollout"
)

const monitoringGroup = "monitoring.coreos.com"

// rule is one alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ruleFile is what Prometheus reads, and what a PrometheusRule has below spec.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

func alerts(t *testing.T) []rule {
	t.Helper()
	rules := ruleFile{}
	if err := yaml.UnmarshalStrict(file(t, "monitoring/alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) == 0 {
		t.Fatalf("the rules are %+v", rules)
	}
	return rules.Groups[0].Rules
}

// stories are numbers for 70 minutes, one a minute, and whether people are told of each alert at their end: it was on for as long as it says with "for".
func stories() map[string]map[string]bool {
	const (
		verdict  = `everynode_set_verdicts{dialect="kruise",namespace="a",name="b",verdict="%"} `
		progress = `everynode_set_last_progress_seconds{dialect="native",namespace="a",name="b",pod="one"} `
		dialects = `everynode_set_last_progress_seconds{dialect="kruise",pod="one"} `
		rejected = `apiserver_admission_webhook_rejection_count{name="%",error_type="calling_webhook_error",operation="CREATE"} `
		ends     = `everynode_webhook_certificate_ends_seconds{pod="one"} `
		conflict = `everynode_dialect_conflict{dialect="native",pod="one"} `
		began    = `process_start_time_seconds{pod="%"} `
		convert  = `apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="%",succeeded="false"} `
		number   = `everynode_set_nodes{dialect="kruise",namespace="a",name="b",number="%"} `
		rolls    = `everynode_set_last_progress_seconds{dialect="kruise",namespace="a",name="b"} `
		missing  = `everynode_policy_approval_missing_since_seconds{pod="one"} `
		rolling  = `everynode_policy_wave_rolling_since_seconds{pod="one"} `
		phase    = `everynode_policy_sets{pod="one",phase="%"} `
		decided  = `everynode_policy_decisions_total{pod="one",reason="%"} `
		answer   = `everynode_policy_analyses{pod="one",answer="%"} `
		window   = `everynode_write_concurrency_limit{pod="%"} `
		aside    = `everynode_agent_stores_set_aside_total{namespace="a",pod="%"} `
		pulls    = `everynode_pull_images{phase="%"} `
		leads    = `leader_election_master_status{name="everynode-manager",pod="%"} `
	)
	of := func(pattern, with string) string { return strings.ReplaceAll(pattern, "%", with) }
	// Nothing is scraped while a container waits to be started again.
	restarting := of(began, "one") + "0x9 " + crashing("%d") + "\n" + of(leads, "one") + "0x9 " + crashing("0")
	return map[string]map[string]bool{
		"EverynodeRolloutStuck": {
			progress + "600x70":          true,
			progress + "0+60x70":         false, // it goes on
			progress + "0+60x30 1800x39": true,  // it went on until 40 minutes ago
			progress + "0+60x50 3000x19": false, // and here until 20 minutes ago
			progress + "0+60x37 2220x32": false, // and here it has been on for three minutes
			progress + "600x50 _x20":     false, // it is over
			dialects + "600x70":          true,  // the one of all sets that stands still for longest
			// The set of a new leader has a number of its own.
			progress + "600x30 _x40\n" + strings.Replace(progress, "one", "two", 1) + "_x31 1860+60x39": false,
		},
		"EverynodeNodeBlocked": {
			of(verdict, "blocked") + "2x70": true, of(verdict, "blocked") + "0x70": false, of(verdict, "wait-budget") + "2x70": false,
			of(verdict, "blocked") + "0x54 2x15": true, of(verdict, "blocked") + "0x60 2x9": false,
			of(verdict, "blocked") + "2x59 0x0 2x9": false, // it was over in between
		},
		"EverynodeHookNotReleased": {
			of(verdict, "wait-hook") + "1x70": true, of(verdict, "preparing") + "1x70": false, of(verdict, "wait-hook") + "0x30 1x39": false,
		},
		"EverynodeWebhookCertificateEnds": {
			ends + "1300000x70": false, ends + "1212000x70": false /* for half an hour */, ends + "1200000x70": true, ends + "1300000x70\n" + strings.Replace(ends, "one", "two", 1) + "4200x70": true,
		},
		"EverynodeWebhookUnreachable": {
			of(rejected, "vdaemonset.kb.io") + "0+1x70": true, of(rejected, "mimagepulljob.kb.io") + "0+1x70": true,
			of(rejected, "vdaemonset.kb.io") + "0x65 1x4": false, of(rejected, "vdaemonset.kb.io") + "3x70": false, of(rejected, "vcloneset.kb.io") + "0+1x70": false,
		},
		"EverynodeHoldsStill": {conflict + "1x70": true, conflict + "0x70": false, conflict + "0x60 1x9": false},
		"EverynodeManagerRestarts": {
			of(began, "one") + "0+300x70\n" + of(leads, "one") + "1x70":         true,
			of(began, "one") + "0x58 5 8 11 14x8\n" + of(leads, "one") + "1x70": true,
			of(began, "one") + "0x66 5 8 11 14\n" + of(leads, "one") + "1x70":   false, // for a minute
			of(began, "one") + "0x70\n" + of(leads, "one") + "1x70":             false,
			of(began, "another") + "0+300x70\n" + of(leads, "one") + "1x70":     false,
			of(began, "one") + "0+30x3 90x66\n" + of(leads, "one") + "1x70":     false, // over an hour ago
			restarting: true, // it runs for a minute and is away for five, again and again
		},
		"EverynodeLeaderChanges": {
			of(leads, "one") + "1 0 1 0 1 0 1 0 1x62":                         false, // over an hour ago
			of(leads, "one") + "1x20 0 1 0 1 0 1 0 1 0 1x40":                  true,
			of(leads, "one") + "1x62 0 1 0 1 0 1 0":                           false, // for a minute
			of(leads, "one") + "1x30 0x39\n" + of(leads, "two") + "0x30 1x39": false,
		},
		"EverynodeConversionFails": {
			of(convert, "daemonsets.apps.kruise.io") + "0+1x70": true, of(convert, "daemonsets.apps.kruise.io") + "3x70": false,
			of(convert, "clonesets.apps.kruise.io") + "0+1x70": false, of(convert, "daemonsets.apps.kruise.io") + "0x65 1x4": false,
		},
		"EverynodeTooFewPods": {
			of(number, "unavailable") + "2x70": true, of(number, "unavailable") + "0x70": false, of(number, "desired") + "2x70": false,
			of(number, "unavailable") + "2x70\n" + rolls + "600x70": false, of(number, "unavailable") + "0x60 2x9": false,
		},
		// Moments before the story begins are negative.
		"EverynodeApprovalForgotten": {
			missing + "-90000x70": true, missing + "-1000x70": false, missing + "_x70": false,
			missing + "-82600x70":         true,  // for six minutes
			missing + "-82400x70":         false, // for three minutes
			missing + "-90000x60 _x9":     false, // it was approved
			missing + "-90000x50 3000x19": false, // another one waits now
		},
		"EverynodeWaveOverdue": {
			rolling + "-20000x70": true, rolling + "0x70": false, rolling + "-11200x70": true, rolling + "-10500x70": false, rolling + "-20000x60 _x9": false,
		},
		"EverynodeRolloutFailed": {
			of(phase, "Failed") + "1x70": true, of(phase, "Failed") + "0x70": false, of(phase, "Undoing") + "1x70": false,
			of(phase, "Failed") + "1x60 0x9": false, of(phase, "Failed") + "0x69 1": false,
		},
		"EverynodeRolloutUndone": {
			of(decided, "RolloutUndoEnded") + "0x60 1x9": true, of(decided, "RolloutUndoEnded") + "0x69 1": false, of(decided, "RolloutCommitted") + "0x60 1x9": false,
			of(decided, "RolloutUndoEnded") + "0x5 1x64": false, // more than an hour ago
			of(decided, "RolloutUndoEnded") + "3x70":     false,
		},
		"EverynodeUndoOverdue": {
			of(phase, "Undoing") + "1x70": true, of(phase, "Undoing") + "0x60 1x9": false, of(phase, "Failed") + "1x70": false,
		},
		"EverynodeAnalysisUnknown": {
			of(answer, "Unknown") + "1x70": true, of(answer, "Unknown") + "0x70": false, of(answer, "Fail") + "1x70": false,
			of(answer, "Unknown") + "0x60 1x9": false, of(answer, "Unknown") + "1x60 0x9": false,
		},
		"EverynodeRolloutHeldOutsideWindow": {
			of(phase, "WaitingForWindow") + "1x70": true, of(phase, "WaitingForWindow") + "0x70": false, of(phase, "Rolling") + "1x70": false,
			of(phase, "WaitingForWindow") + "0x30 1x39": false, of(phase, "WaitingForWindow") + "2x60 0x9": false,
		},
		"EverynodeWritesHeldBack": {
			of(window, "one") + "3x70\n" + of(leads, "one") + "1x70": true, of(window, "one") + "250x70\n" + of(leads, "one") + "1x70": false,
			of(window, "one") + "250x60 3x9\n" + of(leads, "one") + "1x70":                                                          false,
			of(window, "one") + "250x70\n" + of(leads, "one") + "1x70\n" + of(window, "two") + "3x70\n" + of(leads, "two") + "0x70": false,
		},
		"EverynodePullsFail": {
			of(pulls, "failed") + "1x70": true, of(pulls, "failed") + "0x70": false, of(pulls, "pulling") + "1x70": false, of(pulls, "failed") + "0x50 1x19": false,
		},
		"EverynodeLeaderReads": {
			"everynode_leader_reading 1x70": true, "everynode_leader_reading 0x70": false, "everynode_leader_reading 1x60 0x9": false,
			"everynode_leader_reading 0x64 1x5": false,
		},
		"EverynodeAgentStoreSetAside": {
			of(aside, "one") + "0x69 1": false,
			of(aside, "one") + "1x70":   true, of(aside, "one") + "0x70\n" + of(aside, "two") + "1x70": true, of(aside, "one") + "0x70": false,
		},
		"EverynodeWithoutLeader": {
			of(leads, "one") + "1x70\n" + of(leads, "two") + "0x70": false, of(leads, "one") + "0x70": true, "other 1x70": true,
			of(leads, "one") + "1x66 0x3": false, of(leads, "one") + "1x64 0x5": true,
		},
	}
}

// crashing are the numbers of an hour in which a process runs for one minute of six. Where they are a time, it is that of its start.
func crashing(number string) string {
	var numbers strings.Builder
	for start := 600; start < 4200; start += 360 {
		fmt.Fprint(&numbers, strings.ReplaceAll(number, "%d", fmt.Sprint(start)), strings.Repeat(" stale", 5), " ")
	}
	return numbers.String()
}

// TestAlerts plays numbers to Prometheus' own engine, and sees of which alerts people are told.
func TestAlerts(t *testing.T) {
	all := stories()
	engine := promqltest.NewTestEngine(t, false, 0, 100_000)
	for _, alert := range alerts(t) {
		seen := map[string]bool{}
		for story, want := range all[alert.Alert] {
			on, told := plays(t, engine, alert, story)
			if told != want {
				t.Errorf("people are told of %s: %t, want %t, with\n%s", alert.Alert, told, want, story)
			}
			seen[fmt.Sprint("on ", on, ", told ", told)] = true
		}
		for _, want := range []string{"on true, told true", "on true, told false", "on false, told false"} {
			if !seen[want] {
				t.Errorf("no story of %s has it %s", alert.Alert, want)
			}
		}
		delete(all, alert.Alert)
	}
	if len(all) > 0 {
		t.Errorf("there are stories of alerts that are not there: %v", all)
	}
}

// plays says whether an alert is on at the end of a story, and whether it has been for so long that people are told.
func plays(t *testing.T, engine *promql.Engine, alert rule, story string) (on, told bool) {
	t.Helper()
	patience, err := model.ParseDuration(alert.For)
	if err != nil {
		t.Fatalf("%s: %v", alert.Alert, err)
	}
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+strings.ReplaceAll(story, "\n", "\n  "))
	end := time.Unix(0, 0).Add(70 * time.Minute)
	begin := end.Add(-time.Duration(patience))
	query, err := engine.NewRangeQuery(t.Context(), storage, nil, alert.Expr, begin, end, time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", alert.Alert, err)
	}
	result := query.Exec(t.Context())
	series, ok := result.Value.(promql.Matrix)
	if result.Err != nil || !ok {
		t.Fatalf("%s: %v", alert.Alert, result)
	}
	for _, one := range series {
		on = on || one.Floats[len(one.Floats)-1].T == end.UnixMilli()
		told = told || len(one.Floats) == int(end.Sub(begin)/time.Minute)+1 // at each of these minutes
	}
	query.Close()
	if err := storage.Close(); err != nil {
		t.Error(err)
	}
	return on, told
}

// known are the metrics that expressions may name, and the values of labels that are ours.
func known() (names, verdicts sets.Set[string]) {
	names = sets.New("leader_election_master_status", "process_start_time_seconds", "apiserver_admission_webhook_rejection_count",
		"apiserver_crd_conversion_webhook_duration_seconds_count")
	for _, d := range agent.Declared() {
		names.Insert(d.Name)
	}
	for _, d := range metrics.Declared() {
		names.Insert(d.Name)
		if d.Type == "histogram" {
			names.Insert(d.Name + "_bucket")
		}
	}
	verdicts = sets.New[string]()
	for _, kind := range rollout.VerdictKinds() {
		verdicts.Insert(kind.String())
	}
	return names, verdicts
}

// checkExpression sees that an expression is one, and that there is what it names.
func checkExpression(t *testing.T, of, expression string) {
	t.Helper()
	names, verdicts := known()
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", of, err)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if !names.Has(selector.Name) {
			t.Errorf("%s names the metric %s, which nobody has declared", of, selector.Name)
		}
		for _, m := range selector.LabelMatchers {
			for value := range strings.SplitSeq(m.Value, "|") {
				if m.Name == "verdict" && !verdicts.Has(value) {
					t.Errorf("%s names the verdict %s, which does not exist", of, value)
				}
			}
		}
		return nil
	})
}

// TestAlertsHaveRunbooks, with a heading that says what is the matter, and each is told what it needs to be read.
func TestAlertsHaveRunbooks(t *testing.T) {
	index, err := os.ReadFile("../../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	used := []string{"README.md"}
	_, situations, _ := strings.Cut(string(index), "Runbooks without an alert:")
	for _, alert := range alerts(t) {
		checkExpression(t, alert.Alert, alert.Expr)
		name, found := strings.CutPrefix(alert.Annotations["runbook"], "docs/runbooks/")
		text, err := os.ReadFile(path.Join("../../docs/runbooks", name))
		if err != nil || !found || !strings.HasPrefix(string(text), "# ") || !strings.Contains(string(text), "`"+alert.Alert+"`") {
			t.Errorf("%s: the page %q does not name the alert: %v", alert.Alert, alert.Annotations["runbook"], err)
		}
		if !strings.Contains(string(index), "`"+alert.Alert+"`") {
			t.Errorf("%s is not in docs/runbooks/README.md", alert.Alert)
		}
		if alert.For == "" || alert.Labels["severity"] == "" || alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
			t.Errorf("%+v", alert)
		}
		used = append(used, name)
	}
	entries, err := os.ReadDir("../../docs/runbooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(used, e.Name()) && !strings.Contains(situations, "("+e.Name()+")") {
			t.Errorf("no alert leads to docs/runbooks/%s, and docs/runbooks/README.md does not name it among the runbooks without an alert", e.Name())
		}
	}
}

// TestHoldsAreNoWarnings: that a rollout waits for its window is what a user has asked for.
func TestHoldsAreNoWarnings(t *testing.T) {
	for _, alert := range alerts(t) {
		if info := alert.Alert == "EverynodeRolloutHeldOutsideWindow"; info != (alert.Labels["severity"] == "info") {
			t.Errorf("%s has the severity %s", alert.Alert, alert.Labels["severity"])
		}
	}
}

// TestRulesOfTheChart are those of the file, with the address of the pages.
func TestRulesOfTheChart(t *testing.T) {
	all := release{values: manyValues}.objects(t)
	data, err := one(t, all, "PrometheusRule").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	got := struct {
		Spec ruleFile `json:"spec"`
	}{}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := alerts(t)
	if len(got.Spec.Groups) != 1 || len(got.Spec.Groups[0].Rules) != len(want) {
		t.Fatalf("the rules are %+v", got)
	}
	for i, r := range got.Spec.Groups[0].Rules {
		url := "https://runbooks.example/everynode/" + path.Base(want[i].Annotations["runbook"])
		if r.Alert != want[i].Alert || r.Expr != want[i].Expr || r.Annotations["runbook_url"] != url || r.Annotations["runbook"] != "" {
			t.Errorf("%s: %+v", want[i].Alert, r)
		}
	}
	if got := field(t, one(t, all, "ServiceMonitor"), "spec.endpoints.0.port") + field(t, one(t, all, "ServiceMonitor"), "spec.selector.matchLabels"); got !=
		`"metrics"`+field(t, all["Service/"+home+"/everynode-metrics"], "metadata.labels") {
		t.Errorf("the ServiceMonitor looks for %s", got)
	}
}

// TestAgentsAreMonitoredWhereTheyAreReached: on the loopback address of their nodes nobody reaches them.
func TestAgentsAreMonitoredWhereTheyAreReached(t *testing.T) {
	const monitored = "monitoring: {serviceMonitor: {enabled: true, interval: 7s, labels: {release: prometheus}}}\n"
	const open = `metricsAddress: 0.0.0.0`
	for values, want := range map[string]bool{
		monitored:                             false,
		monitored + "agent: {" + open + "}\n": true,
		"agent: {" + open + "}\n":             false,
		monitored + "agent: {enabled: false, " + open + "}\n": false,
	} {
		all := release{values: values}.objects(t)
		monitor, found := all["PodMonitor/everynode-agents/everynode-agent"]
		if found != want {
			t.Errorf("there is a PodMonitor: %v, want %v, with the values\n%s", found, want, values)
		}
		if !found {
			continue
		}
		agents := one(t, all, "DaemonSet")
		if got, want := field(t, monitor, "spec.selector.matchLabels"), field(t, agents, "spec.template.metadata.labels"); got != want {
			t.Errorf("the PodMonitor looks for %s, and agents have %s", got, want)
		}
		if args := field(t, agents, "spec.template.spec.containers.0.args"); !strings.Contains(args, `"--metrics-bind-address=0.0.0.0:10268"`) {
			t.Errorf("agents are started with %s", args)
		}
		if got, want := field(t, monitor, "spec.podMetricsEndpoints.0.port"), field(t, agents, "spec.template.spec.containers.0.ports.0.name"); got != want {
			t.Errorf("the PodMonitor looks for the port %s, and agents have %s", got, want)
		}
		if got := field(t, monitor, "spec.podMetricsEndpoints.0.interval") + field(t, monitor, "metadata.labels"); got != `"7s"{"release":"prometheus"}` {
			t.Errorf("the PodMonitor has %s", got)
		}
	}
}

// TestDashboard: what it shows is there.
func TestDashboard(t *testing.T) {
	all := release{values: manyValues}.objects(t)
	text := ""
	if err := json.Unmarshal([]byte(field(t, one(t, all, "ConfigMap"), "data.everynode@json")), &text); err != nil {
		t.Fatal(err)
	}
	dashboard := struct {
		Templating struct {
			List []struct{ Name, AllValue string }
		}
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
		}
	}{}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 5 {
		t.Errorf("it has %d panels", len(dashboard.Panels))
	}
	variables := sets.New[string]()
	for _, v := range dashboard.Templating.List {
		variables.Insert(v.Name)
		if v.Name != "datasource" && v.AllValue != ".*" {
			t.Errorf("all of the variable %s are %q, which leaves out numbers without that label: those of all sets", v.Name, v.AllValue)
		}
	}
	named := regexp.MustCompile(`=~"\$([a-z]+)"`)
	variable := regexp.MustCompile(`\$__rate_interval`)
	for _, p := range dashboard.Panels {
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("%+v", p)
		}
		for _, target := range p.Targets {
			checkExpression(t, p.Title, variable.ReplaceAllString(target.Expr, "5m"))
			asked := sets.New[string]()
			for _, match := range named.FindAllStringSubmatch(target.Expr, -1) {
				asked.Insert(match[1])
			}
			if !variables.IsSuperset(asked) {
				t.Errorf("%s asks for the variables %q, and there are %q", p.Title, sets.List(asked), sets.List(variables))
			}
			if strings.Contains(target.Expr, "everynode_set_") && !asked.HasAll("dialect", "namespace", "name") {
				t.Errorf("%s shows numbers of sets, and only %q can be chosen: %s", p.Title, sets.List(asked), target.Expr)
			}
		}
	}
}
