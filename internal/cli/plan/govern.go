// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// Policy is what a plan foresees of a rollout policy.
type Policy struct {
	Name string `json:"name"`
	// File reports whether the policy is from a file, and not the one of the cluster.
	File bool `json:"file,omitempty"`
	// Waves has an entry for each wave of the specification, also for one without nodes, and for the remaining nodes if there are any.
	Waves []PolicyWave `json:"waves"`
	// Waits are the times in which updates wait for a window or a freeze, and Pace is how fast they start; nil without limits.
	Waits []PolicyWait `json:"waits,omitempty"`
	Pace  *PolicyPace  `json:"pace,omitempty"`
	// Alerts reports whether alerts can hold the rollout. The times assume that none does.
	Alerts bool `json:"alerts,omitempty"`
	// Failure defines how the policy judges the new revision, and what it does after a failure; nil if it does not judge it.
	Failure *Judgement `json:"failure,omitempty"`
	// Order is the label that spec.order names: nodes with one value of it are updated at a time.
	Order string `json:"order,omitempty"`
	// NotHeld is what the policy cannot hold, because another controller creates the pods or the owners of nodes decide; empty if it holds everything.
	NotHeld string `json:"notHeld,omitempty"`
	// Holds is the reason why the policy lets nothing start, at the end of the plan; empty if all waves pass.
	Holds string `json:"holds,omitempty"`
}

// PolicyWave is one wave of a policy. Times are relative to the begin of the rollout.
type PolicyWave struct {
	Name  string   `json:"name"`
	Nodes []string `json:"nodes"`
	// Start is when the first node starts, Complete when all nodes are updated and available, and End when the soak has ended. A time that does not come is
	// omitted.
	Start    string `json:"start,omitempty"`
	Complete string `json:"complete,omitempty"`
	End      string `json:"end,omitempty"`
	Soak     string `json:"soak,omitempty"`
	// Begun reports whether the wave had begun before the plan: then Start is when the next of its nodes starts.
	Begun bool `json:"begun,omitempty"`
	// Completed reports whether the wave was complete before the plan, and Passed whether it had also ended: then Complete and End are 0s.
	Completed bool `json:"completed,omitempty"`
	Passed    bool `json:"passed,omitempty"`
	// Approval reports whether the next wave waits for an approval, which the times do not include.
	Approval bool `json:"approval,omitempty"`
	// Analysis names the analyses that must pass before the wave ends. The times assume that they pass at once.
	Analysis []string `json:"analysis,omitempty"`
	// After names the waves before this one whose approval is missing: this one does not start before a user decides.
	After []string `json:"after,omitempty"`
}

// governor plays the policy of a set.
type governor struct {
	in *policy.Input
	// changes is how pods get from one revision to another in place.
	changes func(from, to int) rollout.Change
	// edited is the index of the revision after the edit, template of the one that the template describes: an undo next to another controller changes the
	// template. revisions are those of the Snapshot.
	edited, template int
	revisions        []rollout.Revision
	begin            rollout.Time
	now              rollout.Time
	waves            []waveTimes
	last             *v1alpha1.SetStatus
	places           []int
	// closed are the times in which updates wait for a window or a freeze.
	closed []closedTime
	// watch contains the observations of nodes from the last decision. reached are the nodes that have had the
	// new revision, failure is its failure, failedAt when it failed, undone reports whether nodes then return to the
	// committed one, and back is when all have it.
	watch          *policy.Watch
	memory         *policy.Memory
	reached        map[string]bool
	failure        *v1alpha1.RolloutFailure
	failedAt, back rollout.Time
	undone         bool
	// undoWaits is the reason why nodes do not return for a time; empty if there was none.
	undoWaits string
}

// waveTimes is when a wave was seen to change.
type waveTimes struct {
	complete, passed rollout.Time
	approval         bool
	// begun reports whether it had begun before the plan.
	begun bool
}

// newGovernor returns what plays the policies of a set; nil if nothing restricts it: next to a controller that updates the set, marks of revisions hold nothing either.
func newGovernor(f *prediction) *governor {
	if f.unenforced != "" || f.unheld() != "" {
		return nil
	}
	in := f.governance.Input(&f.view)
	if in == nil {
		return nil
	}
	in.Template.Refused = "" // that is known of the changes of the past only
	in.Policies = withoutReminders(in.Policies)
	target := f.view.Snapshot.Set.Update
	g := &governor{
		in: in, changes: f.view.Changes(), edited: target, template: target, revisions: f.view.Snapshot.Revisions,
		begin: f.view.Snapshot.Now, now: f.view.Snapshot.Now, last: f.soaked(in.Last), reached: map[string]bool{},
	}
	if target >= len(in.Revisions) {
		in.Revisions = append(slices.Clone(in.Revisions), policy.Revision{Same: target}) // it will be written
	}
	for i := range in.Revisions {
		if in.Revisions[i].Name == "" {
			in.Revisions[i].Name = f.named.Name() + "-" + f.after
		}
	}
	in.Revisions = slices.Clone(inspect.Marked(*in))
	if len(in.Policies) == 1 {
		g.waves = make([]waveTimes, len(in.Policies[0].Waves))
		for k, w := range inspect.WavesBefore(in, in.Policies[0].Waves) {
			g.waves[k].begun = w.Phase != v1alpha1.WavePending
		}
		g.places = inspect.WavesOf(*in, in.Policies[0])
	}
	return g
}

