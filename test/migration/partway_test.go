// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"everynode.dev/everynode/test/harness"
)

// partwayNodes is how many nodes run the set, and partwayHeld how many of them a partition holds back.
const partwayNodes, partwayHeld = 4, 2

// partway: a set is taken back to apps/v1 while a partition holds its update back. There nothing holds it, so it goes on; also
// where a pod carries the number that the template of the set of apps/v1 has, from the time before it became an Advanced one.
func partway(t *testing.T) {
	s := cluster(t).Space(t, partwayNodes)
	older := recorded(t, "minimal", kubernetes132)
	newer := older.with(minimalImage, minimalImage2, "")
	apply(t, s, pooled(s, older.manifest(native, standard)))
	s.Wait("the native set runs", harness.RolledOut(agent, 1, partwayNodes))
	w := newWitness(t, s)
	const held = `{"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}`
	handOver(t, s, w, pooled(s, older.manifest(beta, held)), nativeSets, beta)
	apply(t, s, pooled(s, newer.manifest(beta, held)))
	s.Wait("the partition holds the rest back", harness.Observed(agent, 2), harness.StatusIs(agent, "held", func(status appsv1.DaemonSetStatus) bool {
		return status.UpdatedNumberScheduled == partwayNodes-partwayHeld && status.NumberAvailable == partwayNodes
	}))
	w.testify(t).oneEach(t, "updated so far")

	orphan(t, s, advancedSets)
	w.sawNothing(t, "orphaned in mid-roll")
	apply(t, s, pooled(s, newer.manifest(native, standard)))
	s.Wait("the update goes on", image(minimalImage2), harness.RolledOut(agent, 1, partwayNodes))
	seen := w.testify(t)
	seen.oneEach(t, "the rest of the update")
	if got := fmt.Sprint(len(seen.made), len(seen.ended), len(seen.restarted)); got != fmt.Sprint(partwayHeld, partwayHeld, 0) {
		t.Errorf("pods made %v, ended %v, restarted %v: want those that were held back", seen.made, seen.ended, seen.restarted)
	}
}
