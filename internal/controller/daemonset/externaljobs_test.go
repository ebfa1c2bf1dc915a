// SPDX-License-Identifier: Apache-2.0

package daemonset

import "testing"

// When the annotation goes in mid-roll, nothing is left of what was pulled ahead for the roll: the set is another controller's again.
func TestJobsOfAnExternalSetGoWithTheAnnotation(t *testing.T) {
	e := newEdge(t, 3, "external", map[string]string{edgeStrategy: "AdvancedRollingUpdate", edgeLimit: "1"})
	j := e.pullAhead()
	e.roll()
	e.edit("img:v2")
	e.upstream()
	e.mustPass()
	if len(j.all) != 1 || e.served() == nil {
		t.Fatalf("in mid-roll the jobs are %v", j.all)
	}
	e.unannotate(edgeStrategy)
	e.mustPass()
	if len(j.all) > 0 || e.served() != nil {
		t.Errorf("without the annotation the jobs are %v", j.all)
	}
}
