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
