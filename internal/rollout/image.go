// SPDX-License-Identifier: Apache-2.0

package rollout

// awaitsImage is whether the update of a node with an old pod waits until the images of the new one are there. No image is
// needed where no new pod will come: a node that only may keep its pod gets none, unless the pod is changed in place. Where
// the set has not asked to wait, only a change in place does: the kubelet stops the container first, and pulls then. Nor
// does an update wait that has begun.
func (d *decision) awaitsImage(t *nodeContext) bool {
	n := t.node
	over := n.ImageUntil != 0 && n.ImageUntil <= d.in.Now
	if !n.ImageWait || over || t.changing {
		return false
	}
	if n.Fit == MayStay || d.in.Set.ImagesInPlace {
		if able, _ := d.inPlace(n, t.old); !able {
			return false
		}
	}
	if n.ImageUntil != 0 {
		d.wakeAt(n.ImageUntil)
	}
	return true
}