// withoutReminders returns policies that do not remind of approvals: a reminder changes nothing, and there may be one after the other forever.
func withoutReminders(all []*policy.Policy) []*policy.Policy {
	out := make([]*policy.Policy, len(all))
	for i, p := range all {
		quiet := *p
		quiet.Waves = slices.Clone(p.Waves)
		for k := range quiet.Waves {
			quiet.Waves[k].RemindAfter = 0
		}
		out[i] = &quiet
	}
	return out
}

// soaked corrects how long a wave has soaked: the manager stores that at most once a minute, but when the soak ends from its begin. That is about the soak of the policy
// in the cluster, as the manager has seen it.
func (f *prediction) soaked(st *v1alpha1.SetStatus) *v1alpha1.SetStatus {
	if st == nil || st.Next == nil || st.Next.Action != v1alpha1.ActionEndSoak || st.Next.At == nil || len(f.ofCluster) != 1 {
		return st
	}
	in := f.ofCluster[0]
	at := slices.IndexFunc(st.Waves, func(w v1alpha1.WaveStatus) bool {
		return w.Name == st.Wave && w.Phase == v1alpha1.WaveSoaking && w.Soaked != nil
	})
	rules, _ := in.Wave(st.Wave)
	if at < 0 || rules == nil || rules.Soak == nil || in.Typed.Status.ObservedGeneration != in.Typed.Generation {
		return st
	}
	st = st.DeepCopy()
	left := max(rollout.Time(st.Next.At.UnixNano()).Sub(f.view.Snapshot.Now), 0)
	st.Waves[at].Soaked.Duration = max(st.Waves[at].Soaked.Duration, rules.Soak.Duration-left)
	return st
}

// Govern implements plan.Governor. An approval that is missing is assumed to be given at once, and noted.
func (g *governor) Govern(s *rollout.Snapshot) rollout.Time {
	s.Set.Update, s.Revisions = g.template, g.revisions
	in := *g.in
	in.Measuring = policy.AssumedPass
	in.Snapshot, in.Last, in.Stored, in.Restored, in.Elapsed, in.Watch = s, g.last, g.last, g.in.Restored && s.Now == g.begin, s.Now.Sub(g.now), g.watch
	in.Memory = g.memory
	out := policy.Decide(&in)
	for g.store(out.Judged) || out.Status != nil && out.Status.Phase == v1alpha1.PhaseWaitingForApproval && g.approve(out.Status) {
		in.Approvals, in.Last, in.Restored, in.Elapsed = g.in.Approvals, out.Status, false, 0
		out = policy.Decide(&in)
	}
	g.now, g.last, g.watch, g.memory = s.Now, out.Status, out.Watch, out.Memory
	if out.Revert >= 0 && out.Revert != g.template {
		g.template = out.Revert
		return g.Govern(s)
	}
	out.Enter(s, g.changes)
	if len(in.Policies) == 1 {
		in.Policies[0].Tighten(s)
	}
	if out.Commit >= 0 && out.Commit < len(g.in.Revisions) {
		g.in.Revisions[out.Commit].Committed = out.CommitNumber
		out.Wake = s.Now.Add(1)
	}
	if out.Fail != nil && g.template < len(g.in.Revisions) {
		g.in.Revisions[g.template].Failed = out.Fail
		out.Wake = s.Now.Add(1)
	}
	g.observe(s.Now)
	return out.Wake
}

// Template implements plan.Governor.
func (g *governor) Template() int { return g.template }

// store gives approvals the states that a manager would store, and reports whether there are any.
func (g *governor) store(judged []v1alpha1.RolloutApproval) bool {
	for i := range judged {
		at := slices.IndexFunc(g.in.Approvals, func(a v1alpha1.RolloutApproval) bool { return a.UID == judged[i].UID && a.Name == judged[i].Name })
		g.in.Approvals = slices.Clone(g.in.Approvals)
		g.in.Approvals[at] = judged[i]
	}
	return len(judged) > 0
}

