// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// explained is the fit that the findings lead to.
func explained(rules *placement.Rules, n placement.Node) rollout.Fit {
	fit := rollout.MustRun
	for _, f := range rules.Explain(n) {
		fit = max(fit, f.Fit)
	}
	return fit
}

func TestExplainNamesTheRuleAndTheValues(t *testing.T) {
	rules := compile(t, `
nodeSelector: {disk: ssd, zone: a}
tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: pool, operator: In, values: [edge, core]}]
      - matchFields: [{key: metadata.name, operator: In, values: [n-2]}]
`)
	node := placement.Node{Name: "n-1", Labels: map[string]string{"disk": "hdd", "pool": "test"}, Taints: taints("gpu:NoSchedule full:NoExecute soft:PreferNoSchedule")}
	var got []string
	for _, f := range rules.Explain(node) {
		got = append(got, fmt.Sprintf("%s | %s | %d", f.Rule, f.Result, f.Fit))
	}
	want := []string{
		"nodeSelector disk=ssd | the node has disk=hdd | 3",
		"nodeSelector zone=a | the node has no label zone | 3",
		"node affinity, term 1: pool In (edge, core) | it does not match: the node has pool=test | 3",
		"node affinity, term 2: metadata.name In (n-2) | it does not match: the node is n-1 | 3",
		"taint gpu:NoSchedule | the pod tolerates it: gpu exists, NoSchedule | 1",
		"taint full:NoExecute | the pod does not tolerate it | 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := (*placement.Rules)(nil).Explain(node); got != nil {
		t.Errorf("rules that could not be read explain %v", got)
	}
}
