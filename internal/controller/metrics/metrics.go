// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics of the controllers. Every metric is declared in Declared, from which the reference
// documentation is generated too.
//
// Rule: labels are bounded. The names of sets are labels only when asked for; without, the numbers of all sets of a dialect are
// added up.
package metrics

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// Declaration is one metric.
type Declaration struct {
	Name, Type, Help string
	// Labels, in addition to namespace and name, which the metrics marked PerSet get with --metrics-per-set.
	Labels []string
	PerSet bool
}

// Indices into Declared.
const (
	sets = iota
	nodes
	verdicts
	budgetLimit
	budgetUsed
	lastProgress
	decideSeconds
	writes
	conflicts
	window
	pullJobs
	pullJobNodes
	pullNodes
	pullImages
	certEnds
	reading
	policySets
	policyNext
	policyAnalyses
	policyApproval
	policyRolling
	policyWaves
	policyNodes
	policyDecisions
	notified
	fileCurrent
)

// Declared returns all metrics of the manager's own.
func Declared() []Declaration {
	return []Declaration{
		sets:            {"everynode_sets", "gauge", "Daemon sets that are managed.", []string{"dialect"}, false},
		nodes:           {"everynode_set_nodes", "gauge", "Nodes by the numbers of the status: desired, current, misscheduled, ready, updated, available, unavailable.", []string{"dialect", "number"}, true},
		verdicts:        {"everynode_set_verdicts", "gauge", "Nodes by verdict of the last decision.", []string{"dialect", "verdict"}, true},
		budgetLimit:     {"everynode_set_budget_limit", "gauge", "Nodes that an update may make unavailable (or surge on) at once.", []string{"dialect"}, true},
		budgetUsed:      {"everynode_set_budget_used", "gauge", "Nodes charged to the update budget, by cause: update (made unavailable by this set's own update), unreachable (the node is not ready) or other.", []string{"dialect", "cause"}, true},
		lastProgress:    {"everynode_set_last_progress_seconds", "gauge", "When an active update last made progress, as a Unix timestamp: when it began, or when the number of remaining nodes reached a new minimum. A node remains until its new pod is available, also while the update waits for a user. It is absent while no update is in progress, while it only waits for people or for nodes that are not ready, and while another controller is active. Of several sets it is that of the set without progress for longest.", []string{"dialect"}, true},
		decideSeconds:   {"everynode_decide_seconds", "histogram", "Time from taking a snapshot to having a plan.", []string{"dialect"}, false},
		writes:          {"everynode_writes_total", "counter", "Writes sent to the API server, by verb and result (done, exists, gone, ended, refused, busy, unclear).", []string{"verb", "result"}, false},
		conflicts:       {"everynode_dialect_conflict", "gauge", "1 while a dialect writes nothing: another controller is at work, its CRDs are missing or not those of Everynode, or its daemon sets cannot be read.", []string{"dialect"}, false},
		window:          {"everynode_write_concurrency_limit", "gauge", "Requests about pods that may be under way at once, of all sets together. It shrinks when the API server answers slowly, not in time, or with 429.", nil, false},
		pullJobs:        {"everynode_pull_jobs", "gauge", "ImagePullJobs, by state: running or completed.", []string{"state"}, false},
		pullJobNodes:    {"everynode_pull_job_nodes", "gauge", "Nodes of the ImagePullJobs that run, by the numbers of the status: desired, active, succeeded, failed.", []string{"number"}, false},
		pullNodes:       {"everynode_pull_nodes", "gauge", "Nodes that pull an image now.", nil, false},
		pullImages:      {"everynode_pull_images", "gauge", "Images that nodes are requested to have, over all nodes, by phase: waiting, pulling, succeeded, failed.", []string{"phase"}, false},
		certEnds:        {"everynode_webhook_certificate_ends_seconds", "gauge", "When the certificate of the webhooks ends, in seconds since 1970.", nil, false},
		reading:         {"everynode_leader_reading", "gauge", "1 while this manager leads and has not read the cluster yet, or waits until no write of the last leader can take effect: until then it decides nothing. Else 0.", nil, false},
		policySets:      {"everynode_policy_sets", "gauge", "Daemon sets that rollout policies apply to, by phase of their rollout.", []string{"phase"}, false},
		policyNext:      {"everynode_policy_next_action_seconds", "gauge", "When the next action of a rollout policy is due, in seconds since 1970, by action (EndSoak, OpenWindow, EndFreeze, StartUpdate). Of several daemon sets it is the earliest.", []string{"action"}, false},
		policyRolling:   {"everynode_policy_wave_rolling_since_seconds", "gauge", "Since when nodes of a wave have been being updated, in seconds since 1970. Of several waves it is the one that has taken longest. Absent when no set has the phase Rolling.", nil, false},
		policyAnalyses:  {"everynode_policy_analyses", "gauge", "Analyses that the active wave of a rollout waits for, and the questions about alerts that hold updates, by the newest answer: Pass, Fail or Unknown, also before the first one.", []string{"answer"}, false},
		policyApproval:  {"everynode_policy_approval_missing_since_seconds", "gauge", "Since when a wave has been waiting for an approval, in seconds since 1970. Of several waves it is the one that has waited longest. Absent when none waits.", nil, false},
		policyWaves:     {"everynode_policy_waves", "gauge", "Waves of the rollouts that are active under rollout policies, by phase: Pending, Rolling, Soaking, WaitingForApproval or Passed.", []string{"phase"}, false},
		policyNodes:     {"everynode_policy_nodes", "gauge", "Nodes of the rollouts that are active under rollout policies, by number: desired (all in waves), released (in waves that have begun), updated, available (with an available pod of the new revision) or failed.", []string{"number"}, false},
		policyDecisions: {"everynode_policy_decisions_total", "counter", "Steps and decisions of rollouts under rollout policies, by the reason of their event (see the page about events).", []string{"reason"}, false},
		notified:        {"everynode_notifications_total", "counter", "Notifications of the steps of rollouts, by target and result: sent (the target has accepted it), retried (an attempt has failed, and is repeated), failed (it is lost: the target has refused it, or its delivery was tried for too long) or dropped (it is lost: the queue was full).", []string{"target", "result"}, false},
		fileCurrent:     {"everynode_file_current", "gauge", "1 if the content of a file of the manager that is read again when it changes counts, by the flag that names it; 0 if it has a mistake, so that the earlier content counts. Only the manager that leads has it.", []string{"flag"}, false},
	}
}

