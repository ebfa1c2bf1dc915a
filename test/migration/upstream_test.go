// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"testing"

	"everynode.dev/everynode/test/harness"
)

// aside is what the manager says while upstream's controller is at work, and alone when it is no longer: see
// internal/controller/conflict.
const (
	aside = "another controller reconciles the DaemonSets of apps/v1"
	alone = "No other controller reconciles the DaemonSets of apps/v1"
)

// besideUpstream: kube-controller-manager looks after the sets of apps/v1, Everynode after the Advanced ones. A set that the one
// has made and rolled goes to the other and comes back.
func besideUpstream(t *testing.T) {
	c := cluster(t)
	s := c.Space(t, allNodes)
	upstream := c.Hands(t)[harness.Native]
	c.Kill(t, harness.ManagerComponent)
	upstream.Start(t)
	p := recorded(t, "minimal", kubernetes132)
	apply(t, s, p.manifest(native, standard))
	s.Wait("upstream's controller has made the set", harness.RolledOut(agent, 1, allNodes))
	said := len(c.Log(harness.ManagerComponent))
	c.StartComponent(t, harness.ManagerComponent)
	rollTo(t, s, nativeSets, minimalImage2)
	waitLog(s, said, aside)

	w := newWitness(t, s)
	now := p.with(minimalImage, minimalImage2, "")
	handOver(t, s, w, now.manifest(beta, inPlace), nativeSets, beta)
	rollTo(t, s, advancedSets, minimalImage3)
	w.testify(t).oneEach(t, "the roll")
	now = p.with(minimalImage, minimalImage3, "")
	handOver(t, s, w, now.manifest(native, standard), advancedSets, native)
	wantNumbers(t, s.View(), 1, 2, 3)

	said = len(c.Log(harness.ManagerComponent))
	upstream.Kill(t)
	waitLog(s, said, alone)
}
