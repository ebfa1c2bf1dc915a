// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var killing = flag.Bool("mutants", false, "see whether the tests kill every mutant; each is compiled for itself")

// mutant is the package with one mistake: in a file, the only occurrence of a text is another one.
type mutant struct{ name, file, text, mistake string }

// mutants are wrong about what fails, what follows from that, and what programs are notified of.
func mutants() []mutant {
	return []mutant{
		{"nodes that only the template excludes lose their pods at once", "fits.go", "&& r.hasOnlyOthers(n) {", "&& r.hasOnlyOthers(n) && r.p != nil {"},
		{"nodes return to the committed revision only where the template selects them", "fits.go", "for i, fit := range r.fits {", "for i, fit := range r.targetFits {"},
		{"nodes that only the template selects get a pod that cannot run there", "decide.go", "r.holds, r.joining, r.unfit()", "r.holds, r.joining, nil"},
		{"nodes that only the template selects use up the budget", "budget.go", "return r.charging(i) && !r.keptOut(i)", "return r.charging(i)"},
		{"an undo leaves pods of the failed revision where only that may run", "fits.go", "= fit > n.Fit && hasTarget(s, n), fit", "= fit > n.Fit && s == nil, fit"},
		{"pods of nodes that the template excludes use up the budget", "keptout.go", "r.onlyTargetFits(i) || r.onlyKept(i) {", "r.onlyTargetFits(i) {"},
		{"pods of nodes that the template excludes leave at once in the end", "roll.go", "|| shut || r.empties() {", "|| shut {"},
		{"pods that terminate on nodes that the template excludes use up no budget", "fits.go", "others = others || n.Ready && p.Revision != r.template", "others = others && n.Ready"},
		{"a pod that a dead node keeps uses up the budget", "fits.go", "others || n.Ready && p.Revision", "others || p.Revision"},
		{"a pod that leaves is the reason why nothing goes on", "budget.go", "!r.charged(i) || r.leaves(i)", "!r.charged(i)"},
		{"a rollout does not end before pods leave that a set does not update", "keptout.go", "if r.s.Set.EligibleOnly || ", "if "},
		{"a rollout does not end before pods leave for which a percentage leaves no budget", "keptout.go", " && r.s.Set.MaxUnavailable.Percent && ", " && r.s == nil && "},
		{"a rollout does not end before nodes are ready that only keep their pods", "keptout.go", "AwaitsUpdate && n.Ready && n.Refusal == nil {", "AwaitsUpdate && n.Refusal == nil {"},
		{"a rollout does not end before pods leave that the API server keeps", "keptout.go", "AwaitsUpdate && n.Ready && n.Refusal == nil {", "AwaitsUpdate && n.Ready {"},
		{"pods of nodes that the template excludes block the wave", "budget.go", " && (r.isReleased(i) || !r.onlyKept(i))", ""},
		{"for another manager, nodes that only the template selects hold other zones", "fits.go", "n.Last = rollout.NoRevision // another", "_ = n // another"},
		{"a percentage is that of the nodes without those that have failed and are gone", "roll.go", "r.waves[k].down = r.waves[k].failed\n", ""},
		{"a node that has failed and is gone counts no more", "failure.go", "st.FailedNodes = r.failedGone(k)\n", "st.FailedNodes = nil\n"},
		{"a node that goes down before its new pod does not count in the pace", "decide.go", "max(g.InFlight-r.downWithout(), 0)", "max(g.InFlight, min(r.downWithout(), 0))"},
		{"a node that goes down before its new pod counts in the pace for ever", "pace.go", "n.Fit != r.s.Nodes[i].Fit && !r.isLeftOut(i) {", "n.Fit != r.s.Nodes[i].Fit {"},
		{"a node that is back and still tainted leaves its wave", "waves.go", "(!n.Ready || isBack(s, n))", "!n.Ready"},
		{"a node that has been back for long stays in its wave", "waves.go", ".Abs() < taintWait", ".Abs() >= 0"},
		{"a node that is back by a clock that is ahead leaves its wave", "waves.go", "s.Now.Sub(n.Since).Abs() < taintWait", "n.Since <= s.Now && s.Now.Sub(n.Since) < taintWait"},
		{"nothing looks at a node that keeps its taint", "decide.go", "r.wakeAt(n.Since.Add(taintWait))", "_ = taintWait"},
		{"a node that is back is left out", "begun.go", "if !r.s.Nodes[i].Ready {", "if r.s != nil {"},
		{"the API server refuses the message of a void decision", "approval.go", "Message: Shortened(r.voidText(a), longestDecision-len(\"...\"))}", "Message: r.voidText(a)}"},
		{"a decision about a set without a known template is about no revision", "noeffect.go", " || st.TargetRevision == \"\" {", " {"},
		{"another manager does not know of a node that went down", "begun.go", " && !wentDownMeanwhile(r.in.Snapshot, &r.in.Snapshot.Nodes[i]) {", " {"},
		{"a wave that takes all its nodes keeps the place of a node that is gone", "begun.go", "case known && !r.p.Waves[k].limited() && (", "case known && r.s == nil && ("},
		{"for another manager a step of nodes that went down works", "order.go", "hasTarget(r.s, n) || r.lostPod(i)", "hasTarget(r.s, n)"},
		{"for another manager a zone of nodes that went down is gone", "order.go", "AwaitsUpdate && !r.lostPod(i) ||", "AwaitsUpdate ||"},
		{"a decision that names no policy has no reason", "noeffect.go", "if p == nil {", "if p == nil && a == nil {"},
		{"a decision about the set of another name is about each set", "noeffect.go", "if set.Name != a.Spec.Set {", "if a == nil {"},
		{"a decision about a set of which nothing is known names no set", "noeffect.go", "return \"\", false", "continue"},
		{"a decision about one of two sets with a name is about no revision", "noeffect.go", "described || st.TargetRevision", "st.TargetRevision"},
		{"a decision about no revision has no reason", "noeffect.go", "case !described:", "case !described && exists && p == nil:"},
		{"a user cannot go on without a wave that is left out", "roll.go", "absent > 0 && r.goesOn(k).step < st.Gone+absent {", "absent > 0 && (st.Gone == 0 || r.goesOn(k).step < st.Gone) {"},
		{"a promote without a wave that is left out ends its soak", "roll.go", "r.halt.step = st.Gone + absent", "r.halt.step = st.Gone"},
		{"a promote counts for nodes that are left out later", "roll.go", "r.goesOn(k).step < st.Gone+absent {", "r.goesOn(k).step <= st.Gone {"},
		{"a promote without a wave that is gone needs another for its nodes that are left out", "roll.go", "r.halt.step = w.Gone + r.waves[k].absent", "r.halt.step = w.Gone"},
		{"a promote whose place was dropped ends a soak", "halt.go", ` && a.Status.Message == "" {`, " {"},
		{"a node that goes down before its new pod leaves a zone", "begun.go", "\tr.keepDown()\n", ""},
		{"a node that was down before a rollback holds its zone", "begun.go", "|| n.Since < r.start() {", "{"},
		{"an update holds no group any more after its node was down", "group.go", "(!before && !back || r.left[i]", "(!before && (!back || back) || r.left[i]"},
		{"an update of long ago holds the group after its node was down", "group.go", "len(n.Pods) > 0 && r.young(i) // it", "len(n.Pods) > 0 // it"},
		{"nodes that need no pod use up the pace", "deadline.go", " && !r.lacks(k, i) && paced(i) {", " && !r.lacks(k, i) && (paced(i) || i >= 0) {"},
		{"a quota that others use up fails a revision", "nodefailure.go", "refused(n) && !r.usedUpByOthers(n)", "refused(n)"},
		{"a quota that others use up makes a wave late", "deadline.go", "(!f.Denied || r.usedUpByOthers(n))", "!f.Denied"},
		{"a quota that others use up makes a wave of a set that surges late", "deadline.go", "(r.bare(i) || r.surgeRefused(i))", "r.bare(i)"},
		{"a policy that refuses the label for a preDelete hook makes a wave late", "deadline.go", "(n.Refusal.Of != 0 || len(n.Pods) > 0 && !r.surges())", "n.Refusal.Of != 0"},
		{"no status names a quota that refuses a surge", "notready.go", "(len(n.Pods) == 0 || r.surgeRefused(i)) && r", "len(n.Pods) == 0 && r"},
		{"a revision whose pods a quota counts more of does not fail", "nodefailure.go", "return !r.in.ClaimsMore(r.template, r.committed)", "return true"},
		{"a revision whose pods a quota counts less of fails", "nodefailure.go", "ClaimsMore(r.template, r.committed)", "ClaimsMore(r.committed, r.template)"},
		{"pods from between a pause and the undo count for the undo", "failure.go", "if later || r.last == nil", "if r.last == nil"},
		{"pods from before an undo was possible count for it", "earlier.go", " || blocks(r.last, blockedNoUndo) && r.last.UndoStoppedAt == nil", ""},
		{"an undo that is not possible for a moment forgets the pods that it has created", "earlier.go", " && r.last.UndoStoppedAt == nil", ""},
		{"after a pause, another manager takes a pod that became ready before the undo for one that it changed back", "earlier.go", "if f.UndoAt != nil {", "if f.UndoAt != nil && f.At == nil {"},
		{"no notice reports an undo that begins after a pause", "notice.go", " && (r.out.Status.Failure.UndoAt == nil || r.last.Failure.UndoAt != nil)", ""},
		{"the notice of an undo after a pause does not name the user", "status.go", "return r.failure.Message + \" \" + requested(asked)", "return r.failure.Message"},
		{"the notice of an undo that begins later has the identity of the failure", "notice.go", ", -seconds(f.UndoAt) // it", ", 0 // it"},
		{"nodes that return wait for the budget without a reason", "roll.go", "if r.returning && !r.undoing {\n\t\tr.blockedByBudget(nowhere)", "if r.s == nil {\n\t\tr.blockedByBudget(nowhere)"},
		{"a pod that has just started is the reason why no other node returns", "budget.go", "!r.remains(youngPod-r.s.Now.Sub(made))", "made != 0"},
		{"a pod that cannot be created is no reason why no other node returns", "budget.go", "!n.Ready || n.Obstacle() != \"\"", "!n.Ready"},
		{"an approval of a former daemon set counts", "approval.go", "== r.attempt && !r.early(a)", "== r.attempt"},
		{"a rollout gets the number of an earlier one when numbers of revisions are lowered", "identity.go", "r.rollout = max(r.rollout, r.afterLast())", "_ = r.afterLast()"},
		{"each zone begins a step of its own", "order.go", "return more >= 0", "return more >= -1"},
		{"a zone of which no node is left lets the next one begin", "order.go", "if !known || last >= 0 && zones[last] >= was {", "if !known || last < len(zones) {"},
		{"a user cannot go on without a zone that is gone", "order.go", "at == lost && !promoted.after(r.p.TopologyKey, lostZone) &&", "at == lost && lostZone != promoted.domain &&"},
		{"the end of a rollout waits for a node without a reason", "roll.go", "\tr.blockedEnd(others)\n", ""},
		{"an undo that a node delays names no reason", "notready.go", "case byTemplate && old:", "case byTemplate && !old && old:"},
		{"the remedy for a node that an undo always waits for is to leave it out", "notready.go", "ends = ends || !always", "ends = true"},
		{"an undo says that it leaves out a node that it always waits for", "notready.go", "limit != nil && !always {", "limit != nil && (always || !always) {"},
		{"an end waits for a node with an old pod without a reason", "notready.go", "(old || others == 0", "(others == 0"},
		{"an undo by the policy that a node delays names no reason", "failure.go", "\tr.blockedEnd(others)\n", ""},
		{"an undo by the policy waits for a node that the set holds", "notready.go", "r.onlyKeeps(i) || !r.isReleased(i)", "r.onlyKeeps(i)"},
		{"a wave that other zones hold names no reason", "roll.go", "\t\tr.blockedByOrder(active)\n", ""},
		{"a wave that is at work names other zones as the reason", "order.go", "case st.UnderWay && !st.AwaitsUpdate, st.AwaitsUpdate", "case st.AwaitsUpdate"},
		{"a node that joins in a later zone hides one that is gone", "order.go", "began == 0 || joined <= began ||", "began == 0 || joined != -1 ||"},
		{"a node that a wave does not match any more keeps its place", "begun.go", "case there && member(r.s, &r.s.Nodes[at]): // a user", "case there && r.s == nil: // a user"},
		{"nodes that are left out hide those that are gone", "roll.go", "w.Nodes == 0 && r.goesOn(", "w.Nodes == 0 && r.waves[k].absent == 0 && r.goesOn("},
		{"the waves wait for a node that joins and pulls for ever", "leftout.go", "return w.pulls && !r.remains(", "return w.pulls && r.s == nil && !r.remains("},
		{"the waves wait for no node that pulls", "leftout.go", "w.joined && r.pullsForLong(&w)", "r.pullsForLong(&w)"},
		{"in a rollback, the oldest nodes come first", "waves.go", "seniority(r.s, r.start())", "seniority(r.s, r.s.Revisions[r.template].Created)"},
		{"the time of another template with the same number counts", "watch.go", "i == r.template && r.last != nil", "i == r.template"},
		{"a zone of which all nodes have joined is not noted", "order.go", "!r.standing[i].AwaitsUpdate && r.reached(i) {", "!r.standing[i].AwaitsUpdate && r.reached(i) && r.s.Nodes[i].Joined <= r.start() {"},
		{"a zone of nodes that joined and went down is gone", "order.go", "joined <= began || known && zones[at] <= was && r.inTurn(i)", "joined <= began || known && zones[at] < was && at < 0"},
		{"nodes on which the revision never worked hide a zone that is gone", "order.go", "zones[at] <= was && r.inTurn(i)", "zones[at] <= was"},
		{"a promote counts for each later step", "order.go", "end <= goesOn ||", "goesOn > 0 ||"},
		{"a promote counts for each later zone", "halt.go", "return known && value <= last", "return known && value+last != \"\""},
		{"a promote from before a wave was gone goes on without it", "roll.go", "r.goesOn(k).step < w.Gone", "r.decided(v1alpha1.Promote, w.Name) == nil"},
		{"a promote of a zone that is gone counts for each later one", "order.go", "r.out.Status.Wave, r.halt.domain = w.Name, w.Domain", "r.out.Status.Wave, r.halt.domain = w.Name, r.p.TopologyKey+\"=~\""},
		{"a set that changes its group frees the earlier one", "ledger.go", "all[e.Group] = both(e.UnderWay, is.UnderWay)", "all[e.Group] = nil"},
		{"a set that has changed its group holds the earlier one for ever", "ledger.go", "all[group] = both(nodes, is.UnderWay)", "all[group] = nodes"},
		{"a wave whose pods crash names no reason", "roll.go", "\t\tr.blockedByPods(active)\n", ""},
		{"a pod on a node that is not ready is a reason", "notready.go", "if !n.Ready || r.standing[i].Available || !r.ofWave(active, i) {", "if r.standing[i].Available || !r.ofWave(active, i) {"},
		{"only ten failed nodes that are gone count", "failedgone.go", "case named < maxNames:", "case false:"},
		{"a large status loses which nodes of the active wave have begun", "bound.go", "if s.Waves[k].Phase == v1alpha1.WavePassed {", "if s.Waves[k].Phase != v1alpha1.WavePending {"},
		{"nodes that have the revision do not come first", "waves.go", "case hasTarget(s, n):", "case hasTarget(s, n) && s == nil:"},
		{"spreadBy prefers nodes that lack the revision", "waves.go", "take(free[:updated])", "take(free[:0])"},
		{"a set that the policy does not control for a moment loses its progress", "decide.go", "PhaseStalled\n\tr.keepProgress()\n", "PhaseStalled\n"},
		{"another node takes the place of one that is gone", "waves.go", "gone := int(a.gone[k])\n", "gone := 0\n"},
		{"nodes that are gone do not count in a percentage", "waves.go", ".Of(total+gone)", ".Of(total)"},
		{"another node with that name has its place", "begun.go", "b.joined != 0 && b.joined != r.s.Nodes[at].Joined", "b.joined != 0 && b.joined != b.joined"},
		{"the next manager forgets which nodes are gone", "begun.go", "was.lost[w.Name] = w.Gone\n", "was.lost[w.Name] = 0\n"},
		{"the next manager forgets which nodes have begun", "begun.go", "for _, name := range w.Begun {", "for _, name := range w.Begun[:0] {"},
		{"a node that goes down before its new pod loses its place", "begun.go", "hasTarget(r.s, n) || n.Last == r.s.Set.Update && r.standing[i].UnderWay {", "hasTarget(r.s, n) {"},
		{"a wave does not wait for a node that goes down before its new pod", "begun.go", "return isDown(s, n) && !slices", "return n == nil && !slices"},
		{"a node that stays down before its new pod is never left out", "begun.go", "\tr.leaveOutDown(i)\n", ""},
		{"a node that has begun may be in another wave", "begun.go", "\t\t\tr.began[at] = place(k)\n", "\t\t\t_ = place(k)\n"},
		{"a wave that stalls hides a failure", "roll.go", "if r.out.Fail == nil {\n\t\t\t\tr.stallBefore", "if r.s != nil {\n\t\t\t\tr.stallBefore"},
		{"a wave that stalls passes after a failure", "roll.go", "\t\t\tbreak\n\t\t}\n\t\tif !r.advance(", "\t\t}\n\t\tif !r.advance("},
		{"a wave whose nodes are gone passes", "roll.go", "open && w.Gone > 0 &&", "open && w.Gone < 0 &&"},
		{"a wave that has soaked waits for nodes that are gone", "roll.go", "w.Phase != v1alpha1.WavePassed && w.Phase != v1alpha1.WaveWaitingForApproval", "w.Phase != v1alpha1.WavePassed"},
		{"a step of which no node is left holds nothing", "order.go", "end > gone && f.shows(", "f.shows("},
		{"a step whose nodes are all left out lets the next one begin", "order.go", "end <= goesOn || end > gone &&", "end <= goesOn || end > gone ||"},
		{"a zone whose nodes are all left out lets the next one begin", "order.go", "at <= last || f.shows(start) ||", "at <= last || start >= 0 ||"},
		{"a zone holds others that have begun when its nodes are left out later", "order.go", "shows := at <= last ||", "shows := at < last-len(nodes) ||"},
		{"nodes that the revision has not reached enlarge a step", "order.go", "return member(r.s, &r.s.Nodes[i]) && r.reached(i)", "return member(r.s, &r.s.Nodes[i])"},
		{"a step stops because of a node that was broken before", "order.go", "case brokenBefore, neverWell:\n\t\treturn false", "case brokenBefore, neverWell:\n\t\treturn r.reached(i)"},
		{"a node that only keeps its pod starts before the last step, and outside of the turn of its zone", "order.go", "case r.places[i] != place(k):", "case r.places[i] != place(k) || !member(r.s, &r.s.Nodes[i]):"},
		{"a node that joins comes before those that have begun", "order.go", "case r.began[i] == place(k) || r.p.Waves[k].Start == nil:", "case r.s != nil:"},
		{"an analysis without an answer passes", "answers.go", "if as.Answer != v1alpha1.AnswerPass {\n\t\t\th.passing = false", "if as.Answer == v1alpha1.AnswerFail {\n\t\t\th.passing = false"},
		{"an answer from before the wave was complete counts", "answers.go", "complete(was) != complete(st) ||", "false ||"},
		{"an answer of another process counts", "answers.go", "|| r.in.Restored && r.in.Measuring == MeasuredHere {\n\t\tas.Answer", "{\n\t\tas.Answer"},
		{"a pass never becomes old", "memory.go", "	age += max(r.in.Elapsed, 0)\n	r.setPassed(", "	r.setPassed("},
		{"a pass from before a pause counts", "memory.go", "	if !known {\n		return true", "	if !known {\n		return false"},
		{"an answer to another question counts", "answers.go", "if r.in.Answers[i].Question != q {", "if r.in.Answers[i].Question.Analysis != q.Analysis {"},
		{"an answer that is not known ends a series of failures", "answers.go", "as.Answer = v1alpha1.AnswerUnknown\n\t\t\tif as", "as.Answer, as.Failures = v1alpha1.AnswerUnknown, 0\n\t\t\tif as"},
		{"a pass ends no series of failures", "answers.go", "as.Failures, as.LastFailure, as.UnknownFor = 0, nil, nil", "as.LastFailure, as.UnknownFor = nil, nil"},
		{"one failure more is allowed", "answers.go", "if int(as.Failures) > a.FailureLimit &&", "if int(as.Failures) > a.FailureLimit+1 &&"},
		{"a failed analysis does not start the soak again", "soak.go", "st.Soaked == nil || health.failed:", "st.Soaked == nil:"},
		{"failed nodes of all waves count for each", "failure.go", "if node == nil || r.places[i] != place(k) {", "if node == nil || r.places[i] < 0 && k >= 0 {"},
		{"one failed node more is allowed", "failure.go", "case st.Failed > most:", "case st.Failed > most+1:"},
		{"a wave waits for a node that may fail", "leftout.go", "if n.failed > n.mayFail {", "if n.failed > 0 {"},
		{"nodes are left out of a wave that fails", "leftout.go", "if n.failed > n.mayFail {", "if n.failed < 0 {"},
		{"a rollout does not end because of a node that may fail", "roll.go", "&& !r.hasFailedOn(i) {", "{"},
		{"a percentage is that of the nodes that have not failed", "leftout.go", "nodes + r.waves[k].down)", "nodes + r.waves[k].down - r.waves[k].failed)"},
		{"a broken node without a pod is forgotten", "watch.go", "broken || stays", "broken || stays && r.p == nil"},
		{"an undo counts the restarts of the revision that has failed", "earlier.go", "case r.undoing && began != 0:", "case r.undoing && began < 0:"},
		{"a rollback in place counts the restarts of before", "earlier.go", "made < r.s.Revisions[r.committed].Created:", "made > r.s.Revisions[r.committed].Created && began == 0:"},
		{"a lost status forgives restarts of pods that were changed in place", "earlier.go", "&& made < r.s.Revisions[r.committed].Created:", "&& made != 0:"},
		{"a reboot that is shown late counts", "nodefailure.go", "w.returns = n.Ready && ", "w.returns = n.Since == 0 && "},
		{"a container that crashes after a reboot does not count", "nodefailure.go", "if !w.away && highest > w.most {", "if !w.away && highest > w.most+9 {"},
		{"restarts that a kubelet has forgotten hide later ones", "nodefailure.go", "w.restarts = min(w.restarts, p.Restarts)", "_ = w.restarts"},
		{"restarts never count after a reboot", "nodefailure.go", " && !(p.Ready && p.ReadySince >= n.Since)", ""},
		{"another manager counts the restarts of a reboot", "watch.go", "if r.in.Watch == nil && p.Created < n.Since {", "if r.in.Watch == nil && p.Created < n.Since && !n.Ready {"},
		{"another manager counts no restarts of before", "watch.go", "if r.in.Watch == nil && p.Created < n.Since {", "if r.in.Watch == nil {"},
		{"restarts while the node is not ready count", "nodefailure.go", "if (w.away || w.returns) && p.Restarts", "if n.Ready && (w.away || w.returns) && p.Restarts"},
		{"a reason is shown that the policy does not name", "nodefailure.go", "(p.Waiting & f.Waiting).String()", "p.Waiting.String()"},
		{"each node of a small wave may fail", "leftout.go", "MaxFailedNodes.Down(", "MaxFailedNodes.Of("},
		{"a percentage of an undo is rounded up", "failure.go", "MaxFailedNodes.Down(", "MaxFailedNodes.Of("},
		{"a node that was broken before counts", "nodefailure.go", "if w.before || w.untouched", "if w.untouched"},
		{"a pod that waited before the retry counts at once", "nodefailure.go", "!p.Ready && !w.retried && p.Waiting", "!p.Ready && p.Waiting"},
		{"the restarts before a retry count", "failure.go", "w.uid, w.restarts = p.UID, p.Restarts", "w.uid, w.restarts = p.UID, 0"},
		{"a pod that works again after a retry is one of the rollout", "watch.go", "if w.retried && !r.serves(i) {", "if w.retried {"},
		{"a pod of an undo that a retry ends shows a broken node", "watch.go", "if w.retried && !r.serves(i) {", "if w.retried && r.s == nil {"},
		{"the next pod after a retry is not judged", "watch.go", "r.earlierRestarts(p), false\n", "r.earlierRestarts(p), w.retried\n"},
		{"another manager counts what was before a retry", "watch.go", "if !known && r.begun > 1 &&", "if known && r.begun > 1 &&"},
		{"the restarts before the rollout count", "earlier.go", "return !r.undoing && p.Created < r.beganAt()", "return r.s == nil"},
		{"the first restarts of a pod that the rollout has found do not count", "earlier.go", "first := r.last == nil || r.in.Watch == nil", "first := r.s != nil"},
		{"a lost status forgives restarts", "earlier.go", "case r.last != nil && r.last.StartedAt == nil, r.last == nil && r.knowsNothing() && r.anyMark:", "case r.s == nil:"},
		{"a node that the undo has not touched stops it", "nodefailure.go", "w.before || w.untouched ||", "w.before ||"},
		{"a fast clock hides the pods of an undo", "watch.go", "r.untouched(p) && !(known && r.watched(r.s.Set.Update))", "r.untouched(p)"},
		{"each manager forgives the pods of an undo", "watch.go", "r.undoing && !r.madeByUndo(p):", "r.undoing:"},
		{"an undo ends when its pods exist", "failure.go", "if !behind && !r.awaitsReturned() {", "if !behind {"},
		{"an undo updates nodes that the set keeps", "returned.go", "case !r.onlyProven(n) || !held(i):", "case !r.onlyProven(n) || held(i):"},
		{"restarts before a revision returns count", "earlier.go", "return max(made, r.beganAt())", "return made"},
		{"a node that breaks elsewhere uses up the limit of an undo", "watch.go", "case w.untouched || !known", "case !known"},
		{"a node that has returned in place never counts", "earlier.go", "return !r.watched(r.s.Set.Update)", "return r.s != nil"},
		{"another manager judges no node that has returned in place", "earlier.go", "return p.Ready && p.ReadySince < r.undoBeganAt(began)", "return p.Ready"},
		{"an undo by the template judges nodes that it has not touched", "revert.go", "r.last == nil && f != nil {", "r.last == nil && f != nil && r.s == nil {"},
		{"an undo by the template compares pods with the manager's clock", "revert.go", "r.out.Status.StartedAt = second(afterNewest(f))", "_ = second(afterNewest(f))"},
		{"an undo compares pods with the manager's clock", "earlier.go", "\t\treturn afterNewest(f)\n", "\t\tbegan = f.At\n"},
		{"each decision takes the newest pod of now for that of before the failure", "failure.go", "was.At, was.UndoAt, was.NewestPod", "was.At, was.UndoAt, r.newestPod()"},

		{"a node that joined before a retry has not joined", "failure.go", "w.joined = r.in.Watch.nodes[n.Name].joined && !r.standing[i].Available", "w.joined = false"},
		{"a node that was available once is broken before", "watch.go", "w.down, w.before, w.joined, w.retried = 0, false, false, false", "w.down, w.joined, w.retried = 0, false, false"},
		{"a node that was available once has only joined", "watch.go", "w.down, w.before, w.joined, w.retried = 0, false, false, false", "w.down, w.before, w.retried = 0, false, false"},
		{"a node that joins is forgotten while the gate of its first pod is closed", "watch.go", "known && (w.before || w.joined) &&", "known && w.before &&"},
		{"the time behind a node that joins, and uses up the budget, counts for the deadline of its wave", "deadline.go", "(joined || excused) &&", "excused && len(r.p.Waves) > 0 && !joined &&"},
		{"the time behind a node that does not count, and uses up the budget, counts for the deadline of its wave", "deadline.go", "(joined || excused) &&", "joined && (excused || !excused) &&"},
		{"a node that joins and never works counts", "watch.go", "case w.joined:\n\t\t\tr.excused = append(r.excused, i)", "case w.joined && r.s == nil:\n\t\t\tr.excused = append(r.excused, i)"},
		{"a node that joins and never works does not count where others fail", "watch.go", "bool { return others[r.placeOf(i)] })", "bool { return r.s == nil })"},
		{"a node that joins and never works counts where nodes of another wave fail", "watch.go", "bool { return others[r.placeOf(i)] })", "bool { return len(others) > 0 })"},
		{"the waves wait for a node that joins and never works", "leftout.go", "for _, i := range r.excused {\n\t\tr.leaveOut(i, neverWell)", "for _, i := range r.excused {\n\t\tr.leaveOut(i, counted)"},
		{"the status forgets which nodes were broken while nothing is decided", "watch.go", "r.in.Last.NotReadyBefore, r.in.Last.JoinedWithPod\n", "nil, r.in.Last.JoinedWithPod\n"},
		{"the time in which nothing was decided counts", "watch.go", "w.counts, w.pulls = false, false\n", "w.counts = true\n"},
		{"a node whose pod another manager has deleted joins", "joined.go", "n.Joined != 0 && n.Joined < r.beganAt()", "n.Joined > r.s.Now"},
		{"a node that must not have run a pod before never joins", "joined.go", "r.out.Memory.unclear[n.Name] && n.Joined", "n.Joined"},
		{"a node that joins during the rollout, and whose pod another manager has deleted, joins again", "joined.go", "\tif r.joinedEarlier(n) {\n", "\tif r.joinedEarlier(n) && r.s == nil {\n"},
		{"the third manager does not know whose pod the first one has deleted", "joined.go", "if r.joinedEarlier(n) || slices", "if slices"},
		{"nodes of later waves come first in the status", "joined.go", "int(r.places[a]) - int(r.places[b])", "int(r.places[b]) - int(r.places[a])"},
		{"the status names any number of nodes that have joined", "joined.go", "min(len(joined), maxNames)", "len(joined)"},
		{"a node that joins under another manager does not join", "joined.go", "n.Joined < r.beganAt()", "r.s != nil"},
		{"another manager counts a node that joins", "joined.go", "began != nil && rollout", "began == nil && rollout"},
		{"a broken pod that a user deletes before the rollout is forgotten", "watch.go", "rested := r.committed >= 0 &&", "rested := r.committed < 0 &&"},
		{"the next manager forgets which nodes were broken before", "watch.go", "} else if r.in.Last != nil {\n", "} else if r.in.Last != nil && r.in.Watch != nil {\n"},
		{"a pod that is only too young shows a broken node", "watch.go", "(!r.worksHere(i) && (w.before", "(!r.serves(i) && (w.before"},
		{"a young pod that a user deletes shows a broken node", "watch.go", "w.lacks = !st.Available && !r.onlyYoung(p)", "w.lacks = !st.Available"},
		{"a pod that is not ready is only too young", "watch.go", "r.s.Set.MinReady > 0 && p.Ready && p.InPlace", "r.s.Set.MinReady > 0 && p.InPlace"},
		{"a pod that crashes again and again is only too young", "watch.go", " && p.Restarts == 0\n", "\n"},
		{"a broken pod of a version that is not committed counts as broken before", "watch.go", "(w.before || w.joined || !r.unproven(&n.Pods[live]))", "true"},
		{"with a surge, a node stays broken although no revision is committed", "watch.go", "r.committed >= 0 && r.committedPod(n) == nil", "r.committedPod(n) == nil"},
		{"with a surge, a pod of a version that is not committed is an older one", "watch.go", "return !p.Deleting && !r.unproven(&p)", "return !p.Deleting"},
		{"the time of a pull counts", "watch.go", "w.pulls = n.Ready && w.waitsForImage(p)", "w.pulls = n.Ready && w.waitsForImage(p) && r.s == nil"},
		{"the time before an event counts", "watch.go", "case counted:\n", "case known && r.timed(n, &w):\n"},
		{"the time before a refusal counts", "watch.go", "if counted {\n", "if known && r.timed(n, &w) {\n"},
		{"the time before the rollout counts for the wait for the status", "watch.go", "if counted && w.before", "if known && w.before"},
		{"the time before a wave lacked a pod counts for its deadline", "failure.go", "&& r.rolled() && r.lacked(st.Name)", "&& r.rolled() && !r.s.Set.Paused"},
		{"alerts stop the deadline of a wave that has begun", "failure.go", "&& r.rolled() && r.lacked(st.Name)", "&& r.rolled() && r.lacked(st.Name) && (r.last.Alerts == nil || r.last.Alerts.Answer == v1alpha1.AnswerPass)"},
		{"windows stop the deadline of a wave that has begun", "failure.go", "r.last.Phase == v1alpha1.PhaseRolling || r.last.Phase == v1alpha1.PhaseWaitingForWindow ||", "r.last.Phase == v1alpha1.PhaseRolling ||"},
		{"an analysis without an answer stops the deadline of a wave that has begun", "failure.go", " || blocks(r.last, blockedUnknown))", ")"},
		{"the time of a pause counts for a node", "nodefailure.go", "if r.s.Set.Paused || r.p.Suspend {", "if r.p.Suspend {"},
		{"the time of a suspension counts for a node", "nodefailure.go", "if r.s.Set.Paused || r.p.Suspend {", "if r.s.Set.Paused {"},
		{"the time of a pause counts for the deadline of a wave", "deadline.go", "!r.s.Set.Paused && r.proceeds(k, held)", "r.proceeds(k, held)"},
		{"the time in which nothing may start counts for the deadline of a wave", "deadline.go", "!r.s.Set.Paused && r.proceeds(k, held)", "!r.s.Set.Paused && held != nil"},
		{"a wave proceeds without a budget", "deadline.go", "return idle < most", "return idle < most || waits"},
		{"a wave proceeds although the partition keeps its nodes", "deadline.go", "case held(i), enforcement", "case held(i) && r.s == nil, enforcement"},
		{"a wave is late because owners wait", "deadline.go", "== v1alpha1.EnforcementAnnouncements:\n\t\tcase used", "== v1alpha1.EnforcementNone:\n\t\tcase used"},
		{"a wave proceeds although others use the pace", "deadline.go", "return others >= g.InFlight", "return others < 0"},
		{"a protected pod counts for the deadline of a wave", "deadline.go", "case f == nil:", "case f == nil || f.Of != 0:"},
		{"an unreachable node counts for the deadline of a wave", "deadline.go", "return n.Ready || r.podOf(n) != nil", "return n.Ready || r.s != nil"},
		{"a pull that fails does not count", "watch.go", "case p.Ready || p.Waiting != rollout.WaitingNone || !p.Scheduled", "case p.Ready || !p.Scheduled"},
		{"what may be a pull has no limit", "watch.go", "return w.pulled < mayPull", "return w.pulled >= 0"},
		{"the next pod has no time of its own for a pull", "watch.go", "w.uid, w.age, w.pulled, w.restarts, w.retried = p.UID, 0, 0,", "w.uid, w.age, w.restarts, w.retried = p.UID, 0,"},
		{"the mark of a failure is not enough when the status is lost", "failure.go", "case r.knowsNothing() && r.anyMarkedFailed() != nil:", "case r.knowsNothing() && r.anyMarkedFailed() != nil && r.s == nil:"},
		{"the mark of a failure is enough when there is a status", "failure.go", "case r.knowsNothing() && r.anyMarkedFailed() != nil:", "case mark != nil:"},
		{"a rejection is forgotten when the status is lost", "identity.go", "if r.knowsNothing() {", "if r.knowsNothing() && r.s == nil {"},
		{"an undo that fails as well goes on", "failure.go", "r.holdReleased(rollout.WaitFailed)\n\tremedy", "remedy"},
		{"a node that dies stops an undo", "nodefailure.go", "w.untouched || r.undoing && !n.Ready {", "w.untouched {"},
		{"the time in which a node is not ready counts in an undo", "nodefailure.go", "n.Ready || !r.undoing && r.wentDown(", "n.Ready || r.wentDown("},
		{"a node that never works uses up the limit of an undo", "budget.go", "(w.before || w.joined) && w.uid", "w.before && w.uid"},
		{"a node that dies uses up the limit of an undo", "budget.go", "case !n.Ready || r.hasFailedOn(i):", "case n.Ready && r.hasFailedOn(i):"},
		{"a node that may fail uses up the limit of an undo", "budget.go", "case !n.Ready || r.hasFailedOn(i):", "case !n.Ready || r.hasFailedOn(i) && r.failed == nil:"},
		{"an undo waits for the images of the revision that has failed", "fits.go", "s.Nodes[i].ImageWait, s.Nodes[i].ImageUntil = false, 0", "_ = i"},
		{"an undo needs no committed revision", "failure.go", "case !r.marked && !r.recorded:\n", "case !r.marked && !r.recorded && r.s == nil:\n"},
		{"an undo ends when its mark is removed", "failure.go", "case !r.marked && !r.recorded:\n", "case !r.marked:\n"},
		{"a revision that is lost was never committed", "failure.go", "case r.lost:\n", "case r.lost && r.s == nil:\n"},
		{"a selector keeps nodes on a revision that has failed", "failure.go", "rollout.Quantity{}, false", "rollout.Quantity{}, set.Selective"},
		{"a partition keeps nodes on a revision that has failed", "failure.go", "= revision, rollout.Quantity{}, ", "= revision, set.Partition, "},
		{"an undo waits for a node that only keeps its pod", "failure.go", "!down && !keeps && (", "!down && (!keeps || r.s != nil) && ("},
		{"an undo ends and begins again with each flap of a node", "failure.go", "r.isLeftOut(i) && !r.mayFlap(i)", "r.isLeftOut(i)"},
		{"an undo waits for a node that stays not ready", "failure.go", "r.isLeftOut(i) && !r.mayFlap(i)", "r.isLeftOut(i) && r.s == nil"},
		{"an undo names no node whose delete is refused", "failure.go", "\tr.blockedByRefusals(nowhere)\n", ""},
		{"an undo waits for its mark", "decide.go", "if !r.atRest() && !r.undoing {", "if !r.atRest() {"},
		{"the action Pause undoes", "failure.go", "case r.failure.Undo && r.mayUndo() && r.undo():", "case r.mayUndo() && r.undo():"},
		{"a template is changed before the status has it", "revert.go", "was.RejectedRevision == st.RejectedRevision &&\n", "true &&\n"},
		{"the template of another field manager is changed", "revert.go", "case len(of.Owners) > 0:", "case len(of.Owners) > 9:"},
		{"a revision that came back is undone again", "revert.go", "return &everynode.Failure{Number: r.revisionNumber(), Message:", "return &everynode.Failure{Number: r.revisionNumber(), Undo: true, Message:"},
		{"an undo by the template has no limit", "revert.go", "r.out.MaxUnavailable = r.undoLimit()", "_ = r.undoLimit()"},
		{"a failure is forgotten after edits of the set", "identity.go", "case last.Failure != nil && in.mark(", "case last.Failure == nil && in.mark("},
		{"a failure is not forgotten when the template returns", "identity.go", "mark != nil && mark.Number == number {", "mark != nil {"},
		{"a revision that is undone has the numbers of before", "status.go", "if r.undoing || r.returned {", "if r.undoing && r.returned {"},
		{"an undo takes the first waves first", "returned.go", "*left -= *number", "*left -= 0 * *number"},
		{"a failure is forgotten while nothing is decided", "status.go", "if r.last != nil && r.last.Failure != nil && !r.atRest() {", "if r.last != nil && r.last.Failure != nil && r.atRest() {"},
		{"a wave takes longer than its deadline", "failure.go", "st.Rolled.Duration >= deadline", "st.Rolled.Duration >= 2*deadline"},
		{"the deadline of a wave starts again with each soak", "failure.go", "deadline == 0 || st.Phase != v1alpha1.WaveRolling && st.Phase != v1alpha1.WaveSoaking:", "deadline == 0 || st.Phase != v1alpha1.WaveRolling:"},
		{"the deadline of a wave does not start again after the soak", "failure.go", "deadline == 0 || st.Phase != v1alpha1.WaveRolling && st.Phase != v1alpha1.WaveSoaking:", "deadline == 0:"},
		{"a node that joins counts for the deadline of a wave", "deadline.go", "r.standing[i].Available || r.out.Watch.nodes[n.Name].joined {", "r.standing[i].Available {"},
		{"a failure gives a notice for each phase", "notice.go", "if r.last != nil && r.last.Failure != nil && (r.out", "if r.last == nil && (r.out"},
		{"no notice reports an undo that stops", "status.go", "\t\tr.stopNotice(text)\n", ""},
		{"another manager does not know when an undo stopped", "notice.go", "\t\tst.UndoStoppedAt = last.UndoStoppedAt\n", "\t\tst.UndoStoppedAt = second(r.s.Now)\n"},
		{"the notice of an undo that stopped is not repeated", "notice.go", "if last.UndoStoppedAt != nil && last.Phase", "if last.UndoStoppedAt != nil && r.s == nil && last.Phase"},
		{"an undo that has ended has stopped", "status.go", "r.out.Status.UndoStoppedAt = nil", "_ = r.out.Status"},
		{"an undo that stops has the identity of its failure", "notice.go", "rollout.Time(at.UnixNano()), seconds(at), repeated", "rollout.Time(at.UnixNano()), 0*seconds(at), repeated"},
		{"a retry has the identity of the attempt before", "notice.go", "n.Attempt, n.Wave, n.Type, n.Occurrence)", "0, n.Wave, n.Type, n.Occurrence)"},
		{"a wave that waits again has another identity", "notice.go", "n.Occurrence = seconds(w.CompletedAt) // another", "n.Occurrence = seconds(w.WaitingSince) // another"},
		{"a pod that was not ready for a moment soaks on", "soak.go", "if known && !stayed &&", "if known && !stayed && r.in.Restored &&"},
		{"a node that is left out starts the soak again", "soak.go", "member(r.s, &r.s.Nodes[i]) && !r.isLeftOut(i)", "member(r.s, &r.s.Nodes[i])"},
		{"a node that joins starts the soak again", "soak.go", "r.out.Memory.growing = true\n\treturn true", "return false"},
		{"the soak goes on while a node that has joined gets its pod", "soak.go", "r.out.Memory.soaks = !r.out.Memory.growing", "r.out.Memory.soaks = true"},
		{"a pod that fails after its node has joined does not start the soak again", "soak.go", "n.Joined < since || at <", "n.Joined < since || false && at <"},
		{"a node that joins lets a percentage take another node", "waves.go", "return a.complete[k] != 0 && a.s.Nodes[i].Joined >= a.complete[k]", "return false"},
		{"time without a soak counts as one", "soak.go", "r.in.Memory == nil || r.in.Memory.soaks", "r.in.Memory == nil || !r.in.Memory.growing"},
		{"a missing pod shows no start", "memory.go", "(!r.atRest() || r.returning) && r.bare(i)", "r.returning && r.bare(i)"},
		{"a wave that has passed takes another node", "waves.go", "if !a.passed[k] || n.Joined", "if a.s != nil || n.Joined"},
		{"a node that is tainted because it went down leaves its wave", "waves.go", "desired(n) || wentDownWith(s, n)", "desired(n) || s == nil && wentDownWith(s, n)"},
		{"a node of a wave that has passed starts while another zone is at work", "order.go", "|| elsewhere(i) ||", "|| elsewhere(i) && r.s == nil ||"},
		{"a node of a wave that has passed starts with the active wave, in another zone", "order.go", " || starts.elsewhere(zone)", " || starts.elsewhere(zone) && r.s == nil"},
		{"a wave that has passed takes a node that was updated in another wave", "waves.go", "return a.begun[k] || ", "return "},
		{"a node that comes back starts while a later zone is at work", "order.go", "return z.several || z.any && zone != z.zone", "return z.several && zone != z.zone"},
		{"empty waves pass while all nodes are tainted", "unneeded.go", "if member(r.s, n) {", "if member(r.s, n) || r.s != nil {"},
		{"a policy is ready although a wave lacks pods", "conditions.go", "if !p.WaveHealthy || !available(s) {", "if !p.WaveHealthy {"},
		{"a condition is longer than the CRD allows", "conditions.go", "Shortened(message, mostInCondition)", "message"},
		{"a condition names all daemon sets", "summary.go", "some(s.sets, mostInMessage)", "strings.Join(s.sets, \", \")"},
		{"a selector has any number of values", "policy.go", "if values > MostValues {", "if values > MostValues && p == nil {"},
		{"a message says by the clock on the wall when a node is left out", "notready.go", "*limit - r.out.Memory.down[n.Name].lasts", "n.Since.Add(*limit).Sub(r.s.Now)"},
		{"the time when a node is left out changes with each decision", "notready.go", ".Round(time.Second)", ""},
		{"a rollout does not end without a node that is left out", "roll.go", "case old && r.isLeftOut(i):", "case old && r.s == nil:"},
		{"each decision of a process repeats a notice", "notice.go", "if !r.in.Restored || r.last == nil ||", "if r.last == nil ||"},
		{"an approval that is being deleted counts", "approval.go", "&& a.DeletionTimestamp == nil\n}", "\n}"},
		{"what releases a revision that is gone counts for a copy of it", "approval.go", "return holds(a) && r.named(a) &&", "return r.named(a) &&"},
		{"a freeze ends when the first of two does", "window.go", "max(until, f.To)", "f.To"},
		{"one window that is closed closes the others", "window.go", "if open {\n\t\t\treturn rollout.NotEvaluated, 0", "if open && len(p.Windows) == 1 {\n\t\t\treturn rollout.NotEvaluated, 0"},
		{"an open window ends a freeze", "window.go", "if kind != rollout.NotEvaluated || len(p.Windows) == 0 {", "if len(p.Windows) == 0 {"},
		{"nothing is decided when a window closes", "roll.go", "r.wakeAt(rollout.Earlier(until, r.p.closes(r.s.Now)))", "r.wakeAt(until)"},
		{"a return to the committed template ignores windows", "roll.go", "case !blocks(st, ClosedWindow):", "case r.s == nil:"},
		{"an approval of another attempt counts", "approval.go", "r.judged(a) && r.stored(a) && max(a.Status.Attempt, 1) == r.attempt", "r.judged(a) && r.stored(a)"},
		{"an approval counts before its state is stored", "approval.go", "return r.judged(a) && r.stored(a) && max(", "return r.judged(a) && max("},
		{"a retry begins before its state is stored", "approval.go", "if r.stored(a) {", "if r.s != nil {"},
		{"an approval from before the rollout counts", "approval.go", "&& !r.atRest() && !r.early(a) {", "&& !r.atRest() {"},
		{"a rejection from before the rollout does not count", "approval.go", "if holds(a) || r.atRest() {", "if r.atRest() {"},
		{"an approval of a rollback is void because the clocks differ", "approval.go", "tolerance = ClocksDiffer", "tolerance = sameMoment"},
		{"the clock of the manager decides which approval is early", "approval.go", "began = rollout.Earlier(began, created)", "_ = created"},
		{"an approval from before the template returned counts", "approval.go", "|| r.s.Revisions[i].Created <= created)", "|| r.s.Revisions[i].Created <= created || r.s != nil)"},
		{"no approval counts after a clock was set back", "approval.go", "if began > r.s.Now {", "if began > r.s.Now && r.s == nil {"},
		{"a rejection counts only under the policy that it names", "approval.go", "(r.named(a) || a.Spec.Decision == v1alpha1.Reject) && a", "r.named(a) && a"},
		{"a retry does not wait until earlier undos are stored", "approval.go", "waits = waits || !r.stored(undo)", "waits = waits && !r.stored(undo)"},
		{"a retry wins over a later undo", "approval.go", "if undo.CreationTimestamp.After(a.CreationTimestamp.Time) {", "if r.s == nil {"},
		{"an approval of an earlier rollout of the template counts", "approval.go", "&& a.Status.TargetNumber == r.number()", "&& a.Status.TargetNumber != 0"},
		{"an approval of a wave that does not exist yet is used up", "approval.go", "&& !p.hasWave(a.Spec.Wave)\n", "&& a.Spec.Wave == \"\"\n"},
		{"an approval about another revision is called too old", "approval.go", "if r.aboutTarget(a) && r.early(a) {", "if r.early(a) {"},
		{"an approval counts for each wave", "approval.go", "(wave == \"\" || a.Spec.Wave == wave)", "(wave == \"\" || a.Spec.Wave != \"\")"},
		{"an undo ends each later attempt", "approval.go", "a.Status.Attempt >= r.attempt", "a.Status.Attempt >= 0"},
		{"an undo has no effect before its state is stored", "approval.go", "a.Status.Attempt >= r.attempt || r.aboutTarget(a) && a.Status.State == \"\"", "a.Status.Attempt >= r.attempt && r.stored(a)"},
		{"an undo goes on while the policy is suspended", "failure.go", "if r.p.Suspend {\n\t\tr.suspend()\n\t} else {", "if r.p.Suspend && r.s == nil {\n\t\tr.suspend()\n\t} else {"},
		{"a return to the committed template goes on while the policy is suspended", "roll.go", "case r.p.Suspend:\n\t\tr.holdReleased(", "case r.p.Suspend && r.s == nil:\n\t\tr.holdReleased("},
		{"a node that only keeps its pod starts while no window is open", "roll.go", "if r.waits() {", "if r.waits() && r.s == nil {"},
		{"the template is changed back while the policy is suspended", "revert.go", "case r.p.Suspend:", "case r.p.Suspend && r.s == nil:"},
		{"a start in the future holds all others", "decide.go", "if last > r.s.Now {", "if last > r.s.Now && r.s == nil {"},
		{"a new manager starts an update next to one that it cannot see", "decide.go", "unclear && r.s.Now.Sub(last) >= r.p.MinTimeBetween {", "unclear && r.s == nil {"},
		{"two updates start at a time in spite of minTimeBetween", "decide.go", "g.Starts = 1", "g.Starts = 2"},
		{"the pace counts nodes without which the waves go on", "decide.go", "g.InFlight, g.Absent = max(most.Of(members), 1), r.uncounted()", "g.InFlight, g.Absent = max(most.Of(members), 1), make([]bool, len(r.s.Nodes))"},
		{"each update begins with the youngest pods", "decide.go", "g.NewestFirst = r.undoing && r.p.Undo.NewestFirst", "g.NewestFirst = r.p.Undo.NewestFirst"},
		{"nodes that need no budget use it up", "budget.go", "return r.charging(i)", "return !r.serves(i)"},
		{"a set that surges has no budget", "budget.go", "if r.surges() {\n\t\treturn nodes", "if r.surges() {\n\t\treturn 0"},
		{"a node of another wave that uses up the budget is no reason", "budget.go", " || !waits && !r.ofWave(int(active), i)", ""},
		{"a policy limits a set that surges", "budget.go", "if limit == nil || set.MaxSurge.Value > 0 {", "if limit == nil {"},
		{"a policy widens the budget of a set", "budget.go", "most < set.MaxUnavailable.Of(members) {", "most != set.MaxUnavailable.Of(members) {"},
		{"zones of nodes that come back start together", "order.go", "if zone := r.in.Labels[i][key]; zone != turn ||", "if zone := r.in.Labels[i][key]; turn == zone+\"?\" ||"},
		{"a node without an available pod waits for the budget", "budget.go", "waits = turn && r.serves(i) && (", "waits = turn && ("},
		{"a node that is left out holds other zones", "order.go", "!r.atWork(i) || r.isLeftOut(i) {", "!r.atWork(i) {"},
		{"for another manager a zone is at rest whose node went down without its pod", "order.go", "if key == \"\" || !r.atWork(i) ||", "if key == \"\" || !r.standing[i].UnderWay ||"},
		{"a node that has missed a rollout starts outside of windows if an undo may", "leftout.go", "r.restricts, found = kind, true, true", "r.restricts, found = rollout.NotEvaluated, true, true"},
		{"a node that returns waits for a window although an undo need not", "leftout.go", ">= all[r.committed].Created", "== all[r.committed].Created"},
		{"a step waits for a later zone, and the zone for the step", "order.go", "return zones[at], true", "return zones[at], from < 0"},
		{"a pod that vanishes in a later zone gets the new revision", "order.go", "case r.standing[i].AwaitsUpdate && elsewhere(i):", "case !r.standing[i].UnderWay && elsewhere(i):"},
		{"a pod that vanishes in a passed wave gets the new revision in the turn of another zone", "order.go", "if !r.isLate(active, i) ||", "if !r.isLate(active, i) || r.standing[i].UnderWay ||"},
		{"a node that comes back and uses up the budget waits for the active wave", "order.go", "!(full && r.serves(i))", "(full || !full)"},
		{"a node that is left out holds the zones of others that come back", "order.go", "able && !waits ||", "waits && !waits ||"},
		{"a zone of nodes that only keep their pods starts with the next one", "order.go", "|| k == place(active) && !r.inTurn(i)", ""},
		{"a wave passes although all its nodes are left out", "roll.go", "st.Nodes == 0 && absent > 0 && r.goesOn(k)", "st.Nodes == 0 && absent < 0 && r.goesOn(k)"},
		{"a user cannot go on without nodes that are gone", "roll.go", "&& w.Nodes == 0 && r.goesOn(k).step < w.Gone", "&& w.Nodes == 0"},
		{"a wave without nodes soaks", "roll.go", "if st.Nodes > 0 && !r.soaked(k, st) {", "if !r.soaked(k, st) {"},
		{"a wave without nodes needs no approval", "roll.go", "w.Approval && approval == nil {", "w.Approval && approval == nil && st.Nodes > 0 {"},
	}
}

