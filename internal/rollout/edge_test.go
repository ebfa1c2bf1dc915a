// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// The invariants that are about images and nodes that are far away.

// imagesComeFirst: where a new pod will follow the old one, its images are there before, or the wait for them is over.
func imagesComeFirst(d *dumb, p Plan) error {
	for _, f := range d.nodes {
		waits := f.ImageWait && !(f.ImageUntil != 0 && f.ImageUntil <= d.s.Now)
		for _, a := range p.Actions {
			leaves := f.Fit == MayStay && a.Kind != Mark // and no other pod comes
			if a.Node == f.index && waits && !leaves && d.begins(f, a) {
				return fmt.Errorf("%s is updated, and its images are not there", f.Name)
			}
		}
	}
	return nil
}

// begins is whether an action begins to replace the only pod that a node has, which is an old one, runs and is not being changed.
func (d *dumb) begins(f facts, a Action) bool {
	alone := len(f.live) == 1 && len(f.old) == 1 && len(f.leaving) == 0 && f.back == "" && f.old[0].InPlace == InPlaceNone
	return d.mayRun(f) && alone && a.Kind != Patch
}
