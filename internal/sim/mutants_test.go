// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	killing     = flag.Bool("mutants", false, "see whether the search kills every mutant; each is compiled for itself")
	mutantSeeds = flag.Int("mutant-seeds", 4000, "how many seeds a mutant has to survive")
)

// mutant is one way in which what ships could be wrong: a text of a file that is another one.
type mutant struct {
	name, file, old, text string
	// killedBy are the invariants one of which it breaks.
	killedBy string
}

const (
	executorFile   = "apply/executor/executor.go"
	claimsFile     = "apply/executor/claims.go"
	podsFile       = "fleet/pods.go"
	snapshotFile   = "fleet/snapshot.go"
	controllerFile = "controller/daemonset/controller.go"
)

func mutants() []mutant {
	return slices.Concat(coreMutants(), applyMutants(), fleetMutants(), controllerMutants())
}

func coreMutants() []mutant {
	return []mutant{
		{"the budget is one too large", "rollout/budget.go", "return t.Limit - t.used }", "return t.Limit - t.used + 1 }", "budget surge"},
		{"a pod is available as soon as it is ready", "rollout/census.go", "if !p.ready() || d.in.Set.MinReady <= 0 {", "if !p.ready() || d.in.Set.MinReady >= 0 {", "budget surge liveness status"},
		{
			"hooks are forgotten", "rollout/hooks.go", "if p.Hook == HookArmed {", "if p.Hook == HookReleased {", "hook",
		},
		{"a pause is none", "rollout/hold.go", "case d.in.Set.Paused:\n\t\treturn WaitPaused", "case d.in.Set.Paused:\n\t\treturn notHeld", "paused"},
		{"the selector is forgotten", "rollout/hold.go", "return WaitSelector", "return notHeld", "selector"},
		{"the partition keeps one node less", "rollout/hold.go", "d.letGoFromTheEnd(free)", "d.letGoFromTheEnd(free + 1)", "partition"},
		{"both of two pods are one too many", "rollout/excess.go", "return p != t.keep", "return true", "needless liveness"},
		{"a surge ends before the new pod is available", "rollout/surge.go", "return d.serving(c.current) || !c.old.ready()", "return true", "surge"},
		{"nobody waits for a pod to become available", "rollout/status.go", "d.wakeAt(p.ReadySince.Add(d.in.Set.MinReady))", "_ = p", "liveness status"},
		{"a misplaced pod is not counted", "rollout/status.go", "st.Misscheduled++", "st.Misscheduled += 0", "status"},
		{
			"a change in place leaves the pod available", "rollout/census.go", "return p.Ready && p.InPlace == InPlaceNone",
			"return p.Ready", "budget",
		},
		{"a terminating pod is none", "rollout/census.go", "c.terminating++\n\t\t\tcontinue", "c.seen--\n\t\t\tcontinue", "one-pod known-pod"},
	}
}

func applyMutants() []mutant {
	return []mutant{
		{
			"a delete is not recorded before it is sent", executorFile,
			"e.Index.Doom(types.UID(a.UID), rollout.Time(e.Clock.Now().UnixNano()))", "_ = i", "budget needless",
		},
		{"a delete without an answer was refused", executorFile, "r.e.Index.Unsettle(uid, r.e.Pace.now().Add(writeTimeout))\n", "r.e.Index.Spare(uid)\n", "budget"},
		{"a delete without an answer took effect", executorFile, "r.e.Index.Unsettle(uid, r.e.Pace.now().Add(writeTimeout))\n", "", "liveness"},
		{
			"a create without an answer was refused", executorFile,
			"r.e.Index.Pend(r.job.Key, fleet.PendingCreate{", "_ = append([]fleet.PendingCreate{}, fleet.PendingCreate{", "one-pod",
		},
		{"a create without an answer is given up at once", claimsFile, "if over {", "if true {", "one-pod"},
		{"the precondition is forgotten", executorFile, "answer, err := r.e.delete(ctx, a.Pod, uid)", "answer, err := r.e.delete(ctx, a.Pod, \"\")", "uid"},
		{"the answer to a create is not kept", executorFile, "r.fold(pod)\n\t\tr.finish(i)", "r.finish(i)", "known-pod"},
		{"late news brings a pod back", podsFile, "x.buried[uid] = p.rv", "_ = p.rv", "needless"},
	}
}

func fleetMutants() []mutant {
	return []mutant{
		{"a late event undoes what is known", podsFile, "case !newer(rec.RV, p.rv):", "case false:", "budget needless known-pod surge"},
		{"a list takes away what is newer", podsFile, "if !listed[uid] && !newer(p.rv, rv) {\n\t\t\tx.dropPod", "if !listed[uid] {\n\t\t\tx.dropPod", "known-pod one-pod"},
		{"nobody is told of a pod", podsFile, "x.attach(s, p)\n\t\t\tx.notify(s.key)", "x.attach(s, p)", "liveness status"},
		{"a doomed pod stays", snapshotFile, "pod.Deleting, pod.DeletedAt = p.deleting || p.doomed", "pod.Deleting, pod.DeletedAt = p.deleting", "budget needless"},
		{"a doubt is none", snapshotFile, "pod.Doubtful, pod.NoResize = p.doubt != 0", "pod.Doubtful, pod.NoResize = false", "budget"},
	}
}

func controllerMutants() []mutant {
	return []mutant{
		{"what failed to be settled is settled", controllerFile, "if err == nil && claimed {", "if claimed {", "budget one-pod"},
		{"nobody comes back for the status", "controller/daemonset/status.go", "return wait, nil", "return 0, nil", "status"},
		{"nobody comes back in time", controllerFile, "until(now, plan.Wake), ", "", "liveness status"},
	}
}

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
		t.Run(m.name, func(t *testing.T) { m.patched(t) })
	}
}

// TestMutants compiles each mutant and lets the search find it.
func TestMutants(t *testing.T) {
	if !*killing {
		t.Skip("make sim-mutants compiles and kills them; it takes some minutes")
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) { m.kill(t) })
	}
}

func (m *mutant) kill(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "mutant.go")
	original, err := filepath.Abs(filepath.Join("..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: text}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	for file, data := range map[string]string{text: m.patched(t), list: string(overlay)} {
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay", list, ".", "-run", "^TestSim$", "-quick",
		"-seeds", words("%d", *mutantSeeds)).CombinedOutput()
	found := regexp.MustCompile(`seed (\d+) breaks ([a-z-]+): (.*)`).FindStringSubmatch(string(out))
	switch {
	case err == nil:
		t.Errorf("survived %d seeds", *mutantSeeds)
	case found == nil:
		t.Errorf("it was not the search that stopped it\n%s", out)
	case !slices.Contains(strings.Fields(m.killedBy), found[2]):
		t.Errorf("seed %s breaks %s: %s; expected was %s", found[1], found[2], found[3], m.killedBy)
	default:
		t.Logf("seed %s breaks %s: %s", found[1], found[2], found[3])
	}
}
