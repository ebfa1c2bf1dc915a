// SPDX-License-Identifier: Apache-2.0

package rollout

// excess is whether a running pod is one too many. Without surge the oldest stays; with surge the oldest of the wanted
// revision and the oldest of all others do.
func (d *decision) excess(t *site, p *Pod) bool {
	if d.surge {
		return p != t.current && p != t.old
	}
	return p != t.keep
}
