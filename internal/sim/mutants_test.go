// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is one way in which what ships could be wrong: a text of a file that is another one.
type mutant struct {
	name, file, old, text string
	// killedBy are the invariants one of which it breaks; no other is asked, for most of them are seen in the status before they do any harm.
	killedBy string
}

const (
	executorFile   = "apply/executor/executor.go"
	deletesFile    = "apply/executor/deletes.go"
	senderFile     = "apply/executor/sender.go"
	claimsFile     = "apply/executor/claims.go"
	paceFile       = "apply/executor/pace.go"
	podsFile       = "clustercache/pods.go"
	snapshotFile   = "clustercache/snapshot.go"
	inflightFile   = "clustercache/inflight/pod.go"
	refusalFile    = "clustercache/inflight/refusal.go"
	controllerFile = "controller/daemonset/controller.go"
)

func mutants() []mutant {
	return slices.Concat(coreMutants(), applyMutants(), fleetMutants(), controllerMutants(), hostileMutants(), slowMutants(), strangerMutants(), policyMutants(), groupMutants(), undoMutants(), alongsideMutants(), reasonMutants())
}

func coreMutants() []mutant {
	return []mutant{
		{"the budget is one too large", "rollout/budget.go", "return t.Limit - t.used }", "return t.Limit - t.used + 1 }", "budget surge"},
		{"a pod is available as soon as it is ready", "rollout/podcounts.go", "if !p.ready() || d.in.Set.MinReady <= 0 {", "if !p.ready() || d.in.Set.MinReady >= 0 {", "budget surge liveness status"},
		{
			"hooks are forgotten", "rollout/hooks.go", "if p.Hook == HookArmed {", "if p.Hook == HookReleased {", "hook",
		},
		{"a pause is none", "rollout/hold.go", "case d.in.Set.Paused:\n\t\treturn WaitPaused", "case d.in.Set.Paused:\n\t\treturn notHeld", "paused"},
		{"the selector is forgotten", "rollout/hold.go", "return WaitSelector", "return notHeld", "selector"},
		{"a pause is none with a surge", "rollout/hold.go", "case d.in.Set.Paused:\n", "case d.in.Set.Paused && d.in.Set.MaxSurge.Value <= 0:\n", "paused"},
		{"a selector is none with a surge", "rollout/hold.go", "case d.in.Set.Selective && !n.Selected:", "case d.in.Set.Selective && !n.Selected && !d.surge:", "selector"},
		{
			"what is not available is not held back", "rollout/decide.go", "case t.hold != notHeld:",
			"case t.hold != notHeld && d.serving(t.old):", "paused selector partition",
		},
		{"the partition lets twice as many go", "rollout/hold.go", "desired-kept-done, false)", "2*(desired-kept-done), false)", "partition"},
		{"the new one of a pair is one too many", "rollout/cleanup.go", "return p != t.current && p != t.old", "return p != t.keep", "needless"},
		{"a pause never ends", "dialect/kruise/options.go", "o.Paused = r.Flag(rolling, \"paused\")", "o.Paused = rolling.Fields[\"paused\"] != nil", "liveness"},
		{"a partition keeps all", "rollout/hold.go", "desired-kept-done, false)", "min(0, desired-kept-done), false)", "liveness"},
		{"a selector chooses nobody", "rollout/hold.go", "case d.in.Set.Selective && !n.Selected:", "case d.in.Set.Selective:", "liveness"},
		{
			"what is held back is told as done", "dialect/kruise/conditions.go", "case rollout.CauseSpec, rollout.CauseLimit, rollout.CausePolicy:\n\t\treturn held",
			"case rollout.CauseSpec, rollout.CauseLimit, rollout.CausePolicy:\n\t\treturn done", "conditions",
		},
		{"a node that is down uses the whole budget", "rollout/budget.go", "t.UsedByUnreachable++", "t.UsedByUnreachable, t.used = t.UsedByUnreachable+1, t.used+1000", "liveness"},
		{"nodes that are down are charged", "rollout/budget.go", "charged = t.down == DetailDownAfterUpdate", "charged = true", "liveness"},
		{"the partition keeps one node less", "rollout/hold.go", "d.admitFromTheEnd(free)", "d.admitFromTheEnd(free + 1)", "partition"},
		{"both of two pods are one too many", "rollout/cleanup.go", "return p != t.keep", "return true", "needless liveness"},
		{"a surge ends before the new pod is available", "rollout/surge.go", "return d.serving(c.current) || !c.old.ready()", "return true", "surge"},
		{"nobody waits for a pod to become available", "rollout/status.go", "d.wakeAt(p.ReadySince.Add(d.in.Set.MinReady))", "_ = p", "liveness status"},
		{"a misplaced pod is not counted", "rollout/status.go", "st.Misscheduled++", "st.Misscheduled += 0", "status"},
		{
			"a change in place leaves the pod available", "rollout/podcounts.go", "return p.Ready && p.InPlace == InPlaceNone",
			"return p.Ready", "budget status",
		},
		{
			"a change in place leaves the gate open", "dialect/kruise/edits.go", "Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionFalse,",
			"Type: kruise.InPlaceUpdateReady, Status: corev1.ConditionTrue,", "in-place",
		},
		{
			"a change with the gate open has arrived when it is sent", "dialect/kruise/facts.go", "if state != nil && state.GateOpen && arrivalOf(p, state) != arrivalSeen {",
			"if false {", "budget status",
		},
		{
			"a container that restarted between two reports has been ready for long", "clustercache/snapshot.go", "pod.ReadySince = max(pod.ReadySince, f.ReadyAfter)",
			"_ = f.ReadyAfter", "budget status",
		},
		{
			"a patch without an answer takes nothing away", "apply/executor/edits.go", "return edit.Of != dialect.Resize", "return edit.Of == dialect.Status", "budget status",
		},
		{"a gate that is to be closed stays open", "dialect/kruise/edits.go", "case closed == nil && to.closeGate:", "case false:", "in-place"},
		{
			"a change in place has arrived when it is sent", "dialect/kruise/facts.go", "case arrivalOf(p, state) == arrivalSeen && !hasNext(state):",
			"case !hasNext(state):", "in-place",
		},
		{"a create without an answer costs nothing with a surge", "rollout/budget.go", "if t.node.Unanswered {", "if false {", "surge"},
		{"a pair whose old pod is held by its hook costs nothing", "rollout/budget.go", "d.surgeCompleted(c) && c.old.Hook == HookNone", "d.surgeCompleted(c)", "surge"},
		{"a second pod beside a doubtful one costs nothing", "rollout/rolling.go", "if d.surge && !p.preparing() {", "if false {", "surge"},
		{"pods are taken as they come", "rollout/podcounts.go", "if len(pods) < 2 {", "if len(pods) < 100 {", "order"},
		{
			"nodes are taken as they come out of a map", "rollout/decide.go", "for i := range s.Nodes {\n\t\tif !d.visitUntouched(i) {",
			"all := map[int]bool{}\n\tfor i := range s.Nodes {\n\t\tall[i] = true\n\t}\n\tfor i := range all {\n\t\tif !d.visitUntouched(i) {", "order",
		},
		{"what has just become ready costs nothing", "rollout/rolling.go", "return p.ready() && !d.available(p) && p", "return false && p", "budget"},
		{"a surge beside what has just become ready costs nothing", "rollout/rolling.go", "!d.available(p) && !d.minReadyPending(p)", "!d.available(p)", "surge"},
		{"a refused node has its turn before others", "rollout/refusal.go", "case n.Refusal.RetryAt > d.in.Now:\n\t\treturn barred", "case n.Refusal.RetryAt > 0:\n\t\treturn atOnce", "liveness"},
		{"a refused node has no turn any more", "rollout/refusal.go", "\tdefault:\n\t\treturn last", "\tdefault:\n\t\treturn barred", "liveness"},
		{"a terminating pod is none", "rollout/podcounts.go", "c.terminating++\n\t\t\tcontinue", "c.seen--\n\t\t\tcontinue", "one-pod known-pod"},
	}
}

