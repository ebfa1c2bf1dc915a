// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// owned are the pods that the set controls, with their images.
func (w *world) owned() map[string]string {
	all := map[string]string{}
	for name, p := range w.pods {
		if ref := metav1.GetControllerOf(p); ref != nil && ref.UID == w.set.GetUID() {
			all[name] = p.Spec.Containers[0].Image
		}
	}
	return all
}

// A pod that somebody has taken away from the set, by its label, keeps its name. The set may need that name again.
func TestAPodThatWasTakenAwayBlocksNoOther(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.settle()
	for _, p := range w.pods {
		p.Labels = map[string]string{"app": "looked-at"}
		w.changed(p)
	}
	w.settle()
	for _, image := range []string{"img:v2", "img:v1", "img:v2", "img:v1"} {
		w.edit(image)
		w.settle()
		owned := w.owned()
		if len(owned) != 1 || len(w.pods) != 2 {
			t.Fatalf("%s: owns %v of %d pods; want one of two", image, owned, len(w.pods))
		}
		for name, has := range owned {
			if has != image {
				t.Errorf("pod %s has %s, want %s", name, has, image)
			}
		}
	}
}

// A name is needed that a pod has which may become the set's own, as soon as the watch has shown it: that is waited for.
func TestAPodThatCanBeAdoptedIsNotPassedBy(t *testing.T) {
	other := newWorld(t, 1, nil)
	other.mustPass()
	name := other.wrote("create")[0]
	orphan := other.pods[name].DeepCopy()
	orphan.OwnerReferences = nil

	w := newWorld(t, 1, nil)
	w.pods[name] = orphan
	w.mustPass()
	if created := w.wrote("create"); len(created) != 1 || created[0] != name {
		t.Fatalf("created %v; want no other name than %s", created, name)
	}
	w.settle()
	if owned := w.owned(); len(owned) != 1 || owned[name] == "" {
		t.Errorf("owns %v, want the pod %s", owned, name)
	}
}

// With surge a pod gets a successor while it is terminating, and that one may have to go as well before the first one has gone.
func TestPodsThatCannotGoLeaveANameForTheNext(t *testing.T) {
	w := newWorld(t, 1, func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1))},
		}
	})
	w.settle()
	for pods := 2; pods < 6; pods++ {
		for name := range w.owned() {
			if p := w.pods[name]; p.DeletionTimestamp == nil {
				p.Finalizers = []string{"example.io/wait"}
				p.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
				w.changed(p)
			}
		}
		w.settle()
		if owned := w.owned(); len(owned) != pods {
			t.Fatalf("owns %v, want %d terminating pods and one more", owned, pods-1)
		}
	}
}
