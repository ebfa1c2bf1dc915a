// SPDX-License-Identifier: Apache-2.0

package clustercache

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Reverted is an object that a list shows in an older version than the index has seen, although the list is at least as new as what the index has seen. A
// version never decreases, so the storage of the API server was restored from an earlier moment, and its revision was raised, as etcdctl snapshot restore
// --bump-revision does. For example: a pod was seen at 50, and a list of version 1,000,000 has it at 20.
type Reverted struct {
	// Name is the name of the object, with its namespace where it has one.
	Name string
	// Seen is the version that was seen, and Has the version that the list has.
	Seen, Has string
}

// reverted reports whether an object that was seen at one version is older in a list of version rv. What was seen after the list, in the answer to a write, shows
// nothing; nor does what cannot be compared.
func reverted(seen, listed, rv string) bool { return older(listed, seen) && !newer(seen, rv) }

// older reports whether resourceVersion a is older than b; not where they cannot be compared.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// revertedPod returns a pod of a list that has gone back to an older version, and forgets the versions of all such pods.
func (x *Index) revertedPod(list []*Pod, rv string) (back *Reverted) {
	for _, rec := range list {
		if seen := x.podSeen(rec); reverted(seen, rec.RV, rv) {
			back = &Reverted{Name: rec.Namespace + "/" + rec.Name, Seen: seen, Has: rec.RV}
			x.unsee(rec)
		}
	}
	return back
}

// podSeen is the newest version at which the index has seen the pod, or at which it has seen that there is no pod of its name.
func (x *Index) podSeen(rec *Pod) string {
	seen := x.absentSince[podName{rec.Namespace, rec.Name}]
	if p := x.pods[rec.UID]; p != nil && newer(p.rv, seen) {
		seen = p.rv
	}
	if known, gone := x.confirmedDeleted[rec.UID]; gone && newer(known, seen) {
		seen = known
	}
	return seen
}

// unsee has the index take any version of the pod.
func (x *Index) unsee(rec *Pod) {
	delete(x.absentSince, podName{rec.Namespace, rec.Name})
	delete(x.confirmedDeleted, rec.UID)
	if p := x.pods[rec.UID]; p != nil {
		p.rv = ""
	}
}

// revertedNode is revertedPod for nodes.
func (x *Index) revertedNode(list []Node, rv string) (back *Reverted) {
	for i := range list {
		if n := x.nodes.byName[list[i].Name]; n != nil && n.exists && reverted(n.RV, list[i].RV, rv) {
			back = &Reverted{Name: n.Name, Seen: n.RV, Has: list[i].RV}
			n.RV = ""
		}
	}
	return back
}

// revertedRevision is revertedPod for revisions.
func (x *Index) revertedRevision(list []Revision, rv string) (back *Reverted) {
	for i := range list {
		if r := x.revisions.byUID[list[i].UID]; r != nil && reverted(r.RV, list[i].RV, rv) {
			back = &Reverted{Name: r.Namespace + "/" + r.Name, Seen: r.RV, Has: list[i].RV}
			r.RV = ""
		}
	}
	return back
}
