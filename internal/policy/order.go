// SPDX-License-Identifier: Apache-2.0

package policy

import "everynode.dev/everynode/internal/rollout"

// busy returns a function that reports whether an update is under way in another zone than this one, in whichever wave: a node that was left out in its turn may come back
// in a zone whose turn has passed.
func (r *run) busy() (elsewhere func(zone string) bool) {
	first, some, several := "", false, false
	for i := range r.s.Nodes {
		if r.p.TopologyKey != "" && r.standing[i].UnderWay && !r.isLeftOut(i) {
			zone := r.in.Labels[i][r.p.TopologyKey]
			several = several || some && zone != first
			first, some = zone, true
		}
	}
	return func(zone string) bool { return several || some && zone != first }
}

// holdLate holds the nodes of waves that have passed, which were left out and have come back, while another zone is at work, or the active wave may start updates in one. They
// do not hold the active wave: it may be that they cannot be updated. Of several zones of such nodes, one is updated at a time.
func (r *run) holdLate(active int) {
	key := r.p.TopologyKey
	if key == "" {
		return
	}
	var late []int
	for i := range r.s.Nodes {
		if k := r.places[i]; k != nowhere && k < place(active) && r.standing[i].AwaitsUpdate && !r.standing[i].UnderWay && !r.isLeftOut(i) {
			late = append(late, i)
		}
	}
	if len(late) == 0 {
		return
	}
	elsewhere, turn := r.busy(), r.in.Labels[late[0]][key]
	for _, i := range late {
		turn = min(turn, r.in.Labels[i][key])
	}
	for _, i := range late {
		if zone := r.in.Labels[i][key]; zone != turn || elsewhere(zone) || r.startsElsewhere(active, zone) {
			r.holds[i] = rollout.WaitOrder
		}
	}
}

// startsElsewhere reports whether a wave may start updates in another zone.
func (r *run) startsElsewhere(k int, zone string) bool {
	for i := range r.s.Nodes {
		if r.places[i] == place(k) && r.holds[i] == rollout.NotEvaluated && r.standing[i].AwaitsUpdate && !r.isLeftOut(i) && r.in.Labels[i][r.p.TopologyKey] != zone {
			return true
		}
	}
	return false
}
