// SPDX-License-Identifier: Apache-2.0

package rollout

// The part of the dumb decision that is about images and nodes that are far away.

// imageless is whether a node is without images that it would need for its update.
func (d *dumb) imageless(f facts) bool {
	needed := f.Fit == MustRun || d.s.Set.InPlace && !d.surge() && d.whyNot(f.old[0]) == NoDetail
	return f.ImageWait && needed && f.old[0].InPlace == InPlaceNone && (f.ImageUntil == 0 || f.ImageUntil > d.s.Now)
}
