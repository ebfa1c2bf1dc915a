// SPDX-License-Identifier: Apache-2.0

package rollout

func edgeMutants() []mutant {
	const images = "images come first"
	return []mutant{
		{"does not wait for images", []string{"node a must image-wait v1:ready"}, remove(0, Recreating), images},
		{"takes an unavailable pod for one that needs no images", []string{"node a must image-wait=1s v1:unready"}, remove(0, Recreating), images},
		{"surges without images", []string{"set max-surge=1", "node a must image-wait v1:ready"}, func(s Snapshot, p *Plan) {
			p.Actions = append(p.Actions, Action{Kind: Create, Revision: s.Set.Update, Reason: Surging})
			p.Verdicts[0].Kind = Surging
		}, images},
		{"marks without images", []string{"set in-place grace=5s", "in-place v1", "node a stay image-wait v1:ready,gate"},
			touch(Mark, 0, UpdatingInPlace), images},
		{"prepares without images", []string{"node a must image-wait v1:ready,armed"}, touch(Prepare, 0, Preparing), images},
		{"lets a node that waits for images stop the others", []string{"node a must image-wait v1:ready", "node b must v1:ready"},
			func(_ Snapshot, p *Plan) { p.Actions, p.Verdicts[1].Kind = nil, WaitBudget }, "the budget is used up"},
		{"waits for images for ever", []string{"node a must image-wait=1s v1:ready"}, func(_ Snapshot, p *Plan) { p.Wake = 0 }, "wakes in time"},
	}
}
