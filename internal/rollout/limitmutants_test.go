// SPDX-License-Identifier: Apache-2.0

package rollout

// touch adds an action for the first pod of a node, and its verdict.
func touch(kind ActionKind, node int, reason VerdictKind) func(Snapshot, *Plan) {
	return func(s Snapshot, p *Plan) {
		pod := s.Nodes[node].Pods[0]
		a := Action{Kind: kind, Node: node, Pod: pod.Name, UID: pod.UID, Revision: pod.Revision, Reason: reason}
		if kind == Patch {
			a.Revision = s.Set.Update
		}
		p.Actions = append(p.Actions, a)
		p.Verdicts[node].Kind = reason
	}
}

// kind changes what action i does.
func kind(i int, k ActionKind) func(Snapshot, *Plan) {
	return func(_ Snapshot, p *Plan) { p.Actions[i].Kind = k }
}

func revise(i, revision int) func(Snapshot, *Plan) {
	return func(_ Snapshot, p *Plan) { p.Actions[i].Revision = revision }
}

func limitMutants() []mutant {
	const paused, selector, partition, keeps = "a paused set starts no update", "nodes that are not selected are not updated",
		"the partition is kept", "a node that is held keeps its revision"
	createNew := func(node int) func(Snapshot, *Plan) {
		return func(s Snapshot, p *Plan) {
			p.Actions = append(p.Actions, Action{Kind: Create, Node: node, Revision: s.Set.Update, Reason: Creating})
			p.Verdicts[node].Kind = Creating
		}
	}
	return []mutant{
		{"rolls while paused", []string{"set paused", "node a must v1:ready"}, remove(0, Recreating), paused},
		{"replaces a broken pod while paused", []string{"set paused", "node a must v1:unready"}, remove(0, Recreating), paused},
		{"marks while paused", []string{"set paused in-place close-gate", "in-place v1", "node a must v1:ready,gate"}, touch(Mark, 0, UpdatingInPlace), paused},
		{"forgets the selector", []string{"set selective", "node a must v1:ready"}, remove(0, Recreating), selector},
		{"takes the place of a missing pod for an update", []string{"set selective", "node a must last=v1"}, revise(0, 1), selector},
		{"prepares a node that is not selected", []string{"set selective", "node a must v1:ready,armed"}, touch(Prepare, 0, Preparing), selector},
		{"updates one more than the partition allows", []string{"set partition=1 max-unavailable=2", "node a must v1:ready", "node b must v1:ready"},
			remove(1, Recreating), partition},
		{"rounds the partition up to nothing", []string{"set partition=50%", "node a must v2:ready", "node b must v1:ready"}, remove(1, Recreating), partition},
		{"does not count what is being updated", []string{"set partition=1 max-unavailable=2", "node a must last=v2", "node b must v1:ready"},
			remove(1, Recreating), partition},
		{"takes a node that only may keep its pod", []string{"set partition=1", "node a must v2:ready", "node b stay v1:ready"},
			remove(1, Recreating), partition},
		{"updates a node that only may keep its pod", []string{"set eligible-only", "node a stay v1:ready"}, remove(0, Recreating), "a node that only may keep its pod is left alone"},
		{"creates one more than the partition allows", []string{"set partition=1 progressive", "node a must v2:ready", "node b must"}, createNew(1), partition},
		{"gives a held node the new revision", []string{"set paused", "node a must last=v1"}, revise(0, 1), keeps},
		{"gives a node that the partition keeps the new revision", []string{"set partition=1", "node a must last=v1"}, revise(0, 1), keeps},
		{"gives a node that nothing holds the old revision", []string{"node a must last=v1"}, revise(0, 0), keeps},
		{"goes upwards", []string{"set descending", "node a must v1:ready", "node b must v1:ready"}, func(s Snapshot, p *Plan) {
			p.Actions, p.Verdicts[1].Kind = nil, WaitBudget
			remove(0, Recreating)(s, p)
		}, "pods that are replaced first are those of the first nodes"},
	}
}