// approve gives the approval that the active wave waits for.
func (g *governor) approve(st *v1alpha1.SetStatus) bool {
	for k := range st.Waves {
		if w := &st.Waves[k]; w.Phase == v1alpha1.WaveWaitingForApproval && !g.waves[k].approval {
			g.waves[k].approval = true
			given := v1alpha1.RolloutApproval{Spec: v1alpha1.RolloutApprovalSpec{
				Policy: g.in.Policies[0].Name, Set: st.Name, Wave: w.Name, Revision: st.TargetRevision, Decision: v1alpha1.Approve,
			}, Status: v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: st.TargetNumber, Attempt: st.Attempt}}
			given.CreationTimestamp = metav1.NewTime(time.Unix(0, int64(g.in.Snapshot.Now)))
			g.in.Approvals = append(slices.Clone(g.in.Approvals), given)
			return true
		}
	}
	return false
}

// observe notes what the waves have come to.
func (g *governor) observe(now rollout.Time) {
	if g.last == nil {
		return
	}
	for k := range g.last.Waves {
		if k >= len(g.waves) {
			return
		}
		t, w := &g.waves[k], &g.last.Waves[k]
		done := w.Phase == v1alpha1.WaveSoaking || w.Phase == v1alpha1.WaveWaitingForApproval || w.Phase == v1alpha1.WavePassed
		switch {
		case !done:
			t.complete = 0
		case t.complete == 0:
			t.complete = now
		}
		if w.Phase == v1alpha1.WavePassed && t.passed == 0 {
			t.passed = now
		}
	}
}

// Decided implements plan.Governor.
func (g *governor) Decided(s *rollout.Snapshot, p *rollout.Plan) {
	g.seeFailure(s)
	g.seeWaits(s.Now, p.Verdicts)
	if g.last != nil && policy.Started(p) {
		g.last.LastStart = policy.Moment(s.Now)
	}
}

// simulate plays the plan under the policies of the set.
func (f *prediction) simulate() (err error) {
	f.governor = newGovernor(f)
	if f.governor == nil {
		f.result, err = plan.Simulate(f.view.Snapshot, f.play())
	} else {
		f.result, err = plan.Govern(f.view.Snapshot, f.play(), f.governor)
		f.governor.divide(f.result)
	}
	return err
}

// foresee returns what happens to the waves of the policy; nil without a policy.
func (f *prediction) foresee() *Policy {
	g := f.governor
	if g == nil || len(g.in.Policies) == 0 {
		return nil
	}
	out := &Policy{Name: g.in.Policies[0].Name, File: f.policy != nil, Waves: []PolicyWave{}, Alerts: g.in.Policies[0].Alerts != nil}
	out.Waits, out.Pace = g.waits(), paceOf(g.in.Policies[0])
	if rules := g.in.Policies[0].Failure; rules != nil {
		out.Failure = judgement(rules)
	}
	if g.last != nil {
		out.NotHeld = policy.NotHeld(g.last.Enforcement)
	}
	out.Order, out.Holds = g.in.Policies[0].TopologyKey, f.holds()
	if g.last == nil || g.places == nil {
		return out
	}
	var after []string
	for k := range g.waves {
		w := f.wave(k)
		w.After = slices.Clone(after)
		if len(w.Nodes) > 0 || w.Approval || g.released() && g.isEmpty(k) {
			out.Waves = append(out.Waves, w)
		}
		if w.Approval {
			after = append(after, w.Name)
		}
	}
	return out
}

// holds is the reason why the policy lets nothing start at the end of the plan; empty if all waves pass. What follows from the failures of --what-if is shown as that, and has not happened.
func (f *prediction) holds() string {
	g := f.governor
	switch st := g.last; {
	case g.failure != nil && (f.fails != nil || g.failedAt == g.begin): // the status of the set has the failure already
		return ""
	case g.failure != nil:
		return fmt.Sprintf("The revision fails after %s. %s", text(g.failedAt.Sub(g.begin)), g.failure.Message)
	case st != nil && len(st.Blocking) > 0:
		return st.Blocking[len(st.Blocking)-1].Message
	}
	return ""
}

// policies returns the rollout policies of the cluster that apply to the set, by name.
func (f *prediction) policies() []PolicyVersion {
	return versionsOf(f.ofCluster)
}

