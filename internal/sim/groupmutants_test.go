// SPDX-License-Identifier: Apache-2.0

package sim

import "slices"

const (
	groupFile   = "policy/group.go"
	ledgerFile  = "policy/ledger.go"
	groupsFile  = "controller/daemonset/groups.go"
	failureFile = "policy/failure.go"
	watchFile   = "policy/watch.go"
	judgeFile   = "policy/nodefailure.go"
	answersFile = "policy/answers.go"
)

// groupMutants are wrong about what the sets of a group may do at once.
func groupMutants() []mutant {
	return []mutant{
		{"a group holds no set", groupFile, "r.holds[i], r.restricts = rollout.WaitGroup, true", "r.restricts = true", "group"},
		{"what a plan begins is not known to the next set", groupFile, "\t\t\tr.UnderWay[name] = zoneOf(in.Labels[a.Node])\n", "", "group"},
		{"a write without an answer begins nothing", groupFile, "r.standing[i].UnderWay || r.unanswered(i)", "r.standing[i].UnderWay", "group"},
		{"of two scopes the last one counts", groupFile, "g.Scope = max(g.Scope, p.Group.Scope)", "g.Scope = p.Group.Scope", "group"},
		{"a set that waits for its group is not woken", groupsFile, "\t\t\t\tc.wake(key)\n", "\t\t\t\t_ = key\n", "liveness"},
		{"two sets that are down wait for each other", groupFile, "!held || by.waits && down", "!held || by.waits && down && r.s == nil", "liveness"},
		{"each of two sets goes first", ledgerFile, "if o.before(&c) {", "if o.before(&c) || c.before(o) {", "liveness"},
	}
}

// alongsideMutants are wrong about what is left to the controller that keeps the pods.
func alongsideMutants() []mutant {
	return []mutant{
		{"a set whose pods another controller keeps is one of ours", "rollout/decide.go", "\tcase d.in.Set.ExternalController:\n\t\treturn d.decideExternal(t)\n", "", "external"},
		{"a policy that goes in a pass has its set updated without waves", governFile, "return p.byPolicy && len(p.rules.Policies) == 0", "return false", "external"},
		{"pods of a template that is not known yet are old", snapshotFile, "p.generation > l.history.Generation &&", "false &&", "needless"},
	}
}

// undoMutants are wrong about what fails, what is undone, and what an analysis has answered.
func undoMutants() []mutant {
	return []mutant{
		{"an undo is none", failureFile, "case r.failure.Undo && r.mayUndo() && r.undo():", "case r.failure.Undo && r.mayUndo() && r.p == nil:", "undo"},
		{"a node that was broken before makes a revision fail", judgeFile, "if w.before || w.untouched", "if w.untouched", "undo"},
		{"a node that joins and is broken makes a revision fail", watchFile, "case w.joined:", "case w.joined && r.p == nil:", "undo"},
		{"a quota that others use up makes a revision fail", judgeFile, "refused(n) && !r.usedUpByOthers(n)", "refused(n)", "undo"},
		{"a node that the undo has not touched stops it", judgeFile, "w.before || w.untouched ||", "w.before ||", "undo"},
		{"one failed node more is allowed", failureFile, "case st.Failed > most:", "case st.Failed > most+1:", "undo"},
		{"an analysis without an answer passes", answersFile, "if as.Answer != v1alpha1.AnswerPass {\n\t\t\th.passing = false", "if as.Answer == v1alpha1.AnswerFail {\n\t\t\th.passing = false", "analysis"},
	}
}

// reasonMutants are wrong about for what a revision fails, and what holds it.
func reasonMutants() []mutant {
	return []mutant{
		{"a reason for which a container waits is none", judgeFile, "!w.retried && p.Waiting&f.Waiting != 0", "w.retried && p.Waiting&f.Waiting != 0", "undo"},
		{"a wave has no deadline", failureFile, "lacking && st.Rolled.Duration >= deadline", "lacking && st.Rolled.Duration < 0", "undo"},
		{"a quota that others use up makes a wave of a set that surges late", "policy/deadline.go", "(r.bare(i) || r.surgeRefused(i))", "r.bare(i)", "undo"},
		{"alerts hold no update", "policy/analysis.go", "\tr.holdReleased(rollout.WaitAlerts)\n", "\t_ = rollout.WaitAlerts\n", "suspended"},
	}
}

// withOf are the kinds of steps that a mutant needs which is about rollout policies; empty for others.
func (m *mutant) withOf() string {
	is := func(all []mutant) bool {
		return slices.ContainsFunc(all, func(o mutant) bool { return o.name == m.name })
	}
	switch {
	case is(alongsideMutants()):
		return "rollouts," + alongsideRun
	case is(groupMutants()):
		return "rollouts,groups"
	case is(reasonMutants()):
		return "rollouts,undos,reasons"
	case is(undoMutants()):
		return "rollouts,undos"
	case is(policyMutants()):
		return "rollouts"
	default:
		return ""
	}
}
