// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// A policy of 1.5 MiB has room for 45,000 terms, each of which would be evaluated for each node in each pass: with 5,000 nodes for seconds, in which the sets of other users wait. The
// policy is not followed then. Its targets are found all the same, so nothing starts without it.
func TestSelectorOfAWaveWithTooManyTerms(t *testing.T) {
	for terms, want := range map[int]bool{policy.MostTerms: true, policy.MostTerms + 1: false} {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		for i := range terms - 1 {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist})
		}
		p := policy.Read(&v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: v1alpha1.RolloutPolicySpec{
			Targets: []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Selector: selector}},
			Waves:   []v1alpha1.Wave{{Name: "canary", Nodes: v1alpha1.WaveNodes{Selector: selector}}},
		}})
		if !p.Selects(policy.Set{Namespace: "ns", Labels: map[string]string{"a": "b"}}) {
			t.Errorf("%d terms: the policy does not apply to its target", terms)
		}
		if is := len(p.Problems) == 0; is != want || !is && !strings.Contains(p.Problems[0], "spec.waves[0].nodes.selector") {
			t.Errorf("%d terms: problems %q", terms, p.Problems)
		}
	}
}

// TestSelectorOfAWaveWithTooManyValues: the values of a term cost as much as terms do, because each is compared for each node in each pass.
func TestSelectorOfAWaveWithTooManyValues(t *testing.T) {
	for values, want := range map[int]bool{policy.MostValues: true, policy.MostValues + 1: false} {
		selector := &metav1.LabelSelector{}
		for range 2 {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "kubernetes.io/hostname", Operator: metav1.LabelSelectorOpIn})
		}
		for i := range values {
			e := &selector.MatchExpressions[i%2]
			e.Values = append(e.Values, fmt.Sprint("node-", i))
		}
		p := policy.Read(&v1alpha1.RolloutPolicy{Spec: v1alpha1.RolloutPolicySpec{Waves: []v1alpha1.Wave{{Name: "canary", Nodes: v1alpha1.WaveNodes{Selector: selector}}}}})
		if is := len(p.Problems) == 0; is != want || !is && p.Problems[0] != "spec.waves[0].nodes.selector: its terms have 1001 values, and at most 1000 are allowed: label the nodes, and select them by that label" {
			t.Errorf("%d values: problems %q", values, p.Problems)
		}
	}
}