// Metrics observes the controllers and is a prometheus.Collector. Make one with New.
type Metrics struct {
	perSet   bool
	descs    []*prometheus.Desc
	decide   *prometheus.HistogramVec
	writes   *prometheus.CounterVec
	conflict *prometheus.GaugeVec
	notified *prometheus.CounterVec
	decided  *prometheus.CounterVec
	files    *prometheus.GaugeVec
	reasons  map[string]prometheus.Counter // those of decided

	// Window limits writes. It may be nil, and must be set before the first Collect.
	Window func() int
	// Reading reports whether this manager is the leader and has not yet read the cluster. It may be nil, and must be set before the first Collect.
	Reading func() bool
	// Pulls counts image pulls; false where they are not known. It may be nil, and must be set before the first Collect.
	Pulls func() (Pulls, bool)
	// Policies returns the rollout policies with their statuses. It may be nil, and must be set before the first Collect.
	Policies func() []v1alpha1.RolloutPolicy
	// CertificateEnds is when the certificate of the webhooks ends; false while there is none. It may be nil, and must be set before the first Collect.
	CertificateEnds func() (time.Time, bool)

	mu   sync.Mutex
	last map[clustercache.Key]outcome
	// holds are the dialects that hold still, whose updates are another's.
	holds map[string]bool
}

// outcome is what is kept of the last decision for a set.
type outcome struct {
	status   rollout.Status
	budget   rollout.Budget
	verdicts map[rollout.VerdictKind]int
	progress progress
	// since is when the last progress was made; for several sets, the earliest of these times.
	since rollout.Time
}

// New returns Metrics; with perSet the metrics marked PerSet carry namespace and name of the set.
func New(perSet bool) *Metrics {
	m := &Metrics{perSet: perSet, last: map[clustercache.Key]outcome{}, holds: map[string]bool{}, reasons: map[string]prometheus.Counter{}}
	all := Declared()
	for _, d := range all {
		labels := d.Labels
		if d.PerSet && perSet {
			labels = append(labels[:len(labels):len(labels)], "namespace", "name")
		}
		m.descs = append(m.descs, prometheus.NewDesc(d.Name, d.Help, labels, nil))
	}
	h, w, c, n, e := all[decideSeconds], all[writes], all[conflicts], all[notified], all[policyDecisions]
	m.decide = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: h.Name, Help: h.Help, Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9),
	}, h.Labels)
	m.writes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: w.Name, Help: w.Help}, w.Labels)
	m.conflict = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: c.Name, Help: c.Help}, c.Labels)
	m.notified = prometheus.NewCounterVec(prometheus.CounterOpts{Name: n.Name, Help: n.Help}, n.Labels)
	m.decided = prometheus.NewCounterVec(prometheus.CounterOpts{Name: e.Name, Help: e.Help}, e.Labels)
	for _, reason := range policy.Reasons() {
		m.reasons[reason] = m.decided.WithLabelValues(reason) // with 0, so that the first one is an increase
	}
	m.files = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: all[fileCurrent].Name, Help: all[fileCurrent].Help}, all[fileCurrent].Labels)
	return m
}

