// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

// NodesNotReady is the reason in a status while the active wave waits for nodes that are not ready.
const NodesNotReady = "NodesNotReady"

// mostNotReady is how many of these nodes the status names.
const mostNotReady = 4

// blockedByNodes reports the nodes that are not ready and that the active wave waits for, and until when.
func (r *run) blockedByNodes(active int) {
	if n := &r.waves[active]; n.available < n.nodes {
		r.blockedByDown("The wave "+r.p.Waves[active].Name, func(i int) (waits, always bool) { return r.ofWave(active, i), false })
	}
}

// blockedEnd reports the nodes that are not ready and that the end of a rollout or of an undo waits for. An undo by the template waits for each node that still has another revision, also if it is left out.
// Nodes that only lack an available pod are the reason if no other node is to be updated.
func (r *run) blockedEnd(others int) {
	what, byTemplate := "The end of the rollout", false
	switch r.out.Status.Phase {
	case v1alpha1.PhaseRolling:
	case v1alpha1.PhaseUndoing:
		what, byTemplate = "The end of the undo", !r.undoing
	default:
		return
	}
	r.blockedByDown(what, func(i int) (waits, always bool) {
		n, st := &r.s.Nodes[i], &r.standing[i]
		old := st.AwaitsUpdate && len(n.Pods) > 0
		switch {
		case !member(r.s, n), r.undoing && (r.onlyKeeps(i) || !r.isReleased(i)):
			return false, false
		case byTemplate && old:
			return true, true
		default:
			return !r.isLeftOut(i) && (old || others == 0 && st.UnderWay), false
		}
	})
}

// blockedByDown reports the nodes that are not ready and that something waits for, and until when: always is whether it also waits for a node that is left out.
func (r *run) blockedByDown(what string, of func(i int) (waits, always bool)) {
	var names []string
	nodes, ends := int32(0), false
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if n.Ready || r.standing[i].Available {
			continue
		}
		waits, always := of(i)
		if !waits {
			continue
		}
		ends = ends || !always
		if nodes++; nodes <= mostNotReady {
			names = append(names, n.Name+r.awayText(n, always))
		}
	}
	if nodes == 0 {
		return
	}
	that, list, remedy := "that is", strings.Join(names, ", "), ""
	if nodes > 1 {
		that = "that are"
	}
	if nodes > mostNotReady {
		list += fmt.Sprintf(" and %d more", nodes-mostNotReady)
	}
	switch {
	case !ends:
		remedy = " Make the nodes ready, or delete their Nodes."
	case r.p.UnreachableAfter == nil:
		remedy = " Make the nodes ready, or set spec.unreachableAfter, so that waves continue without nodes that are not ready for that long."
	}
	r.block(NodesNotReady, fmt.Sprintf("%s waits for %s %s not ready: %s.%s", what, nodeCount(nodes), that, list, remedy))
}

// blockedUpdateRefused is the reason in blocking while the API server refuses to delete or change the old pods of nodes.
const blockedUpdateRefused = "UpdateRefused"

// blockedByRefusals reports the nodes of a wave whose old pod the API server refuses to delete or change; those of all waves for nowhere.
func (r *run) blockedByRefusals(active place) {
	var names []string
	for i := range r.s.Nodes {
		n, st := &r.s.Nodes[i], &r.standing[i]
		of := active == nowhere && member(r.s, n) || active != nowhere && r.ofWave(int(active), i)
		if of && r.changeRefused(i) && (st.AwaitsUpdate || st.UnderWay) && !r.isLeftOut(i) {
			names = append(names, refusedOn(n))
		}
	}
	r.blockRefused(names)
}

// refusedOn is the name of a node with the answer of the API server.
func refusedOn(n *rollout.Node) string {
	return fmt.Sprintf("%s (%s)", n.Name, Shortened(n.Refusal.Message, longestMessage))
}

func (r *run) blockRefused(names []string) {
	if len(names) == 0 {
		return
	}
	r.block(blockedUpdateRefused, fmt.Sprintf("The API server refuses to delete or change the pod on %s: %s. Let it accept that.", nodeCount(int32(len(names))), some(names, mostNamed)))
}