func applyMutants() []mutant {
	return []mutant{
		{
			"a delete is not recorded before it is sent", executorFile,
			"\t\t\te.Index.Begin(w)\n", "\t\t\t_ = w\n", "budget needless",
		},
		{"a write without an answer was refused", senderFile, "w.Until, outcome = e.Pace.now().Add(writeTimeout), inflight.Unclear", "outcome = inflight.NoEffect", "budget status"},
		{"a write without an answer took effect", senderFile, "w.Until, outcome = e.Pace.now().Add(writeTimeout), inflight.Unclear", "outcome = inflight.TookEffect", "liveness"},
		{
			"a create without an answer was refused", executorFile,
			"e.observe(pod)\n\t}\n\te.resolve(w, answer)", "e.observe(pod)\n\t}\n\te.Index.Resolve(w, inflight.NoEffect)", "one-pod",
		},
		{"a create without an answer is given up at once", claimsFile, "case over:", "case over || pod == nil:", "one-pod"},
		{"that nobody has a name is forgotten", senderFile, "e.Index.RecordAbsent(e.key, node, name, rv)", "_ = rv", "needless"},
		{"the precondition is forgotten", deletesFile, "only := metav1.Preconditions{UID: &d.uid}", "only := metav1.Preconditions{}", "uid"},
		{"a delete that is free takes what has become ready", deletesFile, "if d.unready && !d.e.keepsDiffering(d.uid, inflight.Delete) {", "if false {", "overtaken"},
		{"the answer to a create is not kept", executorFile, "if answer == apply.Done {\n\t\te.observe(pod)", "if answer == apply.Done {\n\t\t_ = pod", "known-pod"},
		{"late news brings a pod back", podsFile, "x.confirmedDeleted[uid] = p.rv", "_ = p.rv", "needless"},
		{"a delete that was left is doomed", executorFile, "e.Index.Resolve(w, inflight.NoEffect)\n\t\tr.leaveForNextPass()", "r.leaveForNextPass()", "liveness status"},
		{"what is open depends on the clock", paceFile, "p.began.Add(p.clock.Since(p.began)).UnixNano()", "p.clock.Now().UnixNano()", "budget one-pod surge liveness"},
		{"nobody asks for the lease", paceFile, "case p.Leads != nil && !p.Leads():", "case false:", "lease"},
		{
			"an edit without an answer holds nothing back", "apply/executor/edits.go", "if e.Index.InDoubt(types.UID(first.UID)) {", "if false {",
			"in-place",
		},
		{"orphans are left alone", claimsFile, "for _, p := range claims.Adopt {", "for _, p := range claims.Adopt[:0] {", "liveness"},
		{"a delete that was turned away is sent again, come what may", paceFile, "case r.void != nil && r.void():", "case false:", "budget"},
	}
}