// FileCurrent records whether the content of the file that a flag names counts.
func (m *Metrics) FileCurrent(flag string, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	m.files.WithLabelValues(flag).Set(value)
}

// Decided implements daemonset.Observer.
func (m *Metrics) Decided(key clustercache.Key, s *rollout.Snapshot, p *rollout.Plan, took time.Duration) {
	o := outcome{status: p.Status, budget: p.Budget, verdicts: map[rollout.VerdictKind]int{}}
	counts := [math.MaxUint8 + 1]int{} // a map would cost more than the decision
	for i := range p.Verdicts {
		counts[p.Verdicts[i].Kind]++
	}
	for kind, n := range counts {
		if n > 0 {
			o.verdicts[rollout.VerdictKind(kind)] = n
		}
	}
	m.decide.WithLabelValues(key.Dialect).Observe(took.Seconds())
	at := standingOf(s, p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.holds[key.Dialect] { // else the decision was begun before that
		o.progress = m.last[key].progress.next(at)
		o.since = o.progress.since()
	}
	m.last[key] = o
}

// Forgotten implements daemonset.Observer.
func (m *Metrics) Forgotten(key clustercache.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, key)
}

// Refused implements daemonset.Observer. The pods of the set are still there, and its update has not ended.
func (m *Metrics) Refused(clustercache.Key) {}

// Wrote implements daemonset.Observer.
func (m *Metrics) Wrote(verb string, err error) {
	answer := apply.OfCreate(err)
	if apierrors.IsNotFound(err) {
		answer = apply.Gone
	}
	m.Count(verb, answer)
}

// Count counts one write of pods.
func (m *Metrics) Count(verb string, answer apply.Answer) {
	m.writes.WithLabelValues(verb, answer.String()).Inc()
}

// Event counts an event, if a rollout policy is its reason.
func (m *Metrics) Event(reason string) {
	if counter, of := m.reasons[reason]; of {
		counter.Inc()
	}
}

// Notified counts one result of a target of notifications.
func (m *Metrics) Notified(target, result string) { m.notified.WithLabelValues(target, result).Inc() }

// MayNotify makes the counts of targets begin with 0, so that the first loss is an increase.
func (m *Metrics) MayNotify(targets, results []string) {
	for _, target := range targets {
		for _, result := range results {
			m.notified.WithLabelValues(target, result)
		}
	}
}

