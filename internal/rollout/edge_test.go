// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
)

// The invariants that are about images and nodes that are far away.

// imagesComeFirst: where a new pod will follow the old one, its images are there before, or the wait for them is over.
func imagesComeFirst(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		waits := f.ImageWait && !(f.ImageUntil != 0 && f.ImageUntil <= d.s.Now)
		if waits && d.s.Set.ImagesInPlace {
			waits = len(f.old) > 0 && d.inPlace() && d.whyNot(f, f.old[0]) == NoDetail
		}
		for _, a := range p.Actions {
			leaves := f.Fit == MayStay && a.Kind != Mark // and no other pod comes
			if a.Node == f.index && waits && !leaves && d.begins(f, a) {
				return fmt.Errorf("%s is updated, and its images are not there", f.Name)
			}
		}
	}
	return nil
}

// begins is whether an action begins to replace the only pod that a node has, which is an old one, runs and is not being changed.
func (d *dumb) begins(f facts, a Action) bool {
	alone := len(f.live) == 1 && len(f.old) == 1 && len(f.leaving) == 0 && f.back == "" && f.old[0].InPlace == InPlaceNone
	return d.mayRun(f) && alone && a.Kind != Patch
}

// away is whether a node is not ready and the update leaves such nodes out.
func (d *dumb) away(f facts) bool {
	return d.s.Set.Unreachable.Skip && d.s.Set.Strategy == RollingUpdate && !f.Ready
}

func awayNodesWait(d *dumb, p Plan) error {
	for _, a := range p.Actions {
		if f := d.nodes[a.Node]; d.away(f) && d.begins(f, a) {
			return fmt.Errorf("%s is not ready and is updated", f.Name)
		}
	}
	return nil
}

// blameIsKept: a node that went down at about the time when the update touched it is charged, and so is one between delete and create;
// one that has nothing but an old pod, and has been left in peace, is not.
func blameIsKept(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		if !d.away(f) || !d.counted(f) {
			continue
		}
		blamed, free := len(f.pods) == 0, len(f.pods) > 0
		for _, pod := range f.pods {
			current := pod.Revision == d.s.Set.Update
			near := func(t Time) bool { return max(f.Since-t, t-f.Since) <= Time(d.s.Set.Unreachable.AttributionWindow) }
			blamed = blamed || pod.Deleting && near(pod.DeletedAt) && !d.ofEarlierUpdate(pod) || current && near(pod.Created) && !d.neverUp(f, pod)
			free = free && !current && !pod.Deleting && !preparing(pod) && pod.InPlace == InPlaceNone && !pod.Doubtful && d.harmless(pod.Revision)
		}
		switch charged := p.Verdicts[f.index].Charged; {
		case blamed && !charged:
			return fmt.Errorf("%s went down with the update and is not charged", f.Name)
		case free && charged:
			return fmt.Errorf("%s is charged, and the update never touched it", f.Name)
		}
	}
	return nil
}

// externalSetsOnlyDelete: what an external set deletes is an old pod that runs where it may, alone and undisturbed.
func externalSetsOnlyDelete(d *dumb, p Plan) error {
	for _, a := range p.Actions {
		f := d.nodes[a.Node]
		if d.s.Set.ExternalController && (a.Kind != Delete || a.Reason != Recreating || !d.begins(f, a) || f.old[0].Hook != HookNone) {
			return fmt.Errorf("%s of %q on %s is the business of somebody else", a.Kind, a.Pod, f.Name)
		}
	}
	return nil
}

// right is what a pod should say. On a node that a policy holds back it says that its own revision is the newest, unless it has said more already and the revision is not bad.
func (d *dumb) right(f facts, p Pod) Announced {
	old := p.Revision != d.s.Set.Update
	announced := p.Announced.Old && int(p.Announced.Revision) == d.s.Set.Update && f.hold != WaitRejected && f.hold != WaitFailed
	switch {
	case !d.s.Set.Announce:
		return Announced{}
	case !old || announced || f.hold == 0 || f.hold != d.gate(f):
		return Announced{Said: true, Old: old, Revision: int32(d.s.Set.Update)}
	case p.Revision >= 0 && p.Revision < len(d.s.Revisions):
		return Announced{Said: true, Revision: int32(p.Revision)}
	default:
		return Announced{}
	}
}

func announcementsAreTrue(d *dumb, p Plan) error {
	said := map[string]bool{}
	for _, a := range p.Announcements {
		pod := d.pod(Action{Node: a.Node, Pod: a.Pod, UID: a.UID})
		switch {
		case pod == nil || pod.Deleting || !d.mayRun(d.nodes[a.Node]):
			return fmt.Errorf("%q is to say something, and is going or not there", a.Pod)
		case a.Withdraw == d.right(d.nodes[a.Node], *pod).Said || a.Withdraw && (a.Old || !pod.Announced.Said):
			return fmt.Errorf("%s takes back what it said", a.Pod)
		case a.Old != d.right(d.nodes[a.Node], *pod).Old:
			return fmt.Errorf("%s says that there is a newer revision: %v", a.Pod, a.Old)
		case d.barred(d.nodes[a.Node]):
			return fmt.Errorf("%s says something, and a write for its node was refused a short time ago", a.Pod)
		case said[a.UID] || pod.Announced == d.right(d.nodes[a.Node], *pod):
			return fmt.Errorf("%s says it again", a.Pod)
		case slices.ContainsFunc(p.Actions, func(b Action) bool { return b.UID == a.UID }):
			return fmt.Errorf("%s says something while something is done to it", a.Pod)
		}
		said[a.UID] = true
	}
	return nil
}

// everyPodSays: now, or at once in the next plan, or when what is being done on its node has been done, or when the time has come to try a node again.
func everyPodSays(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		for _, pod := range f.pods {
			silent := !d.right(f, pod).Said && !pod.Announced.Said
			if silent || pod.Announced == d.right(f, pod) || pod.Deleting || !d.mayRun(f) || p.Verdicts[f.index].Kind.Acts() || p.Wake == d.s.Now {
				continue
			}
			if d.barred(f) && p.Wake != 0 && p.Wake <= f.Refusal.RetryAt {
				continue
			}
			if !slices.ContainsFunc(p.Announcements, func(a Announcement) bool { return a.UID == pod.UID }) {
				return fmt.Errorf("%s says nothing, or what is wrong", pod.Name)
			}
		}
	}
	return nil
}
