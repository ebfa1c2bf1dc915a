// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"slices"
	"strings"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// Cause is why nodes have a verdict, where the policies show more than the sentence of the verdict; else it is empty.
func (m *Evaluation) Cause(kind rollout.VerdictKind) string {
	g := &m.Governance
	switch {
	case m.Abandoned() && kind == rollout.WaitPolicy:
		return "the pod is old; the rollout policy that governed the daemon set was deleted in the middle of a rollout, so no update starts"
	case m.Abandoned() && kind == rollout.WaitOnDelete:
		return "the pod is old; the rollout policy that governed the daemon set was deleted in the middle of a rollout, so Everynode does not delete the pod"
	case kind == rollout.WaitFailed && g.undoStopped():
		return "the undo has stopped, so the node does not return to the committed revision now"
	case kind == rollout.WaitPolicy && g.Unread != nil && len(g.Policies) == 0:
		return "the pod is old; it is not known whether a rollout policy applies to the daemon set, because the policies cannot be read"
	case kind == rollout.WaitPolicy && len(g.Policies) == 1 && len(g.Policies[0].Rules.Problems) > 0:
		return "the pod is old; the rollout policy of the daemon set cannot be followed, so no update starts"
	case kind == rollout.WaitPolicy && g.stalled() != "":
		return g.stalled()
	case kind == rollout.WaitPolicy && len(g.Policies) == 1:
		return "the pod is old; no manager has begun this rollout yet, so no update starts" // it first writes the revision of the template, and marks the committed one
	default:
		return ""
	}
}

// StuckBy is why the pod that a node waits for does not start by itself, in a word if there is one, such as ImagePullBackOff; empty if it may start. target is the index of the
// revision that nodes are updated to.
func StuckBy(n *rollout.Node, kind rollout.VerdictKind, target int) string {
	if !kind.AwaitsPod() {
		return ""
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		switch word, _, more := strings.Cut(p.Trouble, ": "); {
		case p.Revision != target || p.Deleting || p.Ready && p.InPlace != rollout.InPlacePatched || p.Trouble == "":
		case p.Waiting != rollout.WaitingNone:
			return p.Waiting.String()
		case more && !strings.HasPrefix(word, "container ") && !strings.HasPrefix(word, "init container "):
			return word
		default:
			return p.Trouble
		}
	}
	return ""
}

// Stopped is why nothing starts before a user acts, with the remedy; empty if the rollout continues without that.
func (m *Evaluation) Stopped() string {
	set := m.Set.String()
	switch {
	case !m.Abandoned():
		return m.Governance.Report().Stopped(set)
	case m.Snapshot.Set.Strategy == rollout.RollingUpdate:
		return "the rollout policy that governed the daemon set was deleted in the middle of a rollout: " + AfterDeletion
	default:
		return "the rollout policy that governed the daemon set was deleted in the middle of a rollout: " + AfterDeletionOnDelete(set)
	}
}

// AfterDeletion is what users can do after the policy of a set was deleted in the middle of a rollout.
const AfterDeletion = "create a rollout policy for the set, or remove the annotation " + everynode.Committed + " from its ControllerRevisions"

// AfterDeletionOnDelete is AfterDeletion for a set that only a policy updates: the annotation has no effect on it.
func AfterDeletionOnDelete(set string) string {
	return "create a rollout policy for the set again; or change the template back, for example with " + options.Program + " undo " + set +
		"; or delete the pods yourself: then no wave holds any node"
}

// undoStopped reports whether an undo has stopped, because the committed revision does not work either.
func (g *Governance) undoStopped() bool {
	r := g.Report()
	return r != nil && policy.UndoStopped(&r.SetStatus)
}

// stalled is why nodes wait for a policy that is valid, and whose rollout cannot go on; empty if that is not the reason.
func (g *Governance) stalled() string {
	r := g.Report()
	if r == nil || r.Phase != v1alpha1.PhaseStalled || len(r.Blocking) == 0 {
		return ""
	}
	return "the pod is old; the rollout policy of the daemon set starts no update, and reports the reason " + r.Blocking[0].Reason
}

// Abandoned reports whether no policy applies to the set any more, in the middle of a rollout that one has begun, and the rollout waits for one.
func (m *Evaluation) Abandoned() bool { return m.withoutPolicy() && !m.byKubernetes() }

// Unheld says that the controller of Kubernetes rolls out what a policy that was deleted would hold, and how to stop it; empty if it does not. That controller knows neither policies nor their marks.
func (m *Evaluation) Unheld() string {
	if !m.withoutPolicy() || !m.byKubernetes() {
		return ""
	}
	return fmt.Sprintf("the rollout policy that governed the daemon set was deleted, so Everynode holds no node back: spec.updateStrategy.type is RollingUpdate, so kube-controller-manager "+
		"updates all nodes, without waves. To stop it, run kubectl patch daemonset %s -n %s --type merge -p '%s', and create a rollout policy for the set again", m.Set.Name(), m.Set.Namespace(), toOnDelete)
}

// toOnDelete is a patch after which only deletes of pods update nodes.
const toOnDelete = `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`

// byKubernetes reports whether the controller of Kubernetes updates the nodes.
func (m *Evaluation) byKubernetes() bool {
	return m.Governance.ByKubernetes && m.Snapshot.Set.Strategy == rollout.RollingUpdate
}

// withoutPolicy reports whether no policy applies to the set any more, in the middle of a rollout that one has begun: the revision of the template is not the committed one.
func (m *Evaluation) withoutPolicy() bool {
	if m.Governance.Unread != nil || len(m.Governance.Policies) > 0 || m.History == nil {
		return false
	}
	newest := -1
	for i := range m.History.Revisions {
		if c := m.History.Revisions[i].Committed; c > 0 && (newest < 0 || c > m.History.Revisions[newest].Committed) {
			newest = i
		}
	}
	return newest >= 0 && newest != m.Snapshot.Set.Update && !slices.Contains(m.History.Duplicates, newest)
}

// heldByGroup is how many nodes wait for another set of their concurrency group.
func (c *tally) heldByGroup() int { return c.held[rollout.WaitGroup] }

// byPartition reports whether the partition of the set keeps a node with that verdict.
func byPartition(kind rollout.VerdictKind) bool {
	return kind == rollout.WaitPartition || kind == rollout.WaitProgressive
}