// Conflict records whether a dialect writes nothing because another controller is active. Nothing is decided
// then, so no update makes progress; when the conflict ends, updates look as if they had just begun.
func (m *Metrics) Conflict(dialect string, yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	m.conflict.WithLabelValues(dialect).Set(value)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds[dialect] = yes
	for key, o := range m.last {
		if yes && key.Dialect == dialect {
			o.progress, o.since = progress{}, 0
			m.last[key] = o
		}
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range m.descs[:decideSeconds] {
		ch <- d
	}
	m.decide.Describe(ch)
	m.writes.Describe(ch)
	m.conflict.Describe(ch)
	m.notified.Describe(ch)
	m.decided.Describe(ch)
	m.files.Describe(ch)
	for _, d := range m.descs[window:policyDecisions] {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.decide.Collect(ch)
	m.writes.Collect(ch)
	m.conflict.Collect(ch)
	m.notified.Collect(ch)
	m.decided.Collect(ch)
	m.files.Collect(ch)
	if m.Window != nil {
		ch <- prometheus.MustNewConstMetric(m.descs[window], prometheus.GaugeValue, float64(m.Window()))
	}
	m.collectLeader(ch)
	m.collectCertificate(ch)
	m.collectPulls(ch)
	m.collectPolicies(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	count := map[string]int{}
	sum := map[clustercache.Key]outcome{}
	for key, o := range m.last {
		count[key.Dialect]++
		if !m.perSet {
			key = clustercache.Key{Dialect: key.Dialect}
		}
		sum[key] = sum[key].plus(o)
	}
	for dialect, n := range count {
		ch <- prometheus.MustNewConstMetric(m.descs[sets], prometheus.GaugeValue, float64(n), dialect)
	}
	for key, o := range sum {
		m.collectSet(ch, key, &o)
	}
}

// Pulls are the numbers of image pulls.
type Pulls struct {
	// Running and Completed are numbers of jobs; Desired, Active, Succeeded and Failed are those of the nodes of jobs that run.
	Running, Completed, Desired, Active, Succeeded, Failed int
	// Nodes is how many nodes pull.
	Nodes int
	// Waiting, Pulling, There and GivenUp are numbers of images on nodes.
	Waiting, Pulling, There, GivenUp int
}

func (m *Metrics) collectLeader(ch chan<- prometheus.Metric) {
	if m.Reading == nil {
		return
	}
	value := 0.0
	if m.Reading() {
		value = 1
	}
	ch <- prometheus.MustNewConstMetric(m.descs[reading], prometheus.GaugeValue, value)
}

func (m *Metrics) collectCertificate(ch chan<- prometheus.Metric) {
	if m.CertificateEnds == nil {
		return
	}
	if end, known := m.CertificateEnds(); known {
		ch <- prometheus.MustNewConstMetric(m.descs[certEnds], prometheus.GaugeValue, float64(end.Unix()))
	}
}

func (m *Metrics) collectPulls(ch chan<- prometheus.Metric) {
	if m.Pulls == nil {
		return
	}
	p, known := m.Pulls()
	if !known {
		return
	}
	gauge := func(metric, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(m.descs[metric], prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(pullJobs, p.Running, "running")
	gauge(pullJobs, p.Completed, "completed")
	for _, n := range []number{{"desired", p.Desired}, {"active", p.Active}, {"succeeded", p.Succeeded}, {"failed", p.Failed}} {
		gauge(pullJobNodes, n.value, n.name)
	}
	gauge(pullNodes, p.Nodes)
	for _, n := range []number{{"waiting", p.Waiting}, {"pulling", p.Pulling}, {"succeeded", p.There}, {"failed", p.GivenUp}} {
		gauge(pullImages, n.value, n.name)
	}
}

func (m *Metrics) collectSet(ch chan<- prometheus.Metric, key clustercache.Key, o *outcome) {
	gauge := func(metric int, value int, labels ...string) {
		labels = append([]string{key.Dialect}, labels...)
		if m.perSet {
			labels = append(labels, key.Namespace, key.Name)
		}
		ch <- prometheus.MustNewConstMetric(m.descs[metric], prometheus.GaugeValue, float64(value), labels...)
	}
	for _, n := range numbers(o.status) {
		gauge(nodes, n.value, n.name)
	}
	for _, kind := range rollout.VerdictKinds() {
		gauge(verdicts, o.verdicts[kind], kind.String())
	}
	gauge(budgetLimit, o.budget.Limit)
	gauge(budgetUsed, o.budget.UsedByUpdate, "update")
	gauge(budgetUsed, o.budget.UsedByUnreachable, "unreachable")
	gauge(budgetUsed, o.budget.UsedByOthers, "other")
	if o.since != 0 {
		gauge(lastProgress, int(time.Duration(o.since)/time.Second))
	}
}

type number struct {
	name  string
	value int
}

func numbers(s rollout.Status) []number {
	return []number{
		{"desired", s.Desired}, {"current", s.Current}, {"misscheduled", s.Misscheduled}, {"ready", s.Ready},
		{"updated", s.Updated}, {"available", s.Available}, {"unavailable", s.Unavailable},
	}
}

func (o outcome) plus(p outcome) outcome {
	sum := outcome{verdicts: map[rollout.VerdictKind]int{}}
	for _, part := range []outcome{o, p} {
		s, t := &sum.status, part.status
		s.Desired, s.Current, s.Misscheduled = s.Desired+t.Desired, s.Current+t.Current, s.Misscheduled+t.Misscheduled
		s.Ready, s.Updated = s.Ready+t.Ready, s.Updated+t.Updated
		s.Available, s.Unavailable = s.Available+t.Available, s.Unavailable+t.Unavailable
		sum.since = rollout.Earlier(sum.since, part.since)
		sum.budget.Limit += part.budget.Limit
		sum.budget.UsedByUpdate += part.budget.UsedByUpdate
		sum.budget.UsedByUnreachable += part.budget.UsedByUnreachable
		sum.budget.UsedByOthers += part.budget.UsedByOthers
		for kind, n := range part.verdicts {
			sum.verdicts[kind] += n
		}
	}
	return sum
}
