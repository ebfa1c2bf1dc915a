// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"encoding/json"
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"

	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// The words of these tests: few, so that things often match.
var (
	keys  = []string{"a", "b", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable", "node.kubernetes.io/network-unavailable"}
	words = []string{"", "1", "2", "x"}
	names = []string{"n1", "n2"}
)

func randomTaint(r *rand.Rand) corev1.Taint {
	return corev1.Taint{
		Key: pick(r, keys...), Value: pick(r, words...),
		Effect: pick(r, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule, "Other"),
	}
}

func randomNode(r *rand.Rand) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pick(r, names...), Labels: map[string]string{}}}
	for _, key := range keys[:2] {
		if r.Intn(2) == 0 {
			node.Labels[key] = pick(r, words...)
		}
	}
	node.Spec.Taints = several(r, 2, func() corev1.Taint { return randomTaint(r) })
	return node
}

func randomToleration(r *rand.Rand) corev1.Toleration {
	toleration := corev1.Toleration{
		Key:      pick(r, append(keys, "")...),
		Operator: pick(r, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt, "Near"),
		Value:    pick(r, words...),
		Effect:   pick(r, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute),
	}
	if toleration.Operator == corev1.TolerationOpExists && r.Intn(2) == 0 {
		toleration.Value = ""
	}
	if r.Intn(3) == 0 {
		seconds := int64(r.Intn(100))
		toleration.TolerationSeconds = &seconds
	}
	return toleration
}

func randomRequirement(r *rand.Rand, key string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: key,
		Operator: pick(r, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, "Near"),
		Values: several(r, 2, func() string { return pick(r, append(words, names...)...) }),
	}
}

func randomTerm(r *rand.Rand) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{
		MatchExpressions: several(r, 2, func() corev1.NodeSelectorRequirement { return randomRequirement(r, pick(r, keys[:2]...)) }),
		MatchFields: several(r, 1, func() corev1.NodeSelectorRequirement {
			return randomRequirement(r, pick(r, metav1.ObjectNameField, metav1.ObjectNameField, "metadata.uid"))
		}),
	}
}

func randomAffinity(r *rand.Rand) *corev1.Affinity {
	switch r.Intn(6) {
	case 0:
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	case 1:
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 3, Preference: randomTerm(r)}},
		}}
	case 2, 3:
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: several(r, 3, func() corev1.NodeSelectorTerm { return randomTerm(r) }),
			},
		}}
	default:
		return nil
	}
}

// randomPlacement makes a template that says something about nodes.
func randomPlacement(r *rand.Rand) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{}
	spec := &template.Spec
	spec.HostNetwork = r.Intn(3) == 0
	spec.Tolerations = several(r, 3, func() corev1.Toleration { return randomToleration(r) })
	spec.Affinity = randomAffinity(r)
	if r.Intn(8) == 0 {
		spec.NodeName = pick(r, names...)
	}
	if r.Intn(4) == 0 {
		spec.NodeSelector = map[string]string{pick(r, keys[:2]...): pick(r, words...)}
	}
	return template
}

func TestFit(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	seen := map[rollout.Fit]int{}
	for range 20000 {
		ds := daemonSet(t, randomPlacement(r))
		node := randomNode(r)
		run, stay := daemon.NodeShouldRunDaemonPod(klog.Background(), node, ds)
		want := fit(run, stay)
		seen[want]++
		template := undecoded(t, ds)
		rules, _ := placement.Compile(template["spec"].(map[string]any))
		got := rules.Fit(placement.Node{Name: node.Name, Labels: node.Labels, Taints: node.Spec.Taints})
		if got != want {
			t.Fatalf("got %v, upstream has %v\ntemplate %s\nnode %s", got, want, show(template), show(node))
		}
	}
	for _, kind := range []rollout.Fit{rollout.MustRun, rollout.MayStay, rollout.MustLeave} {
		if seen[kind] < 500 {
			t.Errorf("the answer %v came only %d times", kind, seen[kind])
		}
	}
}

func fit(run, stay bool) rollout.Fit {
	switch {
	case run:
		return rollout.MustRun
	case stay:
		return rollout.MayStay
	default:
		return rollout.MustLeave
	}
}

func show(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}

func TestTargetNode(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	found := 0
	for range 20000 {
		pod := &corev1.Pod{Spec: randomPlacement(r).Spec}
		want, err := util.GetTargetNodeName(pod)
		if err == nil {
			found++
		}
		if got := placement.TargetNode(pod); got != want {
			t.Fatalf("got %q, upstream has %q, %v\npod %s", got, want, err, show(pod))
		}
	}
	if found < 500 {
		t.Errorf("only %d pods had a target", found)
	}
}
