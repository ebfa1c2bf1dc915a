// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// podRecord is a Pod in the index. There may be millions of them, so what pods have in common they share: labels, owner and
// namespace, and the node.
type podRecord struct {
	uid    types.UID
	name   string
	labels *labelEntry
	next   *podRecord
	facts  *dialect.PodFacts

	phase                      rollout.Phase
	scheduled, deleting, ready bool
	waiting                    rollout.Waiting
	pull                       rollout.Pull
	restarts, otherRestarts    uint16
	exitCode                   int32
	ended                      rollout.Ending
	// blocked is whether a set may have a block for the pod from when it named no node.
	blocked    bool
	generation int64

	deletedAt, readySince, created rollout.Time
	// writes are our writes that no watch has shown yet; nil for none.
	writes *inflight.Pod

	// A Snapshot does not look at what follows.
	rv     string
	origin *origin
	node   *node // nil without
}

// origin is what the pods of one set have in common whatever their revision.
type origin struct {
	originID
	uses int
	// labels are those of the last of these pods that came or changed them: the next one probably has the same.
	labels *labelEntry
}

// originID identifies the owner of a pod: a set of the same namespace and API group, with that UID.
type originID struct {
	namespace string
	owner     types.UID
	advanced  bool // of the API group apps.kruise.io
}

func (rec *Pod) origin() originID {
	return originID{namespace: rec.Namespace, advanced: rec.Advanced, owner: rec.Owner}
}

// ownerOf is the set that a pod belongs to; nil for an orphan, and for one that names a set which is not
// known. A pod with the UID of a set as its owner does not necessarily belong to the set: any user may write
// any UID into a pod of their namespace.
func (x *Index) ownerOf(p *podRecord) *set {
	return x.setOf(p.origin.originID)
}

func (x *Index) setOf(o originID) *set {
	if s := x.byUID[o.owner]; s != nil && s.is(o) {
		return s
	}
	return nil
}

// is whether o names the set.
func (s *set) is(o originID) bool {
	return o.owner == s.workload.UID && o.namespace == s.workload.Namespace && o.advanced == s.workload.Advanced
}

type originTable map[originID]*origin

func (t originTable) take(id originID) *origin {
	o := t[id]
	if o == nil {
		o = &origin{originID: id}
		t[id] = o
	}
	o.uses++
	return o
}

func (t originTable) release(o *origin) {
	if o.uses--; o.uses == 0 {
		delete(t, o.originID)
	}
}

// nodeName is the name of the pod's node; empty without.
func (p *podRecord) nodeName() string {
	if p.node == nil {
		return ""
	}
	return p.node.Name
}

// pod is the record as others get it.
func (p *podRecord) pod() Pod {
	return Pod{
		Namespace: p.origin.namespace, Name: p.name, UID: p.uid, RV: p.rv, Node: p.nodeName(), Owner: p.origin.owner, Advanced: p.origin.advanced,
		Labels: p.labels.set, Hash: p.labels.hash, Generation: p.generation, Phase: p.phase, Scheduled: p.scheduled,
		Deleting: p.deleting, DeletedAt: p.deletedAt, Ready: p.ready, ReadySince: p.readySince, Created: p.created,
		Waiting: p.waiting, Pull: p.pull, Restarts: p.restarts, OtherRestarts: p.otherRestarts, Ended: p.ended, ExitCode: p.exitCode, Facts: p.facts,
	}
}

// differs reports whether a newer version has anything new.
func (p *podRecord) differs(rec *Pod) bool {
	same := p.name == rec.Name && p.origin.originID == rec.origin() && p.nodeName() == rec.Node &&
		p.generation == rec.Generation && p.phase == rec.Phase && p.scheduled == rec.Scheduled &&
		p.deleting == rec.Deleting && p.deletedAt == rec.DeletedAt && p.ready == rec.Ready && p.readySince == rec.ReadySince &&
		p.created == rec.Created && p.waiting == rec.Waiting && p.pull == rec.Pull && p.ended == rec.Ended && p.exitCode == rec.ExitCode && p.restarts == rec.Restarts && p.otherRestarts == rec.OtherRestarts && p.labels.equals(rec.Labels)
	if !same || p.facts == nil || rec.Facts == nil {
		return !same || p.facts != rec.Facts
	}
	return !reflect.DeepEqual(p.facts, rec.Facts)
}

// read copies the fields of a version of the pod, except the shared ones.
func (p *podRecord) read(rec *Pod) {
	p.name, p.rv, p.generation, p.facts = rec.Name, rec.RV, rec.Generation, rec.Facts
	p.phase, p.scheduled, p.deleting, p.ready = rec.Phase, rec.Scheduled, rec.Deleting, rec.Ready
	p.deletedAt, p.readySince, p.created = rec.DeletedAt, rec.ReadySince, rec.Created
	p.waiting, p.pull, p.restarts, p.otherRestarts, p.ended, p.exitCode = rec.Waiting, rec.Pull, rec.Restarts, rec.OtherRestarts, rec.Ended, rec.ExitCode
}
