// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// largeStatus is the status of many daemon sets with ten waves each, of which 50 nodes of each have begun.
func largeStatus(number int, phase v1alpha1.Phase) (sets []v1alpha1.SetStatus) {
	at := metav1.Unix(1_800_000_000, 0)
	for i := range number {
		name := fmt.Sprintf("logging-agent-of-team-%04d", i)
		st := v1alpha1.SetStatus{
			APIVersion: "apps/v1", Name: name, Enforcement: v1alpha1.EnforcementFull, Phase: phase, TargetRevision: name + "-5b7d9c8f6d", TargetNumber: 12, UID: types.UID("5d4a3c1e-7f6b-4d2a-9c8e-" + fmt.Sprintf("%012d", i)),
			ObservedGeneration: 17, CommittedRevision: name + "-7c6d5f4b8c", CommittedDigest: strings.Repeat("0123456789abcdef", 4), StartedAt: &at,
		}
		if phase == v1alpha1.PhaseComplete {
			st.CommittedRevision, st.StartedAt = st.TargetRevision, nil
		} else {
			st.Attempt, st.Wave = 1, "wave-3"
			st.Blocking = []v1alpha1.Blocking{{Reason: "NodesNotReady", Message: strings.Repeat("The wave waits for nodes that are not ready. ", 10)}}
		}
		for k := range 10 {
			w := v1alpha1.WaveStatus{Name: fmt.Sprint("wave-", k), Nodes: 100, Phase: v1alpha1.WavePending}
			if k <= 3 || phase == v1alpha1.PhaseComplete {
				w.Phase, w.CompletedAt, w.Approval, w.ApprovedBy = v1alpha1.WavePassed, &at, "approve-"+name, "ada@example.com"
			}
			if k == 3 && phase != v1alpha1.PhaseComplete {
				w.Phase = v1alpha1.WaveRolling
			}
			for n := 0; n < 50 && k <= 3 && phase != v1alpha1.PhaseComplete; n++ {
				w.Begun = append(w.Begun, fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", k, n))
			}
			st.Waves = append(st.Waves, w)
		}
		sets = append(sets, st)
	}
	return sets
}

func sizeOf(t *testing.T, sets []v1alpha1.SetStatus) int {
	t.Helper()
	data, err := json.Marshal(sets)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// TestBoundedStatus: etcd stores the status of 2,000 daemon sets at rest, or of some hundred that roll. What decisions need stays, and so do all details of sets that roll while sets at rest are too large.
func TestBoundedStatus(t *testing.T) {
	const etcd = 1536 * 1024
	for name, all := range map[string][]v1alpha1.SetStatus{
		"at rest": largeStatus(2000, v1alpha1.PhaseComplete),
		"rolling": largeStatus(300, v1alpha1.PhaseRolling),
		"both":    append(largeStatus(30, v1alpha1.PhaseRolling), largeStatus(1000, v1alpha1.PhaseComplete)...),
	} {
		before := sizeOf(t, all)
		copied := make([]v1alpha1.SetStatus, len(all))
		for i := range all {
			copied[i] = *all[i].DeepCopy()
		}
		got := policy.Bounded(all)
		after := sizeOf(t, got)
		t.Logf("%s: %d sets have %d bytes, %d stored", name, len(all), before, after)
		if before <= etcd || after > etcd*7/8 || len(got) != len(all) {
			t.Errorf("%s: %d sets with %d bytes become %d with %d", name, len(all), before, len(got), after)
		}
		if !reflect.DeepEqual(all, copied) {
			t.Errorf("%s: what was given has changed", name)
		}
		for i := range got {
			was, is := &all[i], &got[i]
			if name == "both" && was.Phase == v1alpha1.PhaseRolling && !reflect.DeepEqual(was, is) {
				t.Fatalf("%s is shortened: %+v", is.Name, is)
			}
			for k := range was.Waves {
				if was.Phase == v1alpha1.PhaseComplete {
					break
				}
				want := was.Waves[k]
				if want.Phase == v1alpha1.WavePassed && is.Waves[k].Begun == nil {
					want.Begun = nil
				}
				if !reflect.DeepEqual(is.Waves[k], want) {
					t.Fatalf("%s: the wave %+v is stored as %+v", name, was.Waves[k], is.Waves[k])
				}
			}
			without := *was
			without.Waves, without.Blocking = is.Waves, is.Blocking
			if !reflect.DeepEqual(&without, is) || len(is.Blocking) != len(was.Blocking) || len(is.Blocking) > 0 && is.Blocking[0].Reason != was.Blocking[0].Reason {
				t.Fatalf("%s: %+v is stored as %+v", name, was, is)
			}
		}
	}
	few := largeStatus(50, v1alpha1.PhaseRolling)
	if !reflect.DeepEqual(policy.Bounded(few), few) {
		t.Error("a small status is shortened")
	}
}

// TestFailedNodesAreStored: etcd stores the status also if the revisions of many daemon sets have failed on so many nodes that their names alone are too large. While the names are not,
// they stay: nodes count also when they have left their wave.
func TestFailedNodesAreStored(t *testing.T) {
	for number, stays := range map[int]bool{1: true, 200: false} {
		sets := largeStatus(number, v1alpha1.PhaseRolling)
		for i := range sets {
			w := &sets[i].Waves[3]
			for n := range 256 {
				w.FailedNodes = append(w.FailedNodes, v1alpha1.FailedNode{Name: fmt.Sprintf("ip-10-0-3-%d.ec2.internal", n), Reason: "CrashLoopBackOff"})
			}
			w.Failed = 256
		}
		got := policy.Bounded(sets)
		if after := sizeOf(t, got); after > 1536*1024*7/8 {
			t.Errorf("%d sets with failed nodes have %d bytes", number, after)
		}
		if w := &got[0].Waves[3]; (len(w.FailedNodes) == 256) != stays || w.Failed != 256 {
			t.Errorf("%d sets: %d of %d failed nodes are named", number, len(w.FailedNodes), w.Failed)
		}
	}
}