// patched is the file of a mutant.
func (m *mutant) patched(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.text); n != 1 {
		t.Fatalf("%s has the text of the mutant %q %d times, want once", m.file, m.name, n)
	}
	return strings.Replace(string(source), m.text, m.mistake, 1)
}

// Each mutant still fits.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants() {
		_ = m.patched(t)
	}
}

// searches are the tests that take seconds.
const searches = "^(TestTrials|TestSetsOfAGroupTakeTurns|TestRandomLies|TestRandomStories|TestNoMoreNodesThanTheWave)$"

// The tests of this package find each mistake.
func TestMutants(t *testing.T) {
	if !*killing {
		t.Skip("run it with -mutants")
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			original, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			text, list := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: text}})
			if err != nil {
				t.Fatal(err)
			}
			for file, data := range map[string]string{text: m.patched(t), list: string(overlay)} {
				if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			tests := filepath.Join(dir, "policy.test")
			if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay", list, "-o", tests, ".").CombinedOutput(); err != nil {
				t.Fatalf("it does not compile:\n%s", out)
			}
			for _, which := range []string{"-test.skip=^TestMutants|" + searches, "-test.run=" + searches} { // most are found without the searches, in a second
				if exec.CommandContext(t.Context(), tests, "-test.failfast", which).Run() != nil {
					return
				}
			}
			t.Error("no test finds it")
		})
	}
}
