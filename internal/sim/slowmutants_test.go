// SPDX-License-Identifier: Apache-2.0

package sim

import "strings"

const (
	slowFile       = "apply/executor/slow.go"
	leaseFile      = "apply/executor/slowlease.go"
	slowCreateFile = "apply/executor/slowcreate.go"
)

// slowMutants are wrong about writes that no pass waits for. What no run of the simulation shows is tested in internal/apply/executor: the time of a write that waits, the lease of a manager
// that ends or has given it back, and a write whose pod has become ready.
func slowMutants() []mutant {
	return []mutant{
		{"slow writes are not announced", slowFile, "if err := e.Slow.Hold(ctx); err != nil {", "if err := error(nil); err != nil {", "budget surge one-pod in-place"},
		{"a new leader does not ask for slow writes", leaseFile, "if s.mayBeUnderWay(ctx) {", "if false {", "budget surge one-pod in-place"},
		{"the lease of slow writes is given back while one is under way", leaseFile, "if !idle() {", "if false {", "budget surge one-pod in-place"},
		{"a slow write does not ask for another controller", slowFile, "edited || !mayWrite() || void", "edited || !mayWrite() && false || void", "other"},
		{"nobody asks for the lease before a slow write", slowFile, "if e.Pace.Leads != nil && !e.Pace.Leads() {", "if false {", "lease"},
		{"a slow delete holds its pod no longer than a fast one", slowFile, "Pace.now().Add(SlowWriteTimeout + writeTimeout)", "Pace.now().Add(writeTimeout)", "budget surge one-pod needless known-pod"},
		{"a slow create does not hold its node", slowCreateFile, "w.Slow = true\n\t\t\te.Index.Begin(w)", "w.Slow = true", "one-pod known-pod surge"},
		{"a slow edit does not hold its pod", slowFile, "e.Index.Begin(inflight.Write{Verb: inflight.Edit, UID: uid, Until: until, Takes: takesAway(a, edit.Edit)})", "_ = uid", "in-place budget"},
		{"a slow delete that was refused is not taken back", slowFile, "case apply.Refused, apply.Busy:\n\t\t\t\te.Index.Resolve(w, inflight.NoEffect)", "case apply.Refused, apply.Busy:\n\t\t\t\te.Index.Resolve(w, inflight.TookEffect)", "liveness status"},
		{"nobody comes back after a slow write", slowFile, "e.Index.Notify(e.key) ", "_ = e.key ", "liveness status"},
		{"a gate that is closed is closed again", "dialect/kruise/edits.go", "readable && slices.Equal(has, held)", "readable && slices.Equal(has, held) && false", "liveness"},
		{"a slow create that was refused holds its node for ever", slowCreateFile, "\tcase apply.Refused, apply.Busy, apply.Ended:\n", "\tcase apply.Refused, apply.Busy, apply.Ended:\n\t\treturn false\n", "liveness"},
	}
}

// with is the kind of steps that every run has for a mutant, if any: what most runs do not have is found sooner.
func (m *mutant) with() string {
	if m.file == slowFile || m.file == slowCreateFile || m.file == leaseFile {
		return "slowness"
	}
	if with := m.withOf(); with != "" {
		return with
	}
	switch {
	case m.file == "dialect/kruise/edits.go":
		return "gates"
	case m.file == "dialect/kruise/facts.go", strings.Contains(m.text, "ReadyAfter"):
		return "inplace"
	}
	return actorOf(m.name)
}
