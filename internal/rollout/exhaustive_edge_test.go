// SPDX-License-Identifier: Apache-2.0

package rollout

import "testing"

// edgeSets and edgeNodes are those where it matters what is on a node that is far away, and whether it can be reached.
func edgeSets() []string {
	return []string{
		"set max-unavailable=1",
		"set max-surge=1",
		"set max-unavailable=2 in-place; in-place v1",
		"set skip blame=10s max-unavailable=1",
		"set skip blame=10s max-unavailable=2 max-replacing=1",
		"set skip blame=10s max-surge=1",
		"set skip blame=10s partition=1 eligible-only in-place; in-place v1",
		"set skip blame=10s on-delete",
		"set guest max-unavailable=1",
		"set guest max-unavailable=2 partition=1 progressive; hooked",
		"set guest max-surge=1 skip blame=10s in-place; in-place v1",
		"set guest on-delete announce burst=1",
		"set announce skip max-unavailable=1 burst=2",
		"set max-surge=1 announce; hooked",
	}
}

func edgeNodes() []string {
	return []string{
		"must image-wait v1:ready", "must image-wait=4s v1:unready", "must image-wait", "must image-wait v1:ready,deleting",
		"must image-wait v1:failed", "must image-wait v2:ready", "must image-wait=-1s v1:ready", "must image-wait v1:ready,gate",
		"must image-wait v1:unready,marked", "must image-wait v1:ready,armed", "must image-wait v1:ready v2:pending",
		"stay image-wait v1:ready", "leave image-wait v1:ready", "must v1:ready",
		"must down=-5s v1:ready", "must down=-5s v1:unready", "must down=-5s", "must down=-5s v2:unready", "must down=-5s v2:ready,created=-20s",
		"must down=-5s v2:unready,created=-7s", "must down=-5s v1:unready,deleted=-7s", "must down=-5s v1:unready,deleted=-30s,since=-5s",
		"must down=-5s v1:ready v2:unready,created=-5s", "must down=-5s v1:ready,armed", "must down=-5s v1:unready,marked",
		"must down=-50s v1:ready,deleting", "stay down=-5s v1:ready", "leave down=-5s v1:ready", "must v1:unready",
		"must", "must v1:ready,deleting", "must v2:ready", "must v2:failed", "must v1:failed", "must v1:ready v1:ready", "must v1:ready v2:ready",
		"leave v1:ready", "gone v1:pending,unscheduled", "gone v1:ready", "must v1:ready,armed", "must v1:ready,waiting", "must v2:ready,waiting",
		"must v1:unready,marked", "stay v1:ready",
		"must v1:ready,says=old/v2", "must v2:ready,says=old/v2", "must v1:ready,says=old/v1", "stay v1:ready,says=new/v1",
		"leave v1:ready,says=new/v1",
	}
}

// everyEdge calls f with all worlds of one and two such nodes.
func everyEdge(t *testing.T, f func(t *testing.T, w *world)) {
	for _, set := range edgeSets() {
		t.Run(set, func(t *testing.T) {
			for _, a := range edgeNodes() {
				f(t, build(t, set, a))
				for _, b := range edgeNodes() {
					f(t, build(t, set, a, b))
				}
			}
		})
	}
}
