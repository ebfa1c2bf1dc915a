// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/rollout"
)

// Doubt is an edit of a pod whose answer is not clear.
type Doubt struct {
	Pod Pod
	// Until is when the edit will have taken effect if it ever does.
	Until rollout.Time
}

// Doubt records that it is not known whether an edit of the pod took effect. Until Dispel no other edit of it is to be sent, and if this one takes the
// pod out of use, it is not counted on.
func (x *Index) Doubt(uid types.UID, until rollout.Time, takes bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		p.doubt, p.takes = until, takes
		if s := x.ownerOf(p); s != nil {
			s.doubts[uid] = p
		}
	}
}

// InDoubt is whether there is a Doubt of the pod.
func (x *Index) InDoubt(uid types.UID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pods[uid]
	return p != nil && p.doubt != 0
}

// Dispel takes a Doubt back: the pod has been read since. If the edit took effect, its answer is no refusal any more.
func (x *Index) Dispel(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.pods[uid]
	if p == nil {
		return
	}
	p.doubt = 0
	s := x.ownerOf(p)
	if s == nil {
		return
	}
	delete(s.doubts, uid)
	if p.node == nil {
		return
	}
	if r := s.refused[p.node.id]; r != nil && r.Pod == uid && r.tookEffect(p) {
		delete(s.refused, p.node.id)
	}
}

// RefuseResize records that the API server does not let the pod's resources be changed. It holds as long as this process knows the
// pod: another one asks once more.
func (x *Index) RefuseResize(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.pods[uid]; p != nil {
		p.noResize = true
	}
}

func (s *set) doubtful() []Doubt {
	var list []Doubt
	for _, p := range s.doubts {
		list = append(list, Doubt{Pod: p.pod(), Until: p.doubt})
	}
	slices.SortFunc(list, func(a, b Doubt) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return list
}
