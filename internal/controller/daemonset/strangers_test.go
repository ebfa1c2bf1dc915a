// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestATenantCannotTakeThePlaceOfAPod: a tenant of another namespace, who knows the UID of a set, makes a pod on each node whose pod is being replaced. The
// set has all of its own pods in the end.
func TestATenantCannotTakeThePlaceOfAPod(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.settle()
	made := 0
	w.before = func(verb, name string) error {
		if p := w.pods[name]; verb == "delete" && p != nil {
			made++
			evil := p.DeepCopy()
			evil.Namespace, evil.Name, evil.UID = "evil", fmt.Sprint("a", made), types.UID(fmt.Sprint("evil-", made))
			evil.ResourceVersion, evil.CreationTimestamp = w.next(), metav1.NewTime(w.clock.Now())
			evil.Labels["pod-template-generation"] = "2"
			evil.Status.Phase = corev1.PodRunning
			w.seePod(evil)
		}
		return nil
	}
	w.edit("img:v2")
	w.settle()
	if made != 3 || len(w.pods) != 3 || w.status("updatedNumberScheduled") != 3 || w.status("numberAvailable") != 3 {
		t.Errorf("the tenant has made %d pods; %d pods, updated %d, available %d, want 3 of each", made, len(w.pods), w.status("updatedNumberScheduled"), w.status("numberAvailable"))
	}
}

// TestAPodOfAStrangerInTheWay: the pod of a stranger has the name that the set has for its pod. It names the UID of the set, but another kind or another
// group; or it has the labels of the set and no owner, is being deleted, and does not go. It is not the set's own, and cannot be, so the pod of the set gets
// the second name.
func TestAPodOfAStrangerInTheWay(t *testing.T) {
	owner := func(version, kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "ds", UID: "set-uid", Controller: new(true)}}
		}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"another kind":  owner("apps/v1", "ReplicaSet"),
		"another group": owner("apps.kruise.io/v1beta1", "DaemonSet"),
		"no owner, being deleted": func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: p.CreationTimestamp.Time}, []string{"example.com/other"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.before = func(verb, name string) error {
				if verb == "create" && len(w.pods) == 0 {
					p := &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{
							Namespace: "ns", Name: name, UID: "strange", ResourceVersion: w.next(), CreationTimestamp: metav1.NewTime(w.clock.Now()),
							Labels: map[string]string{"app": "x", "controller-revision-hash": w.newestHash()},
						},
						Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
					}
					change(p)
					w.pods[name] = p
				}
				return nil
			}
			w.settle()
			if w.status("numberAvailable") != 1 {
				t.Errorf("no pod is available: %v", w.log)
			}
		})
	}
}

// newestHash is that of the only revision.
func (w *world) newestHash() string {
	for _, r := range w.revisions {
		return r.Labels["controller-revision-hash"]
	}
	return ""
}

// TestSeveralPodsOfStrangersInTheWay: the pods of strangers have the first ten names that the set has for its pod, one after the other. The pod gets the next
// one. With eleven the node is blocked, and the pod follows when one of them has gone.
func TestSeveralPodsOfStrangersInTheWay(t *testing.T) {
	for many, blocked := range map[int]bool{3: false, 10: false, 11: true} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.before = func(verb, name string) error {
				if i := len(w.pods); verb == "create" && i < many && w.pods[name] == nil {
					w.pods[name] = &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint("strange-", i)), ResourceVersion: w.next()},
						Spec:       corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
					}
				}
				return nil
			}
			w.settle()
			if got := w.status("numberAvailable") == 0; got != blocked {
				t.Fatalf("blocked %t, want %t: %v", got, blocked, w.log)
			}
			w.before = nil
			for name := range w.pods {
				if blocked {
					w.gone(name)
					break
				}
			}
			w.clock.Step(time.Minute)
			w.settle()
			if w.status("numberAvailable") != 1 {
				t.Errorf("no pod is available: %v", w.log)
			}
		})
	}
}

// TestAnOwnPodInTheWay: a stranger's pod has the first name that a set with a surge has for its pod, and a pod of the set has the second one: an old one that it has adopted, or
// the last one, which is being deleted and does not go. The next pod gets the third name.
func TestAnOwnPodInTheWay(t *testing.T) {
	for name, adopted := range map[string]bool{"adopted": true, "being deleted": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, func(ds *appsv1.DaemonSet) {
				ds.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}
			})
			w.before = func(verb, name string) error {
				if i := len(w.pods); verb == "create" && (i == 0 || i == 1 && adopted) && w.pods[name] == nil {
					w.pods[name] = &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint("strange-", i)), ResourceVersion: w.next()},
						Spec:       corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
					}
					if i == 1 {
						w.pods[name].Labels = map[string]string{"app": "x"}
					}
				}
				return nil
			}
			w.settle()
			for _, p := range w.pods {
				if !adopted && p.Labels["app"] == "x" {
					p.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
					p.Finalizers, p.ResourceVersion = []string{"example.com/keep"}, w.next()
					w.seePod(p)
				}
			}
			for range 5 {
				w.clock.Step(time.Minute)
				w.settle()
			}
			serving := 0
			for _, p := range w.pods {
				if p.Labels["controller-revision-hash"] != "" && p.DeletionTimestamp == nil {
					serving++
				}
			}
			if serving != 1 {
				t.Errorf("%d pods of the newest revision, want 1: %v", serving, w.log)
			}
		})
	}
}
