// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestPlanListsItsWaits: a document has each time in which updates wait for a window or a freeze, with durations that programs read; of many, a person sees the first ones and the last one.
func TestPlanListsItsWaits(t *testing.T) {
	night := "  windows: [{schedule: \"0 22 * * *\", duration: 1h}]\n  pace: {minTimeBetween: 2h, maxUpgrading: 50%, maxUnavailable: 1}\n" +
		"  freezes: [{from: \"2026-03-02T00:00:00Z\", to: \"2026-03-03T22:30:00Z\"}]\n"
	args := strings.Fields("agent --image agent=registry.example/agent:3 --local")
	cluster := governedCluster(t, policyOf(night))
	if err := cluster.Run(t, New, args...); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"It waits for the window that opens at Sun 22:00 UTC (after 10h0m0s).\n", "It waits for the freeze that ends at Tue 22:30 UTC (after 2d10h30m).\n",
		"more times for windows or freezes, the last time until 2026-03-07 22:00 UTC.\n",
		"Its pace is at most 50% of the nodes in progress (spec.pace.maxUpgrading), at most 1 node unavailable (spec.pace.maxUnavailable), at least 2h0m0s between two starts (spec.pace.minTimeBetween).\n",
	} {
		if !strings.Contains(cluster.Out.String(), want) {
			t.Errorf("it prints\n%s, want %s", cluster.Out, want)
		}
	}
	cluster.Out.Reset()
	if err := cluster.Run(t, New, append(args, "-o", "json")...); err != nil {
		t.Fatal(err)
	}
	d := &Document{}
	if err := json.Unmarshal(cluster.Out.Bytes(), d); err != nil {
		t.Fatal(err)
	}
	want := []PolicyWait{{"Window", "0s", "10h0m0s"}}
	if len(d.Policy.Waits) < 5 || !slices.Equal(d.Policy.Waits[:1], want) || *d.Policy.Pace != (PolicyPace{"50%", "1", "2h0m0s"}) {
		t.Errorf("the document has the waits %+v and the pace %+v", d.Policy.Waits, d.Policy.Pace)
	}
}

func TestSpan(t *testing.T) {
	for written, want := range map[string]string{
		"": "", "0s": "0s", "23h59m59s": "23h59m59s", "24h0m0s": "1d", "24h0m59s": "1d59s", "24h24m26s": "1d24m26s", "131h24m0s": "5d11h24m", "843h0m0s": "35d3h", "843h0m18.4s": "35d3h0m18s",
	} {
		if got := span(written); got != want {
			t.Errorf("%q is %q, want %q", written, got, want)
		}
	}
}

func TestPolicyWithoutPace(t *testing.T) {
	if p := paceOf(policy.Read(&v1alpha1.RolloutPolicy{})); p != nil {
		t.Errorf("it has the pace %+v", p)
	}
}
