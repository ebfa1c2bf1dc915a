// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/predownload"
	"everynode.dev/everynode/internal/rollout"
)

// Texts of events about updates that wait for images, with the nodes they are about.
const (
	textWaiting  = "Waiting for image on %s: the update of a node begins when it has the images of the new pod, or %v after the pull was requested."
	textUnlisted = "Cannot have the image pulled on %s: the NodeImage of such a node has no room for it, or the API server refuses to change it; status.message of " +
		"the ImagePullJob says more. The update of the node begins when it has the images of the new pod, or %v after the job was made."
	textWaitOver = "Updating %s without the images of the new pod: they are not there after %v."
)

// recordWaits sends events after the writes of a plan, once for each revision: that updates wait for images,
// and which updates start although the images are not present. The latter explains to users why a pod is
// missing for a long time.
func (p *pass) recordWaits(s *rollout.Snapshot, plan *rollout.Plan) {
	if !p.w.PullAhead.Wait && !s.Set.ImagesInPlace {
		return
	}
	var waiting, over []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch kind := plan.Verdicts[i].Kind; {
		case !n.ImageWait:
		case kind == rollout.WaitImage:
			waiting = append(waiting, n.Name)
		case n.ImageUntil != 0 && n.ImageUntil <= s.Now && kind.Acts():
			over = append(over, n.Name)
		}
	}
	timeout := p.w.PullAhead.Timeout
	if id := fmt.Sprint(base.ReasonWaitingForImage, "/", s.Set.Update); len(waiting) > 0 && !p.state.reported[id] {
		p.state.reported[id] = true
		p.c.Events.Event(p.object(), corev1.EventTypeNormal, base.ReasonWaitingForImage, fmt.Sprintf(textWaiting, nodesNamed(waiting), timeout))
	}
	if len(over) > 0 {
		p.c.Events.Event(p.object(), corev1.EventTypeWarning, base.ReasonImageWaitOver, fmt.Sprintf(textWaitOver, nodesNamed(over), timeout.Round(time.Second)))
	}
}

// recordUnlisted reports, once for each revision, on which nodes no pull can be requested.
func (p *pass) recordUnlisted(s *rollout.Snapshot, nodes []string) {
	if id := fmt.Sprint(base.ReasonImageUnlisted, "/", s.Set.Update); len(nodes) > 0 && !p.state.reported[id] {
		p.state.reported[id] = true
		p.c.Events.Event(p.object(), corev1.EventTypeWarning, base.ReasonImageUnlisted, fmt.Sprintf(textUnlisted, nodesNamed(nodes), p.w.PullAhead.Timeout))
	}
}

// endless reports whether a node waits of which no end is known. A node that is held back waits for nothing before it is released, which begins a pass.
func endless(s *rollout.Snapshot, plan *rollout.Plan) bool {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.ImageWait && n.ImageUntil == 0 && !s.Gate.Halts(i) && !predownload.HeldBack(plan.Verdicts[i].Kind) {
			return true
		}
	}
	return false
}

// nodesNamed lists the first of some nodes, and the number of the others.
func nodesNamed(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more nodes", strings.Join(names[:most], ", "), len(names)-most)
}