func fleetMutants() []mutant {
	return []mutant{
		{"a late event undoes what is known", podsFile, "case !newer(rec.RV, p.rv):", "case false:", "budget needless known-pod surge"},
		{"a list takes away what is newer", podsFile, "if !listed[uid] && !newer(p.rv, rv) {\n\t\t\tx.dropPod", "if !listed[uid] && p != nil {\n\t\t\tx.dropPod", "known-pod one-pod"},
		{"nobody is told of a pod", podsFile, "x.attach(s, p)\n\t\t\tx.notify(s.key)", "x.attach(s, p)", "liveness status"},
		{"a pod whose delete has begun stays", inflightFile, "\tif p.deleted {\n", "\tif false {\n", "budget needless"},
		{"a delete without an answer leaves room for a third pod", snapshotFile, "if p.unclearDelete() {", "if false {", "one-pod"},
		{"pods of another namespace are the set's own", "clustercache/podrecord.go", "return originID{namespace: rec.Namespace, advanced", "return originID{namespace: \"ns\", advanced", "foreign status liveness"},
		{"a refusal is forgotten at once", refusalFile, "s.refused[node] = &refusal{", "_ = &refusal{", "liveness"},
		{"a refusal never ends", refusalFile, "retryAt = r.At.Add(min(", "retryAt = r.At.Add(max(time.Hour, ", "liveness"},
		{"a doubt is none", inflightFile, "pod.Doubtful, pod.NoResize = p.editBy != 0", "pod.Doubtful, pod.NoResize = false", "budget"},
	}
}

func controllerMutants() []mutant {
	return []mutant{
		{"nobody comes back for the status", "controller/daemonset/status.go", "return wait, nil", "return 0, nil", "status"},
		{
			"revisions left behind are nobody's", "controller/daemonset/history.go", "all := slices.Concat(owned, orphans)",
			"all := slices.Concat(owned, orphans[:0])", "status",
		},
		{"pods of a lost revision are old", "controller/daemonset/history.go", "if _, taken := view.Index[hash]; !taken && hash != \"\" {", "if hash == \"-\" {", "status"},
		{"nobody comes back in time", controllerFile, "until(now, p.wake(&plan, now, err)), ", "", "liveness status"},
		{"creates do not ask for another controller", executorFile, "if !r.job.MayWrite() {\n\t\treturn createFailed\n\t}", "if false {\n\t\treturn createFailed\n\t}", "other"},
		{"edits do not ask for another controller", "apply/executor/edits.go", "if !r.job.MayWrite() {", "if false {", "other"},
		{
			"OpenYurt's own manager is overlooked", "controller/daemonset/external.go", "return p.d.MayAnnotate != nil && !p.d.MayAnnotate()",
			"return p.d == nil", "other",
		},
		{"another controller is overlooked", controllerFile, "case d == nil || !d.MayWrite():", "case d == nil:", "other"},
		{"tolerations of the template are overlooked", "placement/compile.go", "withAutomatic(typed.Tolerations, own, typed.HostNetwork)", "withAutomatic(nil, own, typed.HostNetwork)", "liveness status"},
		{"nobody comes back to a namespace that ends", controllerFile, "if p.result.Ended {", "if false {", "liveness"},
	}
}

