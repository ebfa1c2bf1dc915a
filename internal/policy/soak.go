// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// soaked lets a complete wave soak, and reports whether it has done so for long enough. A clock that is set forward adds nothing, because the time is
// measured by another clock too; one that is set back, and the time in which no manager looked, make the soak longer. Only the time in which all analyses pass
// counts, and after one that fails, or a pod that was not ready, the soak starts again. While nodes that have joined get their first pods, it pauses.
func (r *run) soaked(k int, st *v1alpha1.WaveStatus) bool {
	w := &r.p.Waves[k]
	fresh := st.CompletedAt == nil
	if fresh {
		st.CompletedAt = second(r.s.Now)
	}
	if node := r.readyAgain(k, st.CompletedAt); node != "" && !fresh {
		if fresh = true; !r.out.Memory.growing { // else nodes that have joined since would count as earlier ones
			st.CompletedAt = second(r.s.Now)
		}
		if w.Soak > 0 {
			r.restartSoak(st, node)
			r.event(true, ReasonSoakRestarted, "The pod of the wave %s of revision %s on node %s was not ready for a moment: the soak starts again.", w.Name, r.target().Name, node)
		}
	}
	r.out.Memory.soaks = !r.out.Memory.growing
	health := r.analyse(k, st)
	switch {
	case fresh || st.Soaked == nil || health.failed:
		st.Soaked = &metav1.Duration{}
	case health.stayed && health.passing && (r.in.Memory == nil || r.in.Memory.soaks):
		st.Soaked.Duration += max(r.in.Elapsed, 0)
	}
	if promotion := r.promotion(w.Name); promotion != nil {
		st.Approval, st.ApprovedBy = promotion.Name, promotion.Spec.By
		return true
	}
	rest := w.Soak - st.Soaked.Duration
	switch {
	case !health.passing:
		return false
	case rest <= 0:
		return true
	case r.out.Memory.growing:
		r.next(v1alpha1.ActionEndSoak, 0)
		return false
	}
	r.wakeAt(r.s.Now.Add(rest))
	r.next(v1alpha1.ActionEndSoak, r.s.Now.Add(rest))
	return false
}

// soakText describes a wave that soaks.
func (r *run) soakText(k int, st *v1alpha1.WaveStatus) string {
	text := fmt.Sprintf("The wave %s is complete and is being observed for %s.", st.Name, r.p.Waves[k].Soak)
	if r.out.Memory.growing {
		text = r.growingText(k, st) + " Until then its soak pauses."
	}
	if n := int(st.SoakRestarts); n > 0 {
		last := ""
		if n > 1 {
			last = "the last time "
		}
		text += fmt.Sprintf(" The soak has started again %s, %sbecause the pod on node %s was not available.", times(n), last, st.SoakRestartedBy)
	}
	return text
}

// growingText describes a wave that lacks only the pods of nodes that have joined.
func (r *run) growingText(k int, st *v1alpha1.WaveStatus) string {
	return fmt.Sprintf("The wave %s waits for the first pod of %s that joined, for example of %s.", st.Name, nodeCount(st.Nodes-st.Available), r.firstLacking(k))
}

// restartSoak counts that the soak of a wave starts again because of a node.
func (r *run) restartSoak(st *v1alpha1.WaveStatus, node string) {
	st.SoakRestarts++
	st.SoakRestartedBy = node
}

// ofWave reports whether a wave waits for a node.
func (r *run) ofWave(k, i int) bool {
	return r.places[i] == place(k) && member(r.s, &r.s.Nodes[i]) && !r.isLeftOut(i)
}

// firstLacking is the first node of a wave without an available pod of the target; empty if there is none.
func (r *run) firstLacking(k int) string {
	for i := range r.s.Nodes {
		if r.ofWave(k, i) && !r.standing[i].Available {
			return r.s.Nodes[i].Name
		}
	}
	return ""
}

// grows reports whether a wave that soaks, or waits for an approval, lacks nothing but the first pods of nodes that have joined since it was complete: they say nothing
// about the pods that it observes.
func (r *run) grows(k int, st *v1alpha1.WaveStatus) bool {
	if st.Available >= st.Nodes || st.CompletedAt == nil || st.Phase != v1alpha1.WaveSoaking && st.Phase != v1alpha1.WaveWaitingForApproval {
		return false
	}
	var was []soakingPod
	m := r.in.Memory
	if m != nil {
		was = m.soaking
	}
	at, since, unknown := 0, rollout.Time(st.CompletedAt.UnixNano()), m == nil || r.in.Restored
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if !r.ofWave(k, i) || r.standing[i].Available {
			continue
		}
		for at < len(was) && was[at].node < n.Name {
			at++
		}
		old := slices.ContainsFunc(n.Pods, func(p rollout.Pod) bool { return p.Revision != r.s.Set.Update })
		if unknown || old || n.Joined < since || at < len(was) && was[at].node == n.Name {
			return false // it has had an available pod, or may have had one
		}
	}
	r.out.Memory.growing = true
	return true
}

// soakingPod is a pod of the target on a node of a wave that soaks, and since when it is ready.
type soakingPod struct {
	node, uid string
	since     rollout.Time
}

// readyAgain returns the first node of a complete wave whose pods have all become ready since the last decision, or are others: none was ready all the time, although
// no decision has seen it. Times of one clock are compared for being equal only, because it may be wrong. A process that has made no decision compares them with
// the time at which the wave was complete.
func (r *run) readyAgain(k int, completed *metav1.Time) (node string) {
	var was []soakingPod
	if m := r.in.Memory; m != nil && !r.in.Restored {
		was = m.soaking
	}
	now, at, latest := was[:0:0], 0, rollout.Time(completed.Add(time.Second).UnixNano())
	same := 0 // the number of pods that are the first ones of was, too, and are not copied
	note := func(p soakingPod) {
		if len(now) == 0 && same < len(was) && was[same] == p {
			same++
			return
		}
		if len(now) == 0 {
			now = append(make([]soakingPod, 0, max(len(was), int(r.waves[k].nodes))), was[:same]...)
		}
		now = append(now, p)
	}
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if !r.ofWave(k, i) || !r.standing[i].Available {
			continue
		}
		for at < len(was) && was[at].node < n.Name {
			at++
		}
		known, stayed := at < len(was) && was[at].node == n.Name, false
		for j := range n.Pods {
			p := &n.Pods[j]
			if p.Revision != r.s.Set.Update || p.Deleting {
				continue
			}
			is := soakingPod{n.Name, p.UID, p.ReadySince}
			for b := at; b < len(was) && was[b].node == n.Name; b++ {
				stayed = stayed || was[b] == is
			}
			if r.in.Restored {
				known, stayed = true, stayed || r.readySince(n, p, latest)
			}
			note(is)
		}
		if known && !stayed && node == "" {
			node = n.Name
		}
	}
	if r.out.Memory.soaking = now; len(now) == 0 {
		r.out.Memory.soaking = was[:same:same]
	}
	return node
}

// readySince reports whether a pod has been ready since its wave was complete, or since its node has joined after that, as far as their times show it. The API server sets
// the time of creation, so that shows another pod whatever the clock of the node shows.
func (r *run) readySince(n *rollout.Node, p *rollout.Pod, complete rollout.Time) bool {
	joined := n.Joined >= complete.Add(-time.Second)
	if p.Created > complete && !joined {
		return false
	}
	return p.ReadySince <= complete || p.ReadySince > r.s.Now || joined && p.ReadySince <= p.Created.Add(noteWait)
}
