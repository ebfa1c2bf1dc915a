// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// kind is a kind of fault.
type kind string

// The kinds of faults.
const (
	killLeader       kind = "leader killed"
	killStandby      kind = "standby killed"
	killAPIServer    kind = "API server killed"
	killEtcd         kind = "etcd killed"
	cutNodes         kind = "nodes cut"
	cutAndKill       kind = "nodes cut, leader killed"
	killServerLeader kind = "API server and leader killed"
	freezeLeader     kind = "leader frozen"
	deleteLease      kind = "lease deleted"
)

// fault is one of a schedule.
type fault struct {
	kind kind
	// after is how long the users are left alone before it, and hold how long it lasts at least.
	after, hold time.Duration
	// nodes is the share of the nodes that are cut, in percent.
	nodes int
	// seed decides what is left to decide: which nodes, and what the users do meanwhile.
	seed uint64
}

// schedule draws that many rounds: in each, every one of the kinds comes once, in any order.
func schedule(seed uint64, rounds int, kinds ...kind) []fault {
	random := rand.New(rand.NewPCG(seed, 0))
	var faults []fault
	for range rounds {
		round := slices.Clone(kinds)
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		for _, k := range round {
			faults = append(faults, fault{
				kind: k, after: seconds(random, 3, 8), hold: seconds(random, 0, 4), nodes: 2 + random.IntN(4), seed: random.Uint64(),
			})
		}
	}
	return faults
}

func seconds(random *rand.Rand, least, most int) time.Duration {
	return time.Duration(least*1000+random.IntN((most-least)*1000)) * time.Millisecond
}

// TestSchedule: a seed is a schedule, and another one another.
func TestSchedule(t *testing.T) {
	kinds := []kind{killLeader, killAPIServer, cutNodes}
	first := schedule(7, 4, kinds...)
	if !slices.Equal(first, schedule(7, 4, kinds...)) {
		t.Error("the same seed is another schedule")
	}
	if slices.Equal(first, schedule(8, 4, kinds...)) {
		t.Error("another seed is the same schedule")
	}
	for round := range slices.Chunk(first, len(kinds)) {
		for _, k := range kinds {
			if !slices.ContainsFunc(round, func(f fault) bool { return f.kind == k }) {
				t.Errorf("a round without %s: %v", k, round)
			}
		}
	}
}