// hostileMutants are wrong about what others in the cluster do.
func hostileMutants() []mutant {
	return []mutant{
		{"a set that is being deleted is worked on", controllerFile, "case w.Deleting:", "case false:", "deleting"},
		{"a status names a generation on any version of the set", "dialect/base/status.go", "if named && w.ResourceVersion != \"\" {", "if false {", "verdicts status"},
		{"a generation that the set has not come to stays observed", "dialect/base/status.go", "min(w.ObservedGeneration, w.Generation)", "w.ObservedGeneration", "status"},
		{"the generation of a template is believed before a known hash", snapshotFile, "_, known := l.history.Index[p.labels.hash]; known {", "false {", "status"},
		{"a pod whose label was taken away stays", podsFile, "w.Selector != nil && !p.deleting && !w.Selector", "w.Selector != nil && p.deleting && !w.Selector", "liveness"},
		{"a pod that has ended holds its node until its finalizer is gone", "rollout/podcounts.go", "return p.Deleting && p.Phase.Terminal()", "return false", "status liveness"},
		{"a pod that is being deleted is adopted", podsFile, "!p.deleting && !w.SelectsAll", "!w.SelectsAll", "deleting"},
		{"a revision that is being deleted is adopted", "clustercache/revisions.go", "!r.Deleting && !w.SelectsAll", "!w.SelectsAll", "deleting"},
		{"nobody comes back to a node that was refused", "rollout/refusal.go", "if v.Kind == Blocked && n.Refusal.RetryAt > d.in.Now {", "if false {", "liveness"},
		{"whether a refused write took effect is not clear", "apply/apply.go", "if code >= 400 && code < 500 &&", "if code > 500 &&", "liveness status"},
		{"a delete that was refused is tried again at once", executorFile, "r.refuse(i, answer, &Refusal{what: \"deleting pod \" + a.Pod, err: err})", "r.fail(&Refusal{what: \"deleting pod \" + a.Pod, err: err})", "liveness"},
		{"an edit that was refused is tried again at once", "apply/executor/edits.go", "default:\n\t\tr.refuse(i, answer, refusal)", "default:\n\t\tr.fail(refusal)", "liveness"},
		{"a create that was refused is tried again at once", executorFile, "r.refuse(i, answer, &Refusal{what: \"creating a pod\", pod: params.PodName, err: err})\n\t\treturn createRefused", "r.fail(&Refusal{what: \"creating a pod\", pod: params.PodName, err: err})\n\t\treturn createRefused", "liveness"},
		{"an answer that is not clear is not remembered", "apply/executor/refusal.go", "r.blocked(action, refusal.Reason(), r.e.remember(uid, refusal))", "if answer != apply.Unclear {\n\t\tr.blocked(action, refusal.Reason(), r.e.remember(uid, refusal))\n\t}", "liveness"},
		{"the answer of admission is not known", "apply/apply.go", "return strings.HasPrefix(s.Message, \"admission webhook \") || internal", "return false && internal", "liveness status"},
	}
}

// rules are the invariants that are asked, with commas.
func (m *mutant) rules() string { return strings.ReplaceAll(m.killedBy, " ", ",") }

// patched is the file of a mutant with its text.
func (m *mutant) patched(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), m.old); n != 1 {
		t.Fatalf("%q is %d times in %s, want once", m.old, n, m.file)
	}
	return strings.Replace(string(data), m.old, m.text, 1)
}

// TestMutantsFit: the text that each mutant changes is there, so that the table stays true when the code moves.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			m.patched(t)
			if err := checkRules(m.rules()); err != nil {
				t.Error(err)
			}
		})
	}
}