// versionsOf returns the versions of policies, by name.
func versionsOf(list []*policies.Policy) []PolicyVersion {
	var all []PolicyVersion
	for _, p := range list {
		all = append(all, PolicyVersion{Name: p.Typed.Name, UID: string(p.Typed.UID), Generation: p.Typed.Generation})
	}
	slices.SortFunc(all, func(a, b PolicyVersion) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// wave returns what happens to one wave.
func (f *prediction) wave(k int) PolicyWave {
	g := f.governor
	rules, t := &g.in.Policies[0].Waves[k], &g.waves[k]
	w := PolicyWave{Name: rules.Name, Approval: t.approval, Begun: t.begun, Nodes: []string{}}
	first, starts := time.Duration(0), false
	for i := range f.result.Nodes {
		n := &f.result.Nodes[i]
		if g.places[i] != k {
			continue
		}
		w.Nodes = append(w.Nodes, n.Name)
		if n.Verdict.Starts() && n.Update && (!starts || n.Start < first) {
			first, starts = n.Start, true
		}
	}
	if starts {
		w.Start = startText(first)
	}
	if rules.Soak > 0 {
		w.Soak = rules.Soak.String()
	}
	for _, i := range rules.Analysis {
		w.Analysis = append(w.Analysis, g.in.Policies[0].Analyses[i].Name)
	}
	if t.complete != 0 && len(w.Nodes) > 0 {
		w.Complete, w.Completed = text(max(t.complete.Sub(g.begin), upward(first))), !starts && t.complete == g.begin
	}
	if t.passed != 0 && len(w.Nodes) > 0 {
		w.End, w.Passed = text(t.passed.Sub(g.begin)), !starts && t.passed == g.begin && !t.approval
	}
	return w
}

// startOr is when a wave starts, for users. A wave that had begun before the plan has started, also if more of its nodes start later.
func (w *PolicyWave) startOr(now time.Time) string {
	if w.Begun && !w.Completed {
		return "begun"
	}
	return when(metav1.NewTime(now), w.Start)
}

// doneOr is a time of a wave for users, unless it was before the plan.
func doneOr(done bool, now time.Time, after string) string {
	if done {
		return "done"
	}
	return when(metav1.NewTime(now), after)
}

// when is a time that a person reads, after how long and at what time.
func when(now metav1.Time, after string) string {
	if at := moment(now, after); at != "" {
		return span(after) + " (" + at + ")"
	}
	return "-"
}

// moment is the time after a duration; empty without one. The day of the week is enough for the next days only.
func moment(now metav1.Time, after string) string {
	d, err := time.ParseDuration(after)
	if err != nil {
		return ""
	}
	layout := "Mon 15:04 MST"
	if d >= 6*24*time.Hour {
		layout = "2006-01-02 15:04 MST"
	}
	return now.Add(d).UTC().Format(layout)
}

// policy prints the waves of the policy.
func (s *screen) policy(p *Policy, now time.Time) {
	if p == nil {
		return
	}
	s.line("")
	where := ""
	if p.File {
		where = " (from the file)"
	}
	if len(p.Waves)+len(p.Holds) == 0 {
		s.line("Rollout policy %s%s: no new revision, so it holds nothing.", options.Printable(p.Name), where)
		return
	}
	s.line("Rollout policy %s%s:", options.Printable(p.Name), where)
	if len(p.Waves) > 0 {
		rows := [][]string{{"WAVE", "NODES", "START", "COMPLETE", "SOAK", "END", "NAMES"}}
		for _, w := range p.Waves {
			rows = append(rows, []string{
				w.Name, fmt.Sprint(len(w.Nodes)), w.startOr(now), doneOr(w.Completed, now, w.Complete), cmp.Or(span(w.Soak), "-"),
				doneOr(w.Passed, now, w.End), cmp.Or(names(w.Nodes), "-"),
			})
		}
		s.columns(rows)
	}
	s.waits(p.Waits, now)
	if p.Pace != nil {
		s.line("%s", p.Pace.text())
	}
	if p.Order != "" {
		s.line("In a wave it updates the nodes with one value of the label %s at a time, in the order of the values (spec.order).", options.Printable(p.Order))
	}
	for _, w := range p.Waves {
		if w.Approval {
			s.line("After wave %s it waits for an approval: not before a person decides. The times assume that this happens at once.", options.Printable(w.Name))
		}
	}
	for _, w := range p.Waves {
		if len(w.Analysis) > 0 {
			s.line("Wave %s is judged by %s: the times assume that this passes.", options.Printable(w.Name), options.Printable(strings.Join(w.Analysis, ", ")))
		}
	}
	if p.Alerts {
		s.line("The times assume that no alert holds the rollout (spec.blockOnAlerts).")
	}
	if p.Failure != nil {
		s.line("%s", p.Failure.text())
	}
	if p.NotHeld != "" {
		s.line("It does not hold everything: %s.", options.Printable(p.NotHeld))
	}
	if p.Holds != "" {
		s.line("It holds the rollout: %s", options.Printable(p.Holds))
	}
}
