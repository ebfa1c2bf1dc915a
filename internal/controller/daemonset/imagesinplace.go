// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// ImagesInPlace is how changes in place wait for images that their set has not asked to wait. The kubelet stops a container before it pulls the
// new image, so without the wait a slow pull is an outage, and an image that is missing is a long one.
type ImagesInPlace struct {
	// MayCopySecrets is whether the pull secrets of a namespace may be copied to where agents read them.
	MayCopySecrets func(namespace string) bool
	// JobReleased asks the controller of ImagePullJobs to look at a job, because its set releases or holds other nodes than before; nil if there is none.
	JobReleased func(job types.NamespacedName)
}

// unreadLimit is for how long changes in place wait for the first list of NodeImages and jobs.
const unreadLimit = time.Minute

// pullState is what is kept between passes about pulling ahead. Losing it is harmless.
type pullState struct {
	// refused is whether the last job could not be created. Then nothing pulls, and changes in place do not wait.
	refused bool
	// unread is when changes in place were to wait first and it was not known yet which images there are; zero if that is known.
	unread time.Time
	// last is when a node was last asked to pull for the revision of that hash.
	hash string
	last rollout.Time
	// held are the nodes that were held back then; nil if that is not known.
	held map[string]bool
}

// ordered keeps when a node was last asked to pull, and which nodes were held back.
func (s *pullState) ordered(in *predownload.Input) {
	if in.InPlace != nil {
		s.hash, s.last, s.held = in.Revisions[in.Snapshot.Set.Update].Hash, in.InPlace.Ordered, in.InPlace.Held
	}
}

// mayWaitInPlace is whether changes in place of the set wait, as far as the set itself shows. A set whose pull secrets no agent can read does not wait.
func (p *pass) mayWaitInPlace(s *rollout.Snapshot) bool {
	how := p.c.ImagesInPlace
	if how == nil || p.c.PullJobs == nil || p.d.InPlace == nil || p.w.PullAhead.Wait && p.d.Predownload || !predownload.MayWaitInPlace(p.w, &s.Set) {
		return false
	}
	return !predownload.NeedsSecrets(p.w) || how.MayCopySecrets(p.w.Namespace)
}

// imagesInPlace has changes in place wait, if any needs an image on a node with an agent. Nothing waits if the pods have pull secrets that no agent can read,
// such as those that the API server has given them for their service account.
func (p *pass) imagesInPlace(in *predownload.Input) {
	if !in.NeedsImages() {
		return
	}
	in.PullSecrets = p.c.Index.PullSecrets(p.key)
	if len(in.PullSecrets) > 0 && !p.c.ImagesInPlace.MayCopySecrets(p.w.Namespace) {
		return
	}
	in.InPlace = &predownload.InPlace{Agents: p.c.Index.Agents(), Only: !p.d.Predownload}
	if k := &p.state.pulls; k.hash == in.Revisions[in.Snapshot.Set.Update].Hash {
		in.InPlace.Ordered, in.InPlace.Held = k.last, k.held
	}
	if !in.Concerns() {
		in.InPlace = nil
	}
}

// waitsInPlace is whether changes in place wait in this pass: not where no job can be created, nor for ever where images cannot be read.
func (p *pass) waitsInPlace(read bool) bool {
	k := &p.state.pulls
	switch {
	case k.refused:
		return false
	case read:
		k.unread = time.Time{}
		return true
	case k.unread.IsZero():
		k.unread = p.c.Clock.Now()
	}
	return p.c.Clock.Since(k.unread) < unreadLimit
}

// jobless is whether the set has no jobs to delete: it never changed pods in place, or is known to have none.
func (p *pass) jobless() bool { return p.d.InPlace == nil || p.c.orders.isJobless(p.w.UID) }

// gateOffText is the text for a set that asks to wait where the feature gate is off; inPlace is whether its changes in place wait all the same.
func gateOffText(inPlace bool) string {
	if inPlace {
		return textGateOffInPlace
	}
	return textGateOff
}
