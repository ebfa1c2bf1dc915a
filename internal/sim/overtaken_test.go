// SPDX-License-Identifier: Apache-2.0

package sim

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// mostOvertaken is how many deletes of a pod may be answered with a conflict before a delete of it is carried out whatever has changed.
const mostOvertaken = 3

// isFree is whether the sender of a delete knows that it costs nothing, because the pod is not ready: an old one that is the only pod of a node that should have it.
func (s *sim) isFree(k *knowledge, uid types.UID, node string) bool {
	return k.alone(uid) && k.firm(func(k known) bool {
		p := k.pods[uid]
		ready, _ := readyOf(p)
		return !ready && k.alive(p) && k.untouched(p) && ownedBy(p, k.set) && k.counts(node) && k.fit(node) == mustRun
	})
}

// conflict is a delete that a manager was answered with a conflict, and after which it has not read the pod yet.
type conflict struct {
	of  *manager
	pod string
}

// overtake counts the conflicts of the deletes of a pod, but those after which its manager has read that it is ready: they are what the version is named for.
func (s *sim) overtake(r *request, value any, err error) {
	at := conflict{r.m, r.action.pod}
	switch {
	case r.ofPod && r.action.verb == "delete" && apierrors.IsConflict(err):
		s.overtaken[types.UID(r.action.uid)]++
		s.conflicts[at] = types.UID(r.action.uid)
	case r.action.verb == "get":
		if p, ok := value.(*corev1.Pod); ok && err == nil && p.UID == s.conflicts[at] {
			if ready, _ := readyOf(p); ready {
				s.overtaken[p.UID]--
			}
		}
		delete(s.conflicts, at)
	}
}

// judgeEffect looks at a delete when it takes effect on a pod. What another controller decides is not judged.
func (s *sim) judgeEffect(m *manager, p *corev1.Pod) {
	if v := s.intents[p.UID]; v == nil || !v.free || v.by != m.name || s.overtaken[p.UID] >= mostOvertaken {
		return
	}
	if ready, _ := readyOf(p); ready {
		s.blame("overtaken", "%s deletes %s, which was not ready when that was decided, and is now", m.name, m.nameOf(p.Name))
	}
}