func hookMutants() []mutant {
	const hooks, steps = "hooks are asked first", "a change in place goes step by step"
	marked := []string{"set in-place grace=5s", "in-place v1", "node a must v1:unready,marked,grace=3s"}
	gated := []string{"set in-place close-gate", "in-place v1", "node a must v1:ready,gate"}
	open := []string{"set in-place", "in-place v1", "node a must v1:ready"}
	return []mutant{
		{"deletes an armed pod", []string{"node a must v1:ready,armed"}, kind(0, Delete), hooks},
		{"deletes an armed pod that has to leave", []string{"node a leave v1:ready,armed"}, kind(0, Delete), hooks},
		{"deletes an armed pod that is too many", []string{"node a must v2:ready v2:ready,armed"}, kind(0, Delete), hooks},
		{"does not wait for the hook", []string{"node a must v1:ready,waiting"}, remove(0, Recreating), hooks},
		{"prepares twice", []string{"node a must v1:ready,waiting"}, touch(Prepare, 0, Preparing), hooks},
		{"restores what may go", []string{"node a must refused=5s v1:ready,released"}, touch(Restore, 0, Restoring), hooks},
		{"restores what has to go", []string{"node a must v1:ready,waiting"}, touch(Restore, 0, Restoring), hooks},
		{"forgets a pod that is released", []string{"node a must v1:ready,released"}, dropAction(0), "what has to be done is done"},
		{"forgets a pod that is wanted again", []string{"node a must v2:ready,waiting"}, dropAction(0), "what has to be done is done"},
		{"counts on a pod that is about to go", []string{"node a must v1:ready,waiting", "node b must v1:ready"}, remove(1, Recreating), "the budget is kept"},
		{"counts on a pod whose change has not arrived", []string{"node a must v2:ready,patched", "node b must v1:ready"}, remove(1, Recreating), "the budget is kept"},
		{"patches without a mark", gated, dropAction(0), steps},
		{"patches before the mark", gated, func(_ Snapshot, p *Plan) { p.Actions[0], p.Actions[1] = p.Actions[1], p.Actions[0] }, steps},
		{"marks what needs no mark", open, kind(0, Mark), steps},
		{"forgets the patch of a pod that is not marked", open, dropAction(0), "verdicts fit the actions"},
		{"counts on a pod that was changed with its gate open", []string{"node a must v2:ready,open", "node b must v1:ready"}, remove(1, Recreating), "the budget is kept"},
		{"patches to another revision", gated, revise(1, 0), steps},
		{"resumes before the grace period is over", []string{"set in-place", "in-place v1", "node a must v2:unready,announced,grace=3s"},
			touch(Resume, 0, UpdatingInPlace), steps},
		{"patches what was announced", []string{"set in-place", "in-place v1", "node a must v1:unready,announced"}, touch(Patch, 0, UpdatingInPlace), steps},
		{"patches before the grace period is over", marked, touch(Patch, 0, UpdatingInPlace), steps},
		{"patches what has no gate", []string{"set in-place close-gate", "in-place v1", "node a must v1:ready"}, kind(0, Mark), steps},
		{"patches what cannot be patched", []string{"set in-place", "in-place v1=template", "node a must v1:ready,gate"}, kind(0, Mark), steps},
		{"makes a pod ready too early", []string{"node a must v2:ready,patched"}, touch(Unmark, 0, FinishingInPlace), steps},
		{"gives a restart up before its time", []string{"set in-place", "in-place v1", "node a must v2:ready,open,stuck=30s"}, remove(0, Recreating), steps},
		{"waits for a restart for ever", []string{"set in-place", "in-place v1", "node a must v2:ready,open,stuck=-1s"}, dropAction(0), "what has to be done is done"},
		{"forgets to make a pod ready", []string{"node a must v2:unready,arrived"}, dropAction(0), "what has to be done is done"},
	}
}
