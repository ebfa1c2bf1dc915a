// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// Analysis is a question to a provider, about the nodes of a wave.
type Analysis struct {
	Name, Provider, Query, Success string
	Interval                       time.Duration
	// FailureLimit is how many measurements may fail one after the other.
	FailureLimit int
	// UnknownDeadline is how long the answer may be unknown before no further node starts.
	UnknownDeadline time.Duration
}

// Alerts are those that hold updates.
type Alerts struct {
	Provider, Match string
	FiringOnly      bool
}

// The defaults of an Analysis, its limits, and how often alerts are read.
const (
	defaultInterval        = time.Minute
	minInterval            = 5 * time.Second
	defaultUnknownDeadline = 30 * time.Minute
	alertInterval          = 15 * time.Second
)

// MaxTimeout is the longest timeout of a provider.
const MaxTimeout = time.Minute

// passLasts is how long a Pass counts without a further answer: until the next measurement, and for the time that it may take.
func passLasts(interval time.Duration) time.Duration { return interval + MaxTimeout }

// Question is what is asked of a provider. An Answer counts only for a Question that is equal to the one that is asked now: of the same policy, rollout and
// wave, and since the wave has become complete.
type Question struct {
	// Policy and Set say who asks, and Title names the analysis.
	Policy    string
	Namespace string
	Set       string
	Analysis  string
	// Alerts reports whether Query has the matchers of alerts, of which FiringOnly excludes those that are pending.
	Alerts, FiringOnly       bool
	Provider, Query, Success string
	Interval                 time.Duration
	// Old and New are the committed and the new revision, as the label controller-revision-hash has them.
	Old, New, Wave string
	// Number and Attempt identify the rollout, and Complete when all nodes of the wave have become available; 0 before that.
	Number, Attempt, Complete int64
}

// Answer is the answer to a Question.
type Answer struct {
	Question
	v1alpha1.Measurement
}

// Measuring is who measures what policies ask for.
type Measuring uint8

// The values of Measuring.
const (
	// MeasuredElsewhere is for a reader: what the status has of answers counts.
	MeasuredElsewhere Measuring = iota
	// MeasuredHere is for the manager: answers that another process has recorded no longer count, but failures do.
	MeasuredHere
	// AssumedPass is for a plan: each analysis passes at once, and no alert is firing.
	AssumedPass
)

func (p *Policy) analyses(from []v1alpha1.Analysis) {
	for i := range from {
		a := &from[i]
		out := Analysis{
			Name: a.Name, Provider: a.Provider, Query: a.Query, Success: a.Success, Interval: defaultInterval, UnknownDeadline: defaultUnknownDeadline,
		}
		if a.Interval != nil {
			out.Interval = max(length(a.Interval), minInterval)
		}
		if a.UnknownDeadline != nil {
			out.UnknownDeadline = length(a.UnknownDeadline)
		}
		if a.FailureLimit != nil {
			out.FailureLimit = int(*a.FailureLimit)
		}
		p.Analyses = append(p.Analyses, out)
	}
}

// analysesOf returns the indexes of the analyses that a wave names.
func (p *Policy) analysesOf(path string, names []string) []int {
	var out []int
	for i, name := range names {
		at := slices.IndexFunc(p.Analyses, func(a Analysis) bool { return a.Name == name })
		if at < 0 {
			p.problem(fmt.Sprintf("%s.analysis[%d]", path, i), "%q is the name of no entry of spec.analyses", name)
			continue
		}
		out = append(out, at)
	}
	return out
}

func (p *Policy) alerts(from *v1alpha1.BlockOnAlerts) *Alerts {
	if from == nil {
		return nil
	}
	states := []string{"firing", "pending"}
	if from.FiringOnly {
		states = states[:1]
	}
	if !slices.ContainsFunc(states, func(state string) bool { return matchesState(from.Match, state) }) {
		p.problem("spec.blockOnAlerts.match", "it selects no alert, because its matchers of alertstate exclude %s: remove them, and set firingOnly to select by the state", strings.Join(states, " and "))
	}
	return &Alerts{Provider: from.Provider, Match: from.Match, FiringOnly: from.FiringOnly}
}

// matcher is a matcher of labels: a name, an operator and a value.
var matcher = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)("(?:[^"\\\n]|\\.)*")`)

