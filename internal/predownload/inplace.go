// SPDX-License-Identifier: Apache-2.0

package predownload

import (
	"slices"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// InPlace is how changes in place wait for images that the set has not asked to wait.
type InPlace struct {
	// Agents are the nodes on which an agent is ready. On others nothing pulls, so nothing waits.
	Agents map[string]int
	// Only is whether images are pulled ahead for nothing else: not for pods that are recreated, and not for a set that is paused.
	Only bool
	// Ordered is the newest time at which a node was asked to pull; Wait moves it forward. It is kept between decisions about one revision, because
	// nothing reports it any more once the node is updated. Losing it is harmless.
	Ordered rollout.Time
	// Held are the nodes that were held back when the set was last decided about (see Order); nil if that is not known. The wait of a node that is
	// released begins then, however old the job is. Like Ordered it is kept between decisions.
	Held map[string]bool
}

// holds is whether a node may have been held back until now.
func (p *InPlace) holds(node string) bool { return p.Only && (p.Held == nil || p.Held[node]) }

// MayWaitInPlace is whether changes in place of a set wait that has not asked for it, as far as the set shows. What it says itself comes first. The set of
// the agents never does: nothing that keeps an agent running may need an agent.
func MayWaitInPlace(w *dialect.Workload, set *rollout.Set) bool {
	switch {
	case w.Namespace == everynode.AgentNamespace, w.PullAhead.NoWait, w.PullAhead.MinUpdatedReady.Value > 0:
		return false
	default:
		return set.InPlace && set.Strategy == rollout.RollingUpdate && set.MaxSurge.Value <= 0 && !set.ExternalController
	}
}

// only is whether images are pulled ahead of changes in place alone.
func (in *Input) only() bool { return in.InPlace != nil && in.InPlace.Only }

// concerns is whether the old pod of a node is one that waits in place.
func (in *Input) concerns(node int, pod *rollout.Pod) bool {
	return in.InPlace.Agents[in.Snapshot.Nodes[node].Name] > 0 && in.changes(pod.Revision)
}

// Concerns is whether any node waits in place.
func (in *Input) Concerns() bool {
	for i := range in.Snapshot.Nodes {
		if pod := oldPod(in.Snapshot, i); pod != nil && in.concerns(i, pod) {
			return true
		}
	}
	return false
}

// changes is whether a pod of a revision may be changed in place, as far as the revision shows.
func (in *Input) changes(revision int) bool {
	all := in.Snapshot.Revisions
	return revision >= 0 && revision < min(len(all), len(in.Revisions)) && all[revision].InPlace
}

// NeedsImages is whether a pod would be changed in place to an image that its revision does not have.
func (in *Input) NeedsImages() bool {
	s := in.Snapshot
	if s.Set.Update < 0 || s.Set.Update >= len(in.Revisions) {
		return false
	}
	old := make([]bool, len(in.Revisions)) // by revision, because nodes are many and revisions few
	for i := range s.Nodes {
		if pod := oldPod(s, i); pod != nil && in.changes(pod.Revision) {
			old[pod.Revision] = true
		}
	}
	if !slices.Contains(old, true) {
		return false
	}
	has := in.images()
	for _, wanted := range in.wanted() {
		for i := range old {
			if old[i] && !slices.Contains(has[i], wanted.Image) {
				return true
			}
		}
	}
	return false
}

// NeedsSecrets is whether pods of the set name pull secrets, without which an agent may not be able to pull.
func NeedsSecrets(w *dialect.Workload) bool { return len(secrets(w.Template)) > 0 }

// lastOrder moves InPlace.Ordered forward to the newest order that any of the nodes shows.
func (in *Input) lastOrder(known func(node, image int) Pulled, images int) {
	for i := range in.Snapshot.Nodes {
		if oldPod(in.Snapshot, i) == nil {
			continue
		}
		for k := range images {
			in.InPlace.Ordered = max(in.InPlace.Ordered, known(i, k).Ordered)
		}
	}
}

// Release keeps which nodes are held back. If any was before and no longer is, the nodes that were not asked yet have the time of a pull from now on.
func (in *Input) Release(held map[string]bool) {
	if in.InPlace == nil {
		return
	}
	for i := range in.Snapshot.Nodes {
		pod, name := oldPod(in.Snapshot, i), in.Snapshot.Nodes[i].Name
		if pod != nil && in.concerns(i, pod) && in.InPlace.holds(name) && !held[name] {
			in.InPlace.Ordered = max(in.InPlace.Ordered, in.Snapshot.Now)
			break
		}
	}
	in.InPlace.Held = held
}

// bounded is what is known of an image on a node, with an end of the wait for it: nodes that were not asked yet take their turn as long as others are
// asked or released. If no node is for the time of a pull, no agent answers, and the update continues without the image, which the kubelet may
// be able to pull.
func (in *Input) bounded(node string, p Pulled, job *Job) Pulled {
	switch {
	case in.InPlace == nil || p.Ordered != 0 || p.Unlisted || job == nil:
	case in.InPlace.holds(node):
		p.Ordered = in.Snapshot.Now
	default:
		p.Ordered = max(job.Created, in.InPlace.Ordered)
	}
	return p
}
