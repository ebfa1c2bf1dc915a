// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"slices"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// mostOfSets is how many bytes the daemon sets of a status may have before Bounded takes details away. etcd refuses requests of more than 1.5 MiB, and the rest of a policy needs some of that.
const mostOfSets = 1 << 20

// mostInBounded is how many characters a message in blocking has then.
const mostInBounded = 100

// Bounded returns what is stored of daemon sets: without some details if they would be too large for etcd. It takes away only what no decision needs, first of the sets without an active rollout, then of the
// others: the waves and what was measured; then messages and measurements; then the names of nodes in waves that have passed, which take no other node;
// and last, because a status that is not stored holds all of these sets, those of failed nodes, which then count only while they are in their wave. It changes nothing that the given ones refer to.
func Bounded(sets []v1alpha1.SetStatus) []v1alpha1.SetStatus {
	for _, reduce := range []func(s *v1alpha1.SetStatus){withoutWaves, withoutDetails, withoutNames, withoutFailed} {
		if data, err := json.Marshal(sets); err != nil || len(data) <= mostOfSets {
			return sets
		}
		sets = slices.Clone(sets)
		for i := range sets {
			reduce(&sets[i])
		}
	}
	return sets
}

// withoutWaves reduces the status of a set without an active rollout.
func withoutWaves(s *v1alpha1.SetStatus) {
	if s.Phase == v1alpha1.PhaseComplete {
		s.Waves, s.Analyses, s.Alerts = nil, nil, nil
		withoutDetails(s)
	}
}

func withoutDetails(s *v1alpha1.SetStatus) {
	s.Blocking, s.Waves, s.Analyses = slices.Clone(s.Blocking), slices.Clone(s.Waves), slices.Clone(s.Analyses)
	for i := range s.Blocking {
		s.Blocking[i].Message = Shortened(s.Blocking[i].Message, mostInBounded)
	}
	for k := range s.Waves {
		w := &s.Waves[k]
		w.FailedNodes = slices.Clone(w.FailedNodes) // their names count when they leave the wave
		for j := range w.FailedNodes {
			w.FailedNodes[j] = v1alpha1.FailedNode{Name: w.FailedNodes[j].Name, Reason: w.FailedNodes[j].Reason}
		}
	}
	for k := range s.Analyses {
		s.Analyses[k].Measurements = s.Analyses[k].Measurements[max(len(s.Analyses[k].Measurements)-1, 0):]
	}
}

func withoutNames(s *v1alpha1.SetStatus) {
	s.Waves = slices.Clone(s.Waves)
	for k := range s.Waves {
		if s.Waves[k].Phase == v1alpha1.WavePassed {
			s.Waves[k].Begun = nil
		}
	}
}

func withoutFailed(s *v1alpha1.SetStatus) {
	s.Waves = slices.Clone(s.Waves)
	for k := range s.Waves {
		s.Waves[k].FailedNodes = nil
	}
}
