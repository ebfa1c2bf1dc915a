// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"encoding/json"
	"math/rand"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/randfill"
)

// daemonSet wraps a template as upstream's controller has it: read from protobuf.
func daemonSet(t testing.TB, template *corev1.PodTemplateSpec) *appsv1.DaemonSet {
	t.Helper()
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "agents", UID: "u1"}}
	ds.Spec.Template = *template
	data, err := ds.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read := &appsv1.DaemonSet{}
	if err := read.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return read
}

// undecoded is the template of ds as Everynode has it: read from JSON, without types.
func undecoded(t testing.TB, ds *appsv1.DaemonSet) map[string]any {
	t.Helper()
	data, err := json.Marshal(ds.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	var template map[string]any
	if err := kjson.Unmarshal(data, &template); err != nil {
		t.Fatal(err)
	}
	return template
}

// randomTemplates makes templates with every field that the types have, filled with nonsense.
func randomTemplates(seed int64) func() *corev1.PodTemplateSpec {
	filler := randfill.NewWithSeed(seed).NilChance(0.6).NumElements(0, 2).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"0", "1", "1500m", "2Gi", "1e3", "0.1"}[c.Intn(6)])
		},
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(c.Int63n(1<<32), 0) },
	)
	return func() *corev1.PodTemplateSpec {
		template := &corev1.PodTemplateSpec{}
		filler.Fill(template)
		// Nobody has these in a template, and random ones are not JSON.
		template.ManagedFields = nil
		return template
	}
}

// pick is one of values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.Intn(len(values))] }

// several is up to most things made by one.
func several[T any](r *rand.Rand, most int, one func() T) []T {
	var list []T
	for range r.Intn(most + 1) {
		list = append(list, one())
	}
	return list
}