// matchesState reports whether matchers of alerts may select those in a state. What Prometheus would refuse may match.
func matchesState(match, state string) bool {
	for _, m := range matcher.FindAllStringSubmatch(match, -1) {
		value, err := strconv.Unquote(m[3])
		if err != nil || m[1] != "alertstate" {
			continue
		}
		is := value == state
		if strings.HasSuffix(m[2], "~") {
			pattern, err := regexp.Compile("^(?s:" + value + ")$")
			if err != nil {
				continue
			}
			is = pattern.MatchString(state)
		}
		if is == strings.HasPrefix(m[2], "!") {
			return false
		}
	}
	return true
}

// undoesAnyway reports whether the revision has failed, and the policy has only problems with analyses and alerts: what follows after a failure asks no provider.
func (r *run) undoesAnyway() bool {
	for _, problem := range r.p.Problems {
		path, _, _ := strings.Cut(problem, ": ")
		if !strings.HasPrefix(path, "spec.analyses") && !strings.HasPrefix(path, "spec.blockOnAlerts") && !strings.Contains(path, "].analysis[") {
			return false
		}
	}
	return !r.atRest() && r.attempt <= r.begun && r.hasFailed()
}

// ask fills in the part of a Question that is about the rollout.
func (r *run) ask(q Question) Question {
	q.Policy, q.Namespace, q.Set, q.Number = string(r.p.UID), r.in.Set.Namespace, r.in.Set.Name, r.number()
	q.New = r.s.Revisions[r.template].Name
	if r.committed >= 0 && r.committed < len(r.s.Revisions) {
		q.Old = r.s.Revisions[r.committed].Name
	}
	if began := r.out.Status.StartedAt; began != nil {
		q.Attempt = began.Unix()
	}
	return q
}

// id identifies a Question in a status, without when the wave became complete.
func (q Question) id() string {
	q.Complete = 0
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q", fmt.Sprintf("%#v", q)) // a hash takes everything
	return strconv.FormatUint(h.Sum64(), 36)
}

// complete is the moment of a wave that a Question has.
func complete(st *v1alpha1.WaveStatus) int64 {
	if st.CompletedAt == nil {
		return 0
	}
	return st.CompletedAt.UnixNano()
}

// before returns the data of a wave from the last decision; nil if there is none.
func (r *run) before(wave string) *v1alpha1.WaveStatus {
	if r.last != nil {
		for i := range r.last.Waves {
			if r.last.Waves[i].Name == wave {
				return &r.last.Waves[i]
			}
		}
	}
	return nil
}

// alertsNotRead is the message before the first answer.
const alertsNotRead = "It is not known yet whether alerts are firing."

// alertsHold says what alerts hold; nil if the policy asks for none.
func (r *run) alertsHold() *v1alpha1.AlertsStatus {
	a := r.p.Alerts
	if a == nil || r.in.Measuring == AssumedPass {
		return nil
	}
	q := r.ask(Question{Alerts: true, FiringOnly: a.FiringOnly, Provider: a.Provider, Query: a.Match, Interval: alertInterval})
	r.out.Questions = append(r.out.Questions, q)
	id := q.id()
	st := &v1alpha1.AlertsStatus{Answer: v1alpha1.AnswerUnknown, Message: alertsNotRead, Question: id}
	fresh := r.in.Restored && r.in.Measuring == MeasuredHere
	if r.last != nil && r.last.Alerts != nil && r.last.Alerts.Question == id && !fresh {
		*st = *r.last.Alerts
	}
	if old := r.agePass(id, q.Interval); old && st.Answer == v1alpha1.AnswerPass {
		st.Answer, st.Message = v1alpha1.AnswerUnknown, fmt.Sprintf("There has been no answer for %s, so it is not known whether alerts are firing.", passLasts(q.Interval))
	}
	for i := range r.in.Answers {
		if r.in.Answers[i].Question == q {
			st.Answer, st.Message = r.in.Answers[i].Answer, r.in.Answers[i].Message
			r.heard(id, st.Answer)
		}
	}
	return st
}

// blockOnAlerts holds nodes whose update has not begun while alerts are firing, and returns whether it holds any.
func (r *run) blockOnAlerts() bool {
	st := r.alertsHold()
	if r.out.Status.Alerts = st; st == nil || st.Answer == v1alpha1.AnswerPass {
		return false
	}
	r.holdReleased(rollout.WaitAlerts)
	r.block("Alerts", "No update starts because of alerts. "+st.Message)
	return true
}
