// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"

	"everynode.dev/everynode/internal/rollout"
)

// What happens next is said in words, whatever the nodes wait for, and when, if that is known.
func TestWhatHappensNext(t *testing.T) {
	minute := 60
	const undo = "a user must correct the cause or return to the previous revision, with kubectl everynode undo ads/agent"
	for want, o := range map[string]outlook{
		"nothing: the rollout is finished":                                       {state: Finished, verdicts: of(rollout.UpToDate, rollout.NotWanted)},
		"2 nodes are changed now; about 1m00s left":                              {state: Rolling, verdicts: of(rollout.Recreating, rollout.Creating, rollout.WaitBudget), left: &minute},
		"the next of 2 nodes follows when one of the 1 in progress is available": {state: Rolling, verdicts: of(rollout.WaitBudget, rollout.WaitAvailable, rollout.WaitBudget)},
		"1 node becomes available":                                               {state: Rolling, verdicts: of(rollout.UpToDate, rollout.WaitAvailable)},
		"nothing by itself, for 1 node: the partition keeps it as it is, until a user removes the partition, with kubectl everynode partition ads/agent 0": {state: Finished, verdicts: of(rollout.WaitPartition, rollout.UpToDate), left: &minute},
		"the next of 1 node follows when no other daemon set of the concurrency group is updated there":                                                    {state: Rolling, verdicts: of(rollout.WaitGroup, rollout.WaitWave, rollout.WaitWave), released: true},
		"nothing before a user corrects the set":                                             {state: Failed, verdicts: of(rollout.UpToDate)},
		"the next of 2 nodes follows when the rollout policy releases it":                    {state: Rolling, verdicts: of(rollout.WaitWave, rollout.WaitWave), released: true},
		"1 node continues without a user: " + rollout.WaitBackoff.Sentence():                 {state: Rolling, verdicts: of(rollout.WaitBackoff)},
		"nothing by itself, for 1 node: the strategy OnDelete leaves it to you to delete it": {state: Rolling, verdicts: of(rollout.WaitOnDelete)},
		"the next of 1 node follows when fewer nodes are without an available pod; 1 node that is not ready continues when it is ready again": {
			state: Rolling, verdicts: of(rollout.WaitBudget, rollout.WaitUnreachable),
		},
		"1 node becomes available; then nothing by itself, for 2 nodes: the update is paused, until a user resumes it, with kubectl everynode resume ads/agent": {
			state: Rolling, paused: true, verdicts: of(rollout.WaitPaused, rollout.WaitAvailable, rollout.WaitPaused),
		},
		"nothing by itself, for 2 nodes: the update is paused, until a user resumes it, with kubectl everynode resume ads/agent; 2 nodes that are not ready continue when they are ready again": {
			state: Rolling, paused: true, verdicts: of(rollout.WaitPaused, rollout.WaitTerminating, rollout.WaitPaused, rollout.WaitAvailable), nodes: []rollout.Node{{Ready: true}, {}, {Ready: true}, {}},
		},
		"nothing: the rollout is finished; 1 node that is not ready continues when it is ready again": {
			state: Finished, verdicts: of(rollout.UpToDate, rollout.WaitTerminating), nodes: []rollout.Node{{Ready: true}, {}},
		},
		"the next of 1 node follows when fewer nodes are without an available pod; 2 nodes do not start (ImagePullBackOff): " + undo: {
			state: Rolling, verdicts: of(rollout.WaitAvailable, rollout.WaitBudget, rollout.WaitAvailable), nodes: []rollout.Node{pulling(), {Ready: true}, pulling()}, undo: true,
		},
		"1 node does not start (ImagePullBackOff): a user must correct the cause, unless the rollout policy decides first that the revision has failed": {
			state: Rolling, verdicts: of(rollout.WaitAvailable), nodes: []rollout.Node{pulling()}, released: true, judged: true,
		},
		"the next of 1 node follows when fewer nodes are without an available pod; 1 node continues when the owner of the preDelete hook releases the pods, or a user does, with kubectl everynode release --all ads/agent": {
			state: Rolling, verdicts: of(rollout.WaitHook, rollout.WaitBudget),
		},
	} {
		for o.set = "ads/agent"; len(o.nodes) < len(o.verdicts); {
			o.nodes = append(o.nodes, rollout.Node{Ready: true})
		}
		if got := o.next(); got != want {
			t.Errorf("%v: %q, want %q", o.verdicts, got, want)
		}
	}
}

// pulling is a node that cannot pull the image of its new pod.
func pulling() rollout.Node {
	return rollout.Node{Ready: true, Pods: []rollout.Pod{{Trouble: "container agent: not found", Waiting: rollout.WaitingFor("ErrImagePull")}}}
}

func of(kinds ...rollout.VerdictKind) (all []rollout.Verdict) {
	for _, kind := range kinds {
		all = append(all, rollout.Verdict{Kind: kind})
	}
	return all
}
