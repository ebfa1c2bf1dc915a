// SPDX-License-Identifier: Apache-2.0

package sim

import "slices"

const (
	groupFile   = "policy/group.go"
	ledgerFile  = "policy/ledger.go"
	groupsFile  = "controller/daemonset/groups.go"
	failureFile = "policy/failure.go"
	watchFile   = "policy/watch.go"
	answersFile = "policy/answers.go"
)

// groupMutants are wrong about what the sets of a group may do at once.
func groupMutants() []mutant {
	return []mutant{
		{"a group holds nobody", groupFile, "r.holds[i], r.restricts = rollout.WaitGroup, true", "r.restricts = true", "group"},
		{"what a plan begins is not known to the next set", groupFile, "\t\t\tr.UnderWay[name] = zoneOf(in.Labels[a.Node])\n", "", "group"},
		{"a write without an answer begins nothing", groupFile, "r.standing[i].UnderWay || r.unanswered(i)", "r.standing[i].UnderWay", "group"},
		{"a set of which nothing is known holds nothing", groupFile, "return nil, &holder{set: o.Set.Title(), why: isUnknown}", "continue", "group"},
		{"of two scopes the last one counts", groupFile, "g.Scope = max(g.Scope, p.Group.Scope)", "g.Scope = p.Group.Scope", "group"},
		{"a zone is a node", groupFile, "case ScopeZone:\n\t\treturn zone", "case ScopeZone:\n\t\treturn node", "group"},
		{"nobody wakes a set that waits for its group", groupsFile, "\t\t\t\tc.wake(key)\n", "\t\t\t\t_ = key\n", "liveness"},
		{"two sets that are down wait for each other", groupFile, "!held || by.waits && down", "!held || by.waits && down && r.s == nil", "liveness"},
		{"each of two sets goes first", ledgerFile, "if o.before(&c) {", "if o.before(&c) || c.before(o) {", "liveness"},
	}
}

// undoMutants are wrong about what fails, what is undone, and what an analysis has answered.
func undoMutants() []mutant {
	return []mutant{
		{"an undo is none", failureFile, "if r.failure.Undo && r.mayUndo() && r.undo() {", "if r.failure.Undo && r.mayUndo() && r.p == nil {", "undo"},
		{"a node that was broken before makes a revision fail", watchFile, "if w.before || w.retried {", "if w.retried {", "undo"},
		{"the next manager does not know what was broken before", watchFile, "case r.last != nil:\n", "case r.last != nil && r.in.Watch != nil:\n", "undo"},
		{"one failed node more is allowed", failureFile, "case int(st.Failed) > most:", "case int(st.Failed) > most+1:", "undo"},
		{"a revision that has failed is not held", failureFile, "\tr.holdAll(rollout.WaitFailed)\n\tst.Phase, st.Wave = v1alpha1.PhaseFailed", "\tst.Phase, st.Wave = v1alpha1.PhaseFailed", "undo needless suspended"},
		{"a suspended policy undoes", failureFile, "case r.p.Suspend:\n\t\tr.suspend()\n\tcase kind", "case r.p.Suspend && r.s == nil:\n\t\tr.suspend()\n\tcase kind", "suspended"},
		{"an undo ignores windows", failureFile, "&& !r.p.Undo.IgnoreWindows:", "&& !r.p.Undo.IgnoreWindows && r.s == nil:", "suspended"},
		{"an analysis without an answer passes", answersFile, "if as.Answer != v1alpha1.AnswerPass {\n\t\t\th.passing = false", "if as.Answer == v1alpha1.AnswerFail {\n\t\t\th.passing = false", "analysis"},
		{"an answer to another question passes", answersFile, "if r.in.Answers[i].Question != q {", "if r.in.Answers[i].Analysis != q.Analysis {", "analysis"},
		{"an answer from before the wave was complete passes", answersFile, "complete(was) != complete(st) ||", "false ||", "analysis"},
		{"an answer of an earlier manager passes", answersFile, "|| r.in.Restored && r.in.Measuring == MeasuredHere {\n\t\tas.Answer", "{\n\t\tas.Answer", "analysis"},
	}
}

// withOf are the kinds of steps that a mutant needs which is about rollout policies; empty for others.
func (m *mutant) withOf() string {
	is := func(all []mutant) bool {
		return slices.ContainsFunc(all, func(o mutant) bool { return o.name == m.name })
	}
	switch {
	case is(groupMutants()):
		return "rollouts,groups"
	case is(undoMutants()):
		return "rollouts,undos"
	case is(policyMutants()):
		return "rollouts"
	default:
		return ""
	}
}
