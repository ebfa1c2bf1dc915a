// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

func filled(perSet bool) *Metrics {
	m := New(perSet)
	snapshot := func(seconds int) *rollout.Snapshot {
		return &rollout.Snapshot{
			Now:       rollout.Time(time.Duration(seconds) * time.Second),
			Set:       rollout.Set{Strategy: rollout.RollingUpdate},
			Nodes:     []rollout.Node{{Ready: true}, {Ready: true}, {Ready: true}},
			Revisions: []rollout.Revision{{Name: "new"}},
		}
	}
	plan := func(updated int) *rollout.Plan {
		return &rollout.Plan{
			Status:   rollout.Status{Desired: 3, Updated: updated},
			Budget:   rollout.Budget{Limit: 1, UsedByUpdate: 1},
			Verdicts: []rollout.Verdict{{Kind: rollout.UpToDate}, {Kind: rollout.WaitBudget}, {Kind: rollout.WaitBudget}},
		}
	}
	m.Decided(clustercache.Key{Dialect: "native", Namespace: "ns", Name: "a"}, snapshot(2000), plan(1), time.Millisecond)
	m.Decided(clustercache.Key{Dialect: "native", Namespace: "ns", Name: "b"}, snapshot(1000), plan(2), time.Millisecond)
	m.Decided(clustercache.Key{Dialect: "native", Namespace: "ns", Name: "gone"}, snapshot(500), plan(2), time.Millisecond)
	m.Forgotten(clustercache.Key{Dialect: "native", Namespace: "ns", Name: "gone"})
	m.Count("create", apply.Done)
	m.Wrote("status", errors.New("broken pipe"))
	m.Conflict("kruise", true)
	m.MayNotify([]string{"chat", "pager"}, []string{"sent", "dropped"})
	m.Notified("chat", "sent")
	m.FileCurrent("notification-targets", true)
	m.Window = func() int { return 32 }
	m.Reading = func() bool { return false }
	m.CertificateEnds = func() (time.Time, bool) { return time.Unix(1800000000, 0), true }
	m.Policies = soaking
	m.Pulls = func() (Pulls, bool) {
		return Pulls{Running: 2, Completed: 3, Desired: 30, Active: 4, Succeeded: 20, Failed: 6, Nodes: 3, Waiting: 1, Pulling: 5, There: 70, GivenUp: 8}, true
	}
	return m
}

func TestNumbersOfAllSetsAreAddedUp(t *testing.T) {
	want := strings.Replace(`
# HELP everynode_sets Daemon sets that are managed.
# TYPE everynode_sets gauge
everynode_sets{dialect="native"} 2
# HELP everynode_set_budget_limit Nodes that an update may make unavailable (or surge on) at once.
# TYPE everynode_set_budget_limit gauge
everynode_set_budget_limit{dialect="native"} 2
# HELP everynode_set_last_progress_seconds LASTHELP
# TYPE everynode_set_last_progress_seconds gauge
everynode_set_last_progress_seconds{dialect="native"} 1000
# HELP everynode_writes_total Writes sent to the API server, by verb and result (done, exists, gone, ended, refused, busy, unclear).
# TYPE everynode_writes_total counter
everynode_writes_total{result="done",verb="create"} 1
everynode_writes_total{result="unclear",verb="status"} 1
# HELP everynode_dialect_conflict 1 while a dialect writes nothing: another controller is at work, its CRDs are missing or not those of Everynode, or its daemon sets cannot be read.
# TYPE everynode_dialect_conflict gauge
everynode_dialect_conflict{dialect="kruise"} 1
`, "LASTHELP", Declared()[lastProgress].Help, 1)
	if err := testutil.CollectAndCompare(filled(false), strings.NewReader(want),
		"everynode_sets", "everynode_set_budget_limit", "everynode_set_last_progress_seconds", "everynode_writes_total", "everynode_dialect_conflict"); err != nil {
		t.Error(err)
	}
}

// The counts of targets begin with 0.
func TestNotificationsAreCounted(t *testing.T) {
	want := "# HELP everynode_notifications_total " + Declared()[notified].Help + `
# TYPE everynode_notifications_total counter
everynode_notifications_total{result="dropped",target="chat"} 0
everynode_notifications_total{result="dropped",target="pager"} 0
everynode_notifications_total{result="sent",target="chat"} 1
everynode_notifications_total{result="sent",target="pager"} 0
`
	if err := testutil.CollectAndCompare(filled(false), strings.NewReader(want), "everynode_notifications_total"); err != nil {
		t.Error(err)
	}
}

func TestImagePullsAreCounted(t *testing.T) {
	want := `
# HELP everynode_pull_jobs ImagePullJobs, by state: running or completed.
# TYPE everynode_pull_jobs gauge
everynode_pull_jobs{state="completed"} 3
everynode_pull_jobs{state="running"} 2
# HELP everynode_pull_nodes Nodes that pull an image now.
# TYPE everynode_pull_nodes gauge
everynode_pull_nodes 3
`
	m := filled(false)
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "everynode_pull_jobs", "everynode_pull_nodes"); err != nil {
		t.Error(err)
	}
	m.Pulls = func() (Pulls, bool) { return Pulls{}, false }
	if got := testutil.CollectAndCount(m, "everynode_pull_jobs"); got != 0 {
		t.Errorf("what is not known is sent as %d numbers", got)
	}
}

func TestLeaderReads(t *testing.T) {
	m := filled(false)
	for value, reads := range map[string]bool{"0": false, "1": true} {
		m.Reading = func() bool { return reads }
		want := "# HELP everynode_leader_reading " + Declared()[reading].Help + "\n# TYPE everynode_leader_reading gauge\neverynode_leader_reading " + value + "\n"
		if err := testutil.CollectAndCompare(m, strings.NewReader(want), "everynode_leader_reading"); err != nil {
			t.Error(err)
		}
	}
}

func TestCertificateEnds(t *testing.T) {
	want := `
# HELP everynode_webhook_certificate_ends_seconds When the certificate of the webhooks ends, in seconds since 1970.
# TYPE everynode_webhook_certificate_ends_seconds gauge
everynode_webhook_certificate_ends_seconds 1.8e+09
`
	m := filled(false)
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "everynode_webhook_certificate_ends_seconds"); err != nil {
		t.Error(err)
	}
	m.CertificateEnds = func() (time.Time, bool) { return time.Time{}, false }
	if got := testutil.CollectAndCount(m, "everynode_webhook_certificate_ends_seconds"); got != 0 {
		t.Errorf("a certificate that is not there is sent as %d numbers", got)
	}
}

func TestSetsAreNamedOnlyWhenAskedFor(t *testing.T) {
	for perSet, want := range map[bool]int{false: 7, true: 14} {
		if got := testutil.CollectAndCount(filled(perSet), "everynode_set_nodes"); got != want {
			t.Errorf("per set %v: %d series, want %d", perSet, got, want)
		}
	}
}

// A metric that is declared and never sent, or sent and not declared, makes the reference documentation wrong.
func TestEveryDeclaredMetricIsSent(t *testing.T) {
	for _, perSet := range []bool{false, true} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(filled(perSet))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sent := map[string]string{}
		for _, f := range families {
			sent[f.GetName()] = strings.ToLower(f.GetType().String())
		}
		for _, d := range Declared() {
			if sent[d.Name] != d.Type {
				t.Errorf("%s is declared as %s, sent as %q", d.Name, d.Type, sent[d.Name])
			}
		}
		if len(sent) != len(Declared()) {
			t.Errorf("%d metrics sent, %d declared", len(sent), len(Declared()))
		}
	}
}
