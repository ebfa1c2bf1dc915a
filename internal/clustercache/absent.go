// SPDX-License-Identifier: Apache-2.0

package clustercache

// podName is the name of a pod in its namespace.
type podName struct{ namespace, name string }

// RecordAbsent records that at resourceVersion rv the API server itself had no pod of that name, which the
// set would have on that node. An existing record is dropped, and later events of the watch about versions up
// to rv do not restore it: otherwise its successor would be one pod too many. It is for callers that know
// only the name of a pod; see ConfirmDeleted.
func (x *Index) RecordAbsent(key Key, nodeName, pod, rv string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, n := x.sets[key], x.nodes.byName[nodeName]; s != nil && n != nil {
		if p := x.pods[s.state(n).holder(pod)]; p != nil && !newer(p.rv, rv) {
			x.dropPod(p.uid)
		}
	}
	if rv != "" && newer(rv, x.podsRV) {
		x.absentSince[podName{key.Namespace, pod}] = rv
	}
}

// hasEnded reports whether a version of a pod is not newer than the moment at which the index learned that the pod is gone.
func (x *Index) hasEnded(rec *Pod) bool {
	rv, absent := x.absentSince[podName{rec.Namespace, rec.Name}]
	return absent && !newer(rec.RV, rv)
}

// watchReached records how far the watch of pods has come.
func (x *Index) watchReached(rv string) {
	x.podsRV = rv
	for name, until := range x.absentSince {
		if !newer(until, rv) {
			delete(x.absentSince, name) // from here on it shows what came later
		}
	}
}
