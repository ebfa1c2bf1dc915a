// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"everynode.dev/everynode/internal/placement"
)

func compileSpec(t testing.TB, decoded map[string]any) *placement.Rules {
	t.Helper()
	rules, err := placement.Compile(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func commonNode() placement.Node {
	return placement.Node{
		Name: "node-17",
		Labels: map[string]string{
			"kubernetes.io/hostname": "node-17", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"topology.kubernetes.io/zone": "b", "pool": "workers",
		},
		Taints: []corev1.Taint{
			{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
			{Key: "gpu", Value: "a", Effect: corev1.TaintEffectNoSchedule},
		},
	}
}

func TestFitDoesNotAllocate(t *testing.T) {
	node := commonNode()
	for _, text := range []string{`{}`, `{nodeSelector: {pool: workers}}`, `{tolerations: [{operator: Exists}]}`} {
		rules := compile(t, text)
		if n := testing.AllocsPerRun(100, func() { rules.Fit(node) }); n > 0 {
			t.Errorf("%s: Fit allocates %v times", text, n)
		}
	}
}

func BenchmarkFit(b *testing.B) {
	for name, text := range map[string]string{
		"plain":    `{}`,
		"selector": `{nodeSelector: {pool: workers, kubernetes.io/os: linux}}`,
		"affinity": `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [workers, others]}]}]}}}}`,
	} {
		rules, node := compile(b, text), commonNode()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.Fit(node)
			}
		})
	}
}

// FuzzCompile compiles arbitrary specs: Compile either returns rules, which then work, or an error.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"nodeName":1}`, `{"tolerations":[null]}`, `{"tolerations":[{"key":"a","operator":"Lt","value":"x"}]}`,
		`{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[null,{"matchFields":[{}]}]}}}}`,
		`{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}},"nodeSelector":{"":""},"hostNetwork":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var decoded map[string]any
		if json.Unmarshal(input, &decoded) != nil {
			return
		}
		rules, err := placement.Compile(decoded)
		if rules == nil {
			if err == nil {
				t.Fatal("neither rules nor an error")
			}
			return
		}
		if fit := rules.Fit(commonNode()); fit == 0 {
			t.Fatal("the node is not evaluated")
		}
		checkTolerations(t, rules)
	})
}

// checkTolerations checks that the pod's tolerations are those that the template's nodes were chosen with: compiling
// them again adds nothing and gives the same answers.
func checkTolerations(t *testing.T, rules *placement.Rules) {
	again := compileSpec(t, map[string]any{"tolerations": rules.Tolerations()})
	first, _ := json.Marshal(rules.Tolerations())
	second, _ := json.Marshal(again.Tolerations())
	if string(first) != string(second) {
		t.Fatalf("the tolerations %s become %s", first, second)
	}
}
