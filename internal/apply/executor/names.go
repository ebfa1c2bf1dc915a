// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/podtemplate"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// name is the name of a new pod, with its other parameters.
type name struct {
	podtemplate.Params
	// taken is how many earlier names for the node are used by other pods.
	taken int
	// counted are the UIDs of the pods that the decision has counted on the node.
	counted []string
}

// mostTaken is how many names for a node may be used by other pods before no further name is tried. Each follows from the pod that has the one before, so
// only an account that wants to keep the node from its pod takes them all.
const mostTaken = 10

// longestLine limits how many terminating pods of one revision on one node are considered, each the successor
// of the one before; with more of them, the name of the next pod is in use.
const longestLine = 100

// params derives the pod's name from set, node and revision. The UID of the pod that it replaces, if that was of the same
// revision, is mixed in: the name may still be taken by it, and a client that waits for a failed pod to be gone must not be shown its
// successor under the same name. What is mixed in stays the same until the successor itself has gone, so a create that is
// repeated asks for the same name. Only a new leader does not know it: it finds the successor, or nothing, in its first list.
func (r *run) params(node string, rev int) podtemplate.Params {
	w := r.job.Workload
	hash := r.job.Snapshot.Revisions[rev].Name
	key := revision.PodKey{SetName: w.Name, SetUID: w.UID, Node: node, Hash: hash}
	p := podtemplate.Params{
		Namespace: w.Namespace, SetName: w.Name, Node: node, Hash: hash, Owner: r.job.Owner, PodName: key.Name(),
	}
	before := r.e.Index.Predecessor(r.job.Key, node, p.PodName, hash)
	for range longestLine {
		if before == "" {
			break
		}
		key.Salt = string(before)
		p.PodName = key.Name()
		before = r.e.Index.Holder(r.job.Key, node, p.PodName)
	}
	if rev == r.job.Template {
		p.TemplateGeneration = w.TemplateGeneration
	}
	return p
}

// freeName returns another name, because another pod has this one. The UID of that pod is part of the hash, so a repeated create asks for the same names.
func freeName(w *dialect.Workload, holder *corev1.Pod, n name) name {
	key := revision.PodKey{SetName: w.Name, SetUID: w.UID, Node: n.Node, Hash: n.Hash, Salt: string(holder.UID)}
	n.PodName = key.Name()
	n.taken++
	return n
}

// inTheWay reports whether the pod that has a name of a new pod keeps that name and is no reason against the new pod: it is a stranger, or one of those that the decision has counted on
// the node. With a surge that is the old pod, if it had its name before the set adopted it. A pod that the decision has not counted may be the one that an earlier create has
// made, with a hash that a webhook has changed since.
func (n *name) inTheWay(w *dialect.Workload, holder *corev1.Pod) bool {
	return n.taken < mostTaken && (isStranger(w, holder) || slices.Contains(n.counted, string(holder.UID)))
}

// countedOn returns the UIDs of the pods that a decision has counted on a node.
func countedOn(n *rollout.Node) (uids []string) {
	for i := range n.Pods {
		uids = append(uids, n.Pods[i].UID)
	}
	return uids
}

// isStranger reports whether a pod is not the set's, and cannot become its own: it has another owner, or none and is not selected, or is being deleted. Such is the pod that a
// person has removed from the set, by its labels, to debug it; the set may need its name again, when the template is changed back. An owner with the
// UID of the set is another one if it is of another kind or group: any user can write any UID into a pod.
func isStranger(w *dialect.Workload, p *corev1.Pod) bool {
	owner, advanced, ok := clustercache.OwnerOf(p)
	if !ok || owner != "" {
		return !ok || owner != w.UID || advanced != w.Advanced
	}
	return p.DeletionTimestamp != nil || !w.Selector.Matches(labels.Set(p.Labels))
}
