// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
)

const (
	// forgedName begins the name of a revision of a stranger, if that is no name which the set needs.
	forgedName = "forged-"
	// forgedImage is the image in the template of such a revision.
	forgedImage = "forged"
	// forgedMark counts the marks of a stranger; the number in one of them is a multiple of forgedNumber, which no manager comes to by counting.
	forgedMark   = "forged-mark"
	forgedNumber = 1000
	// mostForgeries is how many there are, at most.
	mostForgeries = 2
)

// forgeryOps: somebody makes revisions without an owner and with the labels of the set, which adopts them. They have the hash of a revision of the set, or
// one of their own, and another template; and the lowest number or a very high one. Some have the name of the revision that a manager is about to create.
func (s *sim) forgeryOps(ops []op) []op {
	ops = s.markOps(ops)
	var of []*appsv1.ControllerRevision
	forged := 0
	for _, o := range s.w.all(ofRevisions) {
		r := o.(*appsv1.ControllerRevision)
		switch {
		case imageOfRevision(r) == forgedImage:
			forged++
		case ownedBy(r, s.w.set()):
			of = append(of, r)
		}
	}
	if len(of) == 0 || forged >= mostForgeries {
		return ops
	}
	count := s.w.born[forgedName] + 1
	add := func(name string, weight int) {
		kind := 5*count + len(s.cfg.faults)
		r := forgery(of[kind%len(of)], name, kind, count)
		hash := r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
		ops = append(ops, op{words("a stranger makes revision %s with hash %s and number %d", name, hash, r.Revision), weight, func() {
			s.w.born[forgedName]++
			r.CreationTimestamp = metav1.NewTime(s.w.now)
			s.w.put(ofRevisions, r)
		}})
	}
	if name := words("%s%d", forgedName, count); s.w.revision(name) == nil {
		add(name, 1)
	}
	if s.lead == nil {
		return ops
	}
	for _, r := range s.lead.waiting() {
		if !r.peer && r.action.verb == "create a revision" && s.w.revision(r.action.image) == nil {
			add(r.action.image, 6)
		}
	}
	return ops
}

// markOps are those of an account that may write revisions, but no policies: it marks the newest one as committed or as failed, while it is neither.
func (s *sim) markOps(ops []op) []op {
	p, k := s.w.rolloutPolicy(), s.everything()
	target := k.target()
	if p == nil || target == nil || s.forgedMarks[target.Annotations[everynode.Committed]] || s.forgedMarks[target.Annotations[everynode.Failed]] ||
		failed(target) || k.committed(s.forgedMarks) == "" || k.committed(s.forgedMarks) == imageOfRevision(target) {
		return ops
	}
	count := s.w.born[forgedMark] + 1
	add := func(name, value string) {
		ops = append(ops, op{words("a stranger writes the mark %s on %s", name, target.Name), 2, func() {
			s.w.born[forgedMark]++
			s.forgedMarks[value] = true
			s.w.annotate(target.Name, name, value)
		}})
	}
	add(everynode.Committed, everynode.FormatCommitted(forgedNumber*int64(count), string(target.UID)))
	add(everynode.Failed, everynode.FormatFailed(everynode.Failure{Number: target.Revision, Undo: true, Message: words("%s%d", forgedName, count)}, string(target.UID)))
	return ops
}

// acceptMarks treats the marks of strangers like those of a manager, where there is no status of the policy: the policy was deleted and created again, or its status was lost. If all pods are of the newest
// revision, nothing distinguishes its mark from the one that a manager writes when a rollout is complete. A mark of another revision holds the newest one: the status then names that other revision, so it is
// the committed one, no matter who wrote the mark.
func (s *sim) acceptMarks(k known) {
	target, elsewhere := k.target(), k.elsewhere()
	for _, r := range k.revisions {
		if is := target != nil && imageOfRevision(r) == imageOfRevision(target); !is || !elsewhere {
			delete(s.forgedMarks, r.Annotations[everynode.Committed])
		}
	}
}

// lostCommitted is whether the ControllerRevision that managers have reported as committed was deleted, and there is none with the same content. Then nodes without a pod get the revision that
// other pods have, or else the newest one.
func (s *sim) lostCommitted(reported []v1alpha1.SetStatus, k known) bool {
	for i := range reported {
		image := ""
		for _, e := range s.w.logs[ofRevisions] {
			if e.object.GetName() == reported[i].CommittedRevision {
				image = imageOfRevision(e.object.(*appsv1.ControllerRevision))
			}
		}
		there := func(r *appsv1.ControllerRevision) bool {
			return imageOfRevision(r) == image && r.DeletionTimestamp == nil
		}
		if image != "" && reported[i].UID == k.set.GetUID() && !slices.ContainsFunc(slices.Collect(maps.Values(k.revisions)), there) {
			return true
		}
	}
	return false
}

// elsewhere is whether a pod of the set is of another revision than the newest one.
func (k known) elsewhere() bool {
	for _, p := range k.pods {
		if ownedBy(p, k.set) && !k.newest(p) {
			return true
		}
	}
	return false
}

// reported is whether a manager has reported anything of the set to a policy, as far as this one knows.
func (r *ruler) reported(p *v1alpha1.RolloutPolicy) bool {
	is, mine := r.reports[p.Name]
	return len(p.Status.Sets) > 0 || mine && is.of == p.UID
}

// annotate changes an annotation of a revision.
func (w *world) annotate(revision, name, value string) {
	r := w.revision(revision).DeepCopy()
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, name, value)
	w.put(ofRevisions, r)
}

// forgery is a revision of a stranger, which is much like one of the set.
func forgery(like *appsv1.ControllerRevision, name string, kind, count int) *appsv1.ControllerRevision {
	r := like.DeepCopy()
	r.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(words("%s%d-uid", forgedName, count)), Labels: r.Labels}
	r.Data.Raw = []byte(strings.ReplaceAll(string(r.Data.Raw), `"`+imageOfRevision(like)+`"`, `"`+forgedImage+`"`))
	if kind%3 == 0 {
		r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = words("%s%d", forgedName, count)
	}
	if r.Revision = 0; kind%2 == 0 {
		r.Revision = math.MaxInt64 - 10
	}
	return r
}
