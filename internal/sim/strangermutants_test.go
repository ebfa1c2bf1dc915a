// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
)

const (
	namesFile   = "apply/executor/names.go"
	historyFile = "controller/daemonset/history.go"
	outcomeFile = "rollout/outcome.go"
)

// actorMutants are wrong about what an actor does, by the kind of steps that every run has for them: what most runs do not have is found sooner.
func actorMutants() map[string][]mutant {
	return map[string][]mutant{
		"strangers": {
			{
				"a pod that names the UID of the set is no stranger", namesFile, "return !ok || owner != w.UID || advanced != w.Advanced",
				"return ok && (owner != w.UID || advanced != w.Advanced)", "liveness",
			},
			{"a pod of the set in the way keeps its node from the next one", namesFile, "slices.Contains(n.counted, string(holder.UID))", "slices.Contains(n.counted, \"\")", "liveness"},
			{
				"a stranger that a read shows is not taken in", executorFile, "rec, _ := e.observe(pod)", "rec, _ := e.Index.PodFrom(pod)", "deleting",
			},
			{"a pod of another kind is the set's own", "clustercache/records.go", `if ref.Kind != "DaemonSet" ||`, `if ref.Kind == "" ||`, "status liveness needless"},
			{"a pod of another group is the set's own", "clustercache/podrecord.go", "&& o.advanced == s.workload.Advanced", "", "status liveness needless"},
		},
		"codes": {
			{
				"a revision is gone if the answer to a write reports that", historyFile,
				"if err == nil && found.UID == r.UID {", "if err == nil && found == nil {", "liveness status",
			},
		},
		"guards": {
			{
				"updates begin with the nodes that were refused", "rollout/rolling.go", "\t\td.startRound(atOnce)\n\t}\n\td.paceCreates(d.queue.again)\n\tif waiting && d.refusals {\n\t\td.startRound(last)\n\t}",
				"\t\td.startRound(last)\n\t\td.startRound(atOnce)\n\t}", "late",
			},
			{
				"a node that was refused has its turn at once", "rollout/refusal.go",
				"case n.Refusal.RetryAt > d.in.Now:\n\t\treturn barred\n\tdefault:\n\t\treturn last", "default:\n\t\treturn atOnce", "late",
			},
			{"what was refused is no obstacle", outcomeFile, `if why := outcomes[i].Obstacle; why != "" {`, `if why := outcomes[i].Obstacle; why == "-" {`, "verdicts"},
			{"an obstacle has no words", outcomeFile, "return n.Obstacle()\n", "return n.Name[:0]\n", "verdicts"},
			{
				"what is not available is up to date", "rollout/decide.go", "!d.serving(t.current):\n\t\treturn WaitAvailable",
				"!d.serving(t.current):\n\t\treturn UpToDate", "verdicts",
			},
			{"an old pod is up to date", "rollout/decide.go", "\tdefault:\n\t\treturn WaitBudget", "\tdefault:\n\t\treturn UpToDate", "verdicts"},
		},
	}
}

func strangerMutants() []mutant {
	var list []mutant
	of := actorMutants()
	maps.Copy(of, imageMutants())
	for _, actor := range sorted(of) {
		list = append(list, of[actor]...)
	}
	return list
}

// actorOf is the kind of steps that every run has for a mutant, if any.
func actorOf(name string) string {
	of := actorMutants()
	maps.Copy(of, imageMutants())
	for _, actor := range slices.Sorted(maps.Keys(of)) {
		if slices.ContainsFunc(of[actor], func(m mutant) bool { return m.name == name }) {
			return actor
		}
	}
	return ""
}
