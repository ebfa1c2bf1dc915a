// SPDX-License-Identifier: Apache-2.0

package sim

const (
	rollFile      = "policy/roll.go"
	soakFile      = "policy/soak.go"
	decideFile    = "policy/decide.go"
	approvalFile  = "policy/approval.go"
	governFile    = "controller/daemonset/govern.go"
	committedFile = "policy/committed.go"
	gateFile      = "rollout/gate.go"
)

// policyMutants are wrong about what a rollout policy allows.
func policyMutants() []mutant {
	return []mutant{
		{"a soak is none", soakFile, "rest := w.Soak - st.Soaked.Duration\n", "rest := w.Soak - w.Soak\n", "wave"},
		{"an approval counts for any revision", approvalFile, "r.concerns(a) && r.describes(a.Spec.Revision) && r.target()", "r.concerns(a) && r.target()", "wave"},
		{"an approval counts for any wave", approvalFile, `(wave == "" || a.Spec.Wave == wave) && r.counts(a)`, `(wave == "" || a.Spec.Wave != "-") && r.counts(a)`, "wave"},
		{"an approval counts again in a later rollout of its revision", approvalFile, "a.Status.State == v1alpha1.ApprovalValid && a.Status.TargetNumber == r.number()", "a.Status.State == v1alpha1.ApprovalValid", "wave"},
		{"an approval counts before it is stored", approvalFile, "r.judged(a) && r.stored(a) && max(", "r.judged(a) && max(", "wave"},
		{"pods that no node needs stay without waves too", rollFile, "|| shut || r.empties() {", "|| shut || r.empties() || r.unneeded() {", "liveness"},
		{"a rejection stops nothing", decideFile, "case r.rejected():", "case r.rejected() && r.in.Restored:", "suspended"},
		{"a freeze is none", "policy/window.go", "if f.From <= now && now < f.To {", "if f.From <= now && now > f.To {", "suspended"},
		{"a window is always open", "policy/window.go", "if open {", "if open || next >= 0 {", "suspended"},
		{"a suspended policy stops no undo", rollFile, "\t\tr.holdReleased(rollout.WaitSuspended) // also", "\t\t_ = others // also", "suspended"},
		{"a suspended policy stops no rollout", rollFile, "st.Phase = v1alpha1.PhaseSuspended\n\t\tr.suspend()\n\t\treturn true\n", "st.Phase = v1alpha1.PhaseSuspended\n\t\treturn true\n", "suspended"},
		{"a policy that is deleted releases the rollout", decideFile, "r.out.Release = r.atRest()\n\t\tr.withoutPolicy()", "r.out.Release = true", "deleted"},
		{"a wave has one node more", "policy/waves.go", "return w.Count - gone\n", "return w.Count - gone + 1\n", "wave"},
		{"a later wave does not soak", soakFile, "rest := w.Soak - st.Soaked.Duration\n", "rest := w.Soak - st.Soaked.Duration\n\tif k > 0 {\n\t\trest = 0\n\t}\n", "wave"},
		{"a later wave needs no approval", rollFile, "w.Approval && approval == nil {", "w.Approval && approval == nil && k == 0 {", "wave"},
		{"a wave that grows begins with one node more", "policy/order.go", "start, end := 0, step\n", "start, end := 0, step+1\n", "wave"},
		{"a later percentage has one node more", "policy/waves.go", ".Of(total+gone) - taken - gone\n", ".Of(total+gone) - taken - gone + min(int(k), 1)\n", "wave"},
		{"a wave is not spread", "policy/waves.go", "spread(free, w.SpreadBy, a.labels,", "spread(free, w.SpreadBy[:0], a.labels,", "wave"},
		{"zones do not wait for each other", "policy/order.go", "done := f.reaches(at)", "done := f.reaches(0)", "zones"},
		{"a zone waits for one node of the zone before", "policy/order.go", "done := f.reaches(at)", "done := f.reaches(1)", "zones"},
		{"a wave is complete when one of its nodes is", rollFile, "if st.Available < st.Nodes ||", "if st.Available < min(st.Nodes, 1) ||", "wave"},
		{"a node that is held back and has no pod gets the newest", gateFile, "return n.Fit == MustRun && !d.in.Set.ExternalController && n.Last != d.in.Set.Update", "return false", "wave"},
		{"one update more than the pace allows", gateFile, "d.usage.paced+d.usage.taken >= g.InFlight", "d.usage.paced+d.usage.taken > g.InFlight", "pace"},
		{"a pod that vanishes begins no update", "rollout/vanished.go", "return g != nil && g.Creates &&", "return g != nil && !g.Creates &&", "pace"},
		{"the gate of a pod that was being prepared is opened before its update goes on", "rollout/inplace.go", " && !p.Interrupted", "", "liveness"},
		{"a pod next to one that its hook holds begins an update", "rollout/vanished.go", " && !d.hasBegun(n)", "", "known-pod"},
		{"a new pod whose gate is closed is in the middle of its update", "rollout/inplace.go", "p.InPlace == InPlaceArrived && !p.Interrupted", "p.InPlace == InPlaceAnnounced && !p.Interrupted", "pace"},
		{"a time between updates is none", decideFile, "g.Starts = 1\n", "g.Starts = 100\n", "pace"},
		{"a time between updates is half as long", decideFile, "rest := gap - r.startedFor(last)", "rest := gap/2 - r.startedFor(last)", "pace"},
		{"a lost status is one of waves that have passed", rollFile, "if was == v1alpha1.WavePassed {", "if was == v1alpha1.WavePassed || r.in.Last == nil {", "wave"},
		{"what was stored of another rollout counts", "policy/identity.go", "case !in.describes(target, last.TargetRevision):\n\t\treturn anotherRollout", "case last.TargetRevision != \"-\":\n\t\treturn sameRollout", "wave"},
		{"the mark is never written", governFile, "if out.Commit >= 0 && out.Commit < len(h.Revisions) {", "if out.Commit >= len(h.Revisions) {", "liveness"},
		{"every revision is one of the set", "controller/daemonset/genuine.go", "if !p.governs() {", "if p.governs() {", "forged"},
		{"a mark of a stranger commits the target", committedFile, "} else if !known {\n\t\tfound = newest", "} else if !known || newest == r.template {\n\t\tfound = newest", "wave suspended"},
		{"a mark of a stranger commits the target when the status is lost", committedFile, "newest == r.template && r.elsewhere()", "newest == r.template && !r.elsewhere()", "wave suspended"},
		{"a mark of a stranger says which revision a node had", "clustercache/memory.go", "if h.Unconfirmed && elsewhere {", "if h.Unconfirmed && !elsewhere {", "wave"},
		{"a mark of a stranger is a failure", "policy/failure.go", "case asked != nil:", "case mark != nil:\n\t\tr.failure = mark\n\tcase asked != nil:", "forged"},
		{"there is no pass at the end of a soak", soakFile, "r.wakeAt(r.s.Now.Add(rest))\n", "_ = rest\n", "liveness"},
		{"there is no pass for the next update", decideFile, "r.wakeAt(r.s.Now.Add(rest))\n\t\t\t\tif r.releases()", "if r.releases()", "liveness"},
	}
}
