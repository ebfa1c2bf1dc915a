// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"testing"
)

// corner is a part of the world that is searched by itself: sets, and nodes on which they show what they do.
type corner struct{ sets, nodes []string }

func corners() []corner {
	return []corner{imageCorner(), awayCorner(), suspectCorner(), guestCorner(), announceCorner()}
}

func imageCorner() corner {
	return corner{
		[]string{"set max-unavailable=1", "set max-surge=1", "set max-unavailable=2 in-place; in-place v1"},
		[]string{
			"must image-wait v1:ready", "must image-wait=4s v1:unready", "must image-wait", "must image-wait v1:ready,deleting",
			"must image-wait v1:failed", "must image-wait v2:ready", "must image-wait=-1s v1:ready", "must image-wait v1:ready,gate",
			"must image-wait v1:unready,marked", "must image-wait v1:ready,armed", "must image-wait v1:ready v2:pending",
			"stay image-wait v1:ready", "leave image-wait v1:ready",
		},
	}
}

func awayCorner() corner {
	return corner{
		[]string{
			"set skip blame=10s max-unavailable=1", "set skip blame=10s max-unavailable=2 max-replacing=1", "set skip blame=10s max-surge=1",
			"set skip blame=10s partition=1 eligible-only in-place close-gate; in-place v1", "set skip blame=10s on-delete",
			"set external skip blame=10s max-surge=1 in-place; in-place v1",
		},
		[]string{
			"must down=-5s v1:ready", "must down=-5s v1:unready", "must down=-5s", "must down=-5s v2:unready", "must down=-5s v2:ready,created=-20s",
			"must down=-5s v2:unready,created=-7s", "must down=-5s v1:unready,deleted=-7s", "must down=-5s v1:unready,deleted=-30s,since=-5s",
			"must down=-5s v1:ready v2:unready,created=-5s", "must down=-5s v1:ready,armed", "must down=-5s v1:unready,marked",
			"must down=-50s v1:ready,deleting", "must down=-50s image-wait v1:ready", "stay down=-5s v1:ready", "leave down=-5s v1:ready",
		},
	}
}

func suspectCorner() corner {
	three := "revisions v1=-1h v2=-8s v3=-5s; set skip blame=10s "
	return corner{
		[]string{three + "max-unavailable=1", three + "max-surge=1", three + "max-unavailable=2 min-ready=3s"},
		[]string{
			"must down=-6s v2:unready,created=-7s", "must down=-6s v1:unready,deleted=-7s", "must v2:ready,created=-7s,since=-6s",
			"must down=-60s joined=-60s v3:unready,created=-60s", "must v2:unready,created=-7s", "must v3:ready,created=-4s,since=-3s",
			"must v3:ready", "must down=-2s v3:unready,created=-3s",
		},
	}
}

func guestCorner() corner {
	return corner{
		[]string{
			"set external max-unavailable=1", "set external max-unavailable=2 partition=1 progressive; hooked", "set external max-surge=1 in-place; in-place v1",
			"set external on-delete announce burst=1",
		},
		[]string{
			"must v2:failed", "must v1:failed", "must v1:ready v1:ready", "must v1:ready v2:ready", "must v1:ready,armed", "must v1:ready,waiting",
			"must v2:ready,waiting", "must v1:unready,marked", "must v1:ready,gate", "must last=v1", "stay v1:ready", "leave v1:ready",
			"gone v1:pending,unscheduled", "gone v1:ready", "must image-wait v1:ready",
		},
	}
}

func announceCorner() corner {
	return corner{
		[]string{
			"set announce on-delete", "set announce max-unavailable=1 burst=2", "set announce max-surge=1; hooked",
			"set announce in-place burst=1; in-place v1", "set max-unavailable=1",
		},
		[]string{
			"must v1:ready,says=old/v2", "must v2:ready,says=old/v2", "must v1:ready,says=old/v1", "must v1:ready,gate,says=new/v1",
			"must v1:ready,says=old/v2 v1:ready", "must v1:failed,says=new/v1", "must v1:ready,armed,says=new/v1", "stay v1:ready,says=new/v1",
			"leave v1:ready,says=new/v1", "gone v1:ready,says=new/v1",
		},
	}
}

// everyEdge calls f with all worlds of one and two nodes of each corner, together with ordinary ones.
func everyEdge(t *testing.T, f func(t *testing.T, w *world)) {
	for _, c := range corners() {
		nodes := slices.Concat(c.nodes, []string{"must", "must v1:ready", "must v1:unready", "must v2:ready", "must v1:ready,deleting"})
		for _, set := range c.sets {
			t.Run(set, func(t *testing.T) {
				for _, a := range nodes {
					f(t, build(t, set, a))
					for _, b := range nodes {
						f(t, build(t, set, a, b))
					}
				}
				few := []string{"v1:ready", "v2:ready"}
				for _, n := range c.nodes[:4] {
					few = append(few, strings.TrimPrefix(n, "must "))
				}
				threes(t, set, few, f)
			})
		}
	}
}
