// SPDX-License-Identifier: Apache-2.0

package parity

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "k8s.io/apimachinery/pkg/util/json"
	defaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/rollout"
)

func digest(t *testing.T, ds *appsv1.DaemonSet) dialect.Workload {
	t.Helper()
	data, err := json.Marshal(ds)
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := kjson.Unmarshal(data, &obj); err != nil {
		t.Fatal(err)
	}
	return native.Digest(obj)
}

// plainSet is a set that says nothing that it need not say.
func plainSet() *appsv1.DaemonSet {
	labels := map[string]string{"app": "agent"}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "agents"}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template.Labels = labels
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a:1"}}
	return ds
}

func TestDefaultsAreTheAPIServers(t *testing.T) {
	for _, kind := range []appsv1.DaemonSetUpdateStrategyType{"", appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType} {
		plain := plainSet()
		plain.Spec.UpdateStrategy.Type = kind
		defaulted := plain.DeepCopy()
		defaults.SetObjectDefaults_DaemonSet(defaulted)
		got, want := digest(t, plain), digest(t, defaulted)
		if got.Set != want.Set || got.HistoryLimit != want.HistoryLimit || len(want.Problems) > 0 {
			t.Errorf("type %q: digested %+v, history %d; after defaulting %+v, history %d, %v",
				kind, got.Set, got.HistoryLimit, want.Set, want.HistoryLimit, want.Problems)
		}
	}
}

func TestBudgets(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	value := func() *intstr.IntOrString {
		if r.Intn(5) == 0 {
			return nil
		}
		v := pick(r, intstr.FromInt32(r.Int31n(20)), intstr.FromString(pick(r, "0%", "1%", "10%", "33%", "100%")))
		return &v
	}
	for range 5000 {
		ds := plainSet()
		ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: value(), MaxSurge: value()}
		ds.Spec.UpdateStrategy.Type = pick(r, "", appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType)
		defaults.SetObjectDefaults_DaemonSet(ds)
		nodes := r.Intn(1000)
		checkBudgets(t, ds, nodes)
	}
}

func checkBudgets(t *testing.T, ds *appsv1.DaemonSet, nodes int) {
	t.Helper()
	wantSurge, errSurge := util.SurgeCount(ds, nodes)
	wantUnavailable, errUnavailable := util.UnavailableCount(ds, nodes)
	if errSurge != nil || errUnavailable != nil {
		t.Fatal(errSurge, errUnavailable)
	}
	w := digest(t, ds)
	if w.Set.Strategy == rollout.OnDelete {
		// No budget matters here, but surge must be off.
		if wantSurge != 0 || w.Set.MaxSurge != (rollout.Quantity{}) {
			t.Fatalf("surge %+v, upstream has %d", w.Set.MaxSurge, wantSurge)
		}
		return
	}
	rolling := ds.Spec.UpdateStrategy.RollingUpdate
	if len(w.Problems) > 0 {
		// Both 0: upstream takes maxUnavailable for 1, later, in updatedDesiredNodeCounts.
		wantUnavailable = 1
		if wantSurge != 0 {
			t.Fatalf("problems %v with surge %d", w.Problems, wantSurge)
		}
	}
	if got := w.Set.MaxUnavailable.Of(nodes); got != wantUnavailable {
		t.Fatalf("maxUnavailable %s of %d nodes is %d, upstream has %d", rolling.MaxUnavailable, nodes, got, wantUnavailable)
	}
	if got := w.Set.MaxSurge.Of(nodes); got != wantSurge {
		t.Fatalf("maxSurge %s of %d nodes is %d, upstream has %d", rolling.MaxSurge, nodes, got, wantSurge)
	}
}

func TestTemplateGeneration(t *testing.T) {
	for _, text := range []string{"", "0", "3", "-3", "+3", "x", "9223372036854775807", "9223372036854775808", " 1"} {
		ds := plainSet()
		ds.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: text}
		want, err := util.GetTemplateGeneration(ds)
		got := digest(t, ds).TemplateGeneration
		if err != nil {
			want = nil
		}
		if show(got) != show(want) {
			t.Errorf("%q: got %s, upstream has %s", text, show(got), show(want))
		}
	}
}

// The status patch is a part of a DaemonSet, with no field that its type does not know.
func TestStatusPatch(t *testing.T) {
	count := int32(8)
	patch, _ := native.StatusPatch(&dialect.Workload{}, dialect.Report{
		Numbers:            rollout.Status{Desired: 1, Current: 2, Misscheduled: 3, Ready: 4, Updated: 5, Available: 6, Unavailable: 7},
		ObservedGeneration: 9, CollisionCount: &count,
	})
	decoder := json.NewDecoder(bytes.NewReader(patch))
	decoder.DisallowUnknownFields()
	ds := &appsv1.DaemonSet{}
	if err := decoder.Decode(ds); err != nil {
		t.Fatal(err)
	}
	want := appsv1.DaemonSetStatus{
		DesiredNumberScheduled: 1, CurrentNumberScheduled: 2, NumberMisscheduled: 3, NumberReady: 4, UpdatedNumberScheduled: 5,
		NumberAvailable: 6, NumberUnavailable: 7, ObservedGeneration: 9, CollisionCount: &count,
	}
	if show(ds.Status) != show(want) {
		t.Errorf("got %s, want %s", show(ds.Status), show(want))
	}
}

func TestEventReasons(t *testing.T) {
	for ours, theirs := range map[string]string{
		native.ReasonSelectingAll:       daemon.SelectingAllReason,
		native.ReasonFailedPlacement:    daemon.FailedPlacementReason,
		native.ReasonFailedDaemonPod:    daemon.FailedDaemonPodReason,
		native.ReasonSucceededDaemonPod: daemon.SucceededDaemonPodReason,
		native.ReasonSuccessfulCreate:   controller.SuccessfulCreatePodReason,
		native.ReasonFailedCreate:       controller.FailedCreatePodReason,
		native.ReasonSuccessfulDelete:   controller.SuccessfulDeletePodReason,
		native.ReasonFailedDelete:       controller.FailedDeletePodReason,
	} {
		if ours != theirs {
			t.Errorf("ours is %s, upstream's %s", ours, theirs)
		}
	}
}
