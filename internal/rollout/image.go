// SPDX-License-Identifier: Apache-2.0

package rollout

// awaitsImage reports whether the update of a node with an old pod waits until the images of the new one are there. No image is
// needed where no new pod will come: a node that only may keep its pod gets none, unless the pod is changed in place. An update that has begun does not wait.
func (d *decision) awaitsImage(t *nodeContext) bool {
	n := t.node
	over := n.ImageUntil != 0 && n.ImageUntil <= d.in.Now
	if !n.ImageWait || over || t.changing {
		return false
	}
	if able, _ := d.inPlace(t.old); n.Fit == MayStay && !able {
		return false
	}
	if n.ImageUntil != 0 {
		d.wakeAt(n.ImageUntil)
	}
	return true
}
