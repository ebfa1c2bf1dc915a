// SPDX-License-Identifier: Apache-2.0

package rollout

import "slices"

func edgeMutants() []mutant {
	const images, away, blame = "images come first", "a node that is left out waits", "the update answers for the nodes that it takes down"
	const external = "an external set only deletes old pods"
	const truth, all = "announcements are true", "every pod says what it should"
	suspects := []string{
		"revisions v1=-1h v2=-8s v3=-5s", "set skip blame=10s", "node a must down=-6s v2:unready,created=-7s", "node b must v1:ready",
	}
	says := []string{"set announce on-delete", "node a must v1:ready"}
	say := func(do func(a *Announcement)) func(Snapshot, *Plan) {
		return func(_ Snapshot, p *Plan) { do(&p.Announcements[0]) }
	}
	again := func(old bool) func(Snapshot, *Plan) {
		return func(s Snapshot, p *Plan) {
			pod := s.Nodes[0].Pods[0]
			p.Announcements = append(p.Announcements, Announcement{Pod: pod.Name, UID: pod.UID, Old: old, Revision: s.Set.Update})
		}
	}
	create := add(Action{Kind: Create, Revision: 1, Reason: Creating})
	free := func(_ Snapshot, p *Plan) { p.Verdicts[0].Charged = false }
	return []mutant{
		{"does not wait for images", []string{"node a must image-wait v1:ready"}, remove(0, Recreating), images},
		{"takes an unavailable pod for one that needs no images", []string{"node a must image-wait=1s v1:unready"}, remove(0, Recreating), images},
		{"surges without images", []string{"set max-surge=1", "node a must image-wait v1:ready"}, func(s Snapshot, p *Plan) {
			p.Actions = append(p.Actions, Action{Kind: Create, Revision: s.Set.Update, Reason: Surging})
			p.Verdicts[0].Kind = Surging
		}, images},
		{"marks without images", []string{"set in-place grace=5s", "in-place v1", "node a stay image-wait v1:ready,gate"},
			touch(Mark, 0, UpdatingInPlace), images},
		{"changes in place without images", []string{"set in-place images-in-place close-gate", "in-place v1", "node a must image-wait v1:ready,gate"},
			touch(Mark, 0, UpdatingInPlace), images},
		{"prepares without images", []string{"node a must image-wait v1:ready,armed"}, touch(Prepare, 0, Preparing), images},
		{"lets a node that waits for images stop the others", []string{"node a must image-wait v1:ready", "node b must v1:ready"},
			func(_ Snapshot, p *Plan) { p.Actions, p.Verdicts[1].Kind = nil, WaitBudget }, "the budget is used up"},
		{"says that an old pod is new", says, say(func(a *Announcement) { a.Old = false }), truth},
		{"says that a new pod is old", []string{"set announce", "node a must v2:ready"}, say(func(a *Announcement) { a.Old = true }), truth},
		{"withdraws what was never said", says, say(func(a *Announcement) { a.Withdraw, a.Old = true, false }), truth},
		{"announces without being asked to", []string{"set on-delete", "node a must v1:ready,says=old/v2"},
			say(func(a *Announcement) { a.Withdraw, a.Old = false, true }), truth},
		{"says it for another pod", says, say(func(a *Announcement) { a.UID = "other" }), truth},
		{"says it over and over", []string{"set announce on-delete", "node a must v1:ready,says=old/v2"}, again(true), truth},
		{"says it of a pod that is going", []string{"set announce on-delete", "node a must v1:ready,deleting"}, again(true), truth},
		{"says it of a pod that it deletes", []string{"set announce", "node a must v1:ready"}, again(true), truth},
		{"forgets that the revision is another one", []string{"set announce on-delete", "node a must v1:ready,says=old/v1"},
			func(_ Snapshot, p *Plan) { p.Announcements = nil }, all},
		{"forgets a pod that was updated", []string{"set announce on-delete", "node a must v2:ready,says=old/v2"},
			func(_ Snapshot, p *Plan) { p.Announcements = nil }, all},
		{"forgets to withdraw", []string{"set on-delete", "node a must v1:ready,says=old/v2"}, func(_ Snapshot, p *Plan) { p.Announcements = nil }, all},
		{"forgets to go on announcing", []string{"set announce on-delete burst=1", "node a must v1:ready", "node b must v1:ready"},
			func(_ Snapshot, p *Plan) { p.Wake = 0 }, all},
		{"announces beyond the burst", []string{"set announce on-delete burst=1", "node a must v1:ready,says=old/v2", "node b must v1:ready"},
			again(true), "at most burst actions"},
		{"creates as an external set", []string{"set external", "node a must"}, create, external},
		{"replaces a failed pod as an external set", []string{"set external", "node a must v1:failed"}, remove(0, ReplacingFailed), external},
		{"empties a node as an external set", []string{"set external", "node a leave v1:ready"}, remove(0, Removing), external},
		{"collects as an external set", []string{"set external", "node a gone v1:pending,unscheduled"}, remove(0, Removing), external},
		{"removes the excess as an external set", []string{"set external", "node a must v2:ready v1:ready"}, remove(0, RemovingExcess), external},
		{"prepares as an external set", []string{"set external", "node a must v1:ready,armed"}, touch(Prepare, 0, Preparing), external},
		{"deletes over a hook as an external set", []string{"set external", "node a must v1:ready,armed"}, remove(0, Recreating), external},
		{"changes in place as an external set", []string{"set external in-place grace=1s", "in-place v1", "node a must v1:ready,gate"}, kind(0, Mark), external},
		{"surges as an external set", []string{"set external max-surge=1", "node a must v1:ready"}, kind(0, Create), external},
		{"counts on what the other controller will create", []string{"set external", "node a must", "node b must v1:ready"}, remove(1, Recreating), "the budget is kept"},
		{"counts on the other controller to remove one of two pods", []string{"set external", "node a must v2:ready v1:ready", "node b must v1:ready"},
			remove(1, Recreating), "the budget is kept"},
		{"updates a node that is left out", []string{"set skip", "node a must down=-5s v1:ready"}, remove(0, Recreating), away},
		{"replaces a broken pod on a node that is left out", []string{"set skip", "node a must down=-5s v1:unready"}, remove(0, Recreating), away},
		{"forgets that it deleted the old pod", []string{"set skip blame=10s", "node a must down=-5s v1:ready,deleted=-7s"}, free, blame},
		{"forgets that it created the new pod", []string{"set skip blame=10s", "node a must down=-5s v2:unready,created=-7s"}, free, blame},
		{"trusts the clock of a node", []string{"set skip blame=10s", "node a must down=-9s v2:unready,created=-7s"}, free, blame},
		{"takes the same second for the one before", []string{"set skip", "node a must down=-5s v2:unready,created=-5s"}, free, blame},
		{"forgets a node between delete and create", []string{"set skip", "node a must down=-5s blocked"}, free, blame},
		{"charges what it never touched", []string{"set skip blame=10s", "node a must down=-5s v1:unready"},
			func(_ Snapshot, p *Plan) { p.Verdicts[0].Charged = true }, blame},
		{"lets a node that is left out stop the others", []string{"set skip", "node a must down=-5s v1:unready", "node b must v1:ready"},
			func(_ Snapshot, p *Plan) { p.Actions, p.Verdicts[1].Kind = nil, WaitBudget }, "the budget is used up"},
		{"gives each version a budget of its own", append(slices.Clone(suspects), "node c must v1:ready"), remove(2, Recreating), "the budget is kept"},
		{"forgets what earlier versions may have done", suspects, free, "charges add up"},
		{"never tries a version", suspects, func(_ Snapshot, p *Plan) { p.Actions, p.Verdicts[1] = nil, Verdict{Kind: WaitBudget} }, "the budget is used up"},
		{"tries a version a second time", append(slices.Clone(suspects), "node c must v3:ready"), remove(1, Recreating), "the budget is kept"},
		{"charges a node that was never ready", []string{"set skip blame=10s", "node a must down=-60s joined=-60s v2:unready,created=-59s"},
			func(_ Snapshot, p *Plan) { p.Verdicts[0].Charged = true }, "charges add up"},
		{"forgets when a version will be trusted", append(slices.Clone(suspects), "node c must v3:ready,created=-2s,since=-1s"),
			func(_ Snapshot, p *Plan) { p.Wake = 0 }, "wakes in time"},
		{"waits for images for ever", []string{"node a must image-wait=1s v1:ready"}, func(_ Snapshot, p *Plan) { p.Wake = 0 }, "wakes in time"},
	}
}