// PodsNotAvailable is the reason in blocking while pods of the active wave cannot be created, or do not start.
const PodsNotAvailable = "PodsNotAvailable"

// blockedByPods reports the ready nodes that a wave waits for because of their pod, and the reason that the API server or the kubelet names.
func (r *run) blockedByPods(active int) {
	if blocks(r.out.Status, blockedOrder) { // it has these nodes
		return
	}
	var names []string
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		if !n.Ready || r.standing[i].Available || !r.ofWave(active, i) {
			continue
		}
		why := ""
		switch p := r.podOf(n); {
		case p != nil && !p.Scheduled && p.Phase == rollout.Pending:
			if !r.remains(noteWait - r.s.Now.Sub(p.Created)) {
				why = "the scheduler has not placed the pod"
			}
		case p != nil && !p.Ready:
			if why = p.Waiting.String(); why != "" && p.Ended != rollout.NotEnded {
				why += fmt.Sprintf(", exit code %d", p.ExitCode)
			}
		case (len(n.Pods) == 0 || r.surgeRefused(i)) && r.isReleased(i):
			why = Shortened(n.Obstacle(), longestMessage)
		}
		if why != "" {
			names = append(names, fmt.Sprintf("%s (%s)", n.Name, why))
		}
	}
	if len(names) > 0 {
		r.block(PodsNotAvailable, fmt.Sprintf("The wave %s waits for an available pod on %s: %s. Read the events and the logs of these pods, and correct the template or what keeps the pods from starting.",
			r.p.Waves[active].Name, nodeCount(int32(len(names))), some(names, mostNamed)))
	}
}

// awayText says since when a node is not ready, and when the wave continues without it. That depends on how long this manager has measured, so it is rounded: small differences between the
// clocks would change the status with each decision.
func (r *run) awayText(n *rollout.Node, always bool) string {
	if n.Since == 0 {
		return ""
	}
	text := "since " + moment(n.Since)
	if limit := r.p.UnreachableAfter; limit != nil && !always {
		if rest := *limit - r.out.Memory.down[n.Name].lasts; rest > 0 {
			at := time.Unix(0, int64(r.s.Now.Add(rest))).Round(time.Second)
			text += ", left out at " + moment(rollout.At(at))
		}
	}
	return " (" + text + ")"
}

// moment is a time in a sentence.
func moment(t rollout.Time) string { return time.Unix(0, int64(t)).UTC().Format(time.RFC3339) }

// blockLeftOut says why a wave does not go on although it waits for no node.
func (r *run) blockLeftOut(wave string, nodes int32) {
	r.block(NodesLeftOut, fmt.Sprintf("Each node of the wave %s (%d) is left out now, because its pod was not available before the update, because the revision failed there and spec.failure.maxFailedNodes allows that, or because the node is not ready. "+
		"The wave goes on when one of them has an available pod of the new revision: repair a node, go on without them with a RolloutApproval with the decision Promote, or change the wave.", wave, nodes))
}

// blockStep says why a wave does not go on after a step of its growth, or a zone, although it waits for no node of it.
func (r *run) blockStep(k int, which string) {
	r.block(NodesLeftOut, fmt.Sprintf("Each node %s of the wave %s that has got the new revision is left out now, because its pod was not available before the update, because the revision failed there and spec.failure.maxFailedNodes allows that, or because the node is not ready. "+
		"The wave goes on when one of them has an available pod: repair a node, go on without them with a RolloutApproval with the decision Promote, or change the template.", which, r.p.Waves[k].Name))
}

// NodesLeftOut is the reason in a status while all nodes of a wave, of a step of its growth or of a zone are left out, so that nothing shows that the revision works.
const NodesLeftOut = "NodesLeftOut"

// noPodAvailable is the reason in a status while no rollout is active and no pod of the daemon set is available: a first installation that does not work is no rollout that could fail.
const noPodAvailable = "NoPodAvailable"

// blockedWithoutPods reports that no node has an available pod; behind is how many have none.
func (r *run) blockedWithoutPods(behind int) {
	serves := func(s rollout.Progress) bool { return s.Available }
	if behind > 0 && !slices.ContainsFunc(r.standing, serves) {
		r.block(noPodAvailable, "No node has an available pod of the committed revision.")
	}
}
