// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/podtemplate"
)

// holderPods are an API server on which a name belongs to one pod.
type holderPods struct {
	*slowPods
	pod *corev1.Pod
}

func (h holderPods) Find(context.Context, string, string) (*corev1.Pod, string, error) {
	return h.pod, h.pod.ResourceVersion, nil
}

// TestATerminatingHolderIsNotAdopted: a create meets an orphan that the index knows as live, and the read shows that it is terminating. A later list from
// before its deletion does not make it one to adopt.
func TestATerminatingHolderIsNotAdopted(t *testing.T) {
	e := executorOf(t, &slowPods{}, 1, "")
	known := e.Index.Ownership(setKey(0), 0).Adopt
	if len(known) != 1 {
		t.Fatalf("%d orphans are to be adopted before the read, want 1", len(known))
	}
	now := metav1.Now()
	e.Pods = holderPods{&slowPods{}, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p0", UID: uidOf(0), ResourceVersion: "500", Labels: map[string]string{"app": "a"},
			DeletionTimestamp: &now, Finalizers: []string{"example.com/keep"},
		},
		Spec: corev1.PodSpec{NodeName: "n0"},
	}}
	h, err := sender{Executor: e, key: setKey(0)}.holder(t.Context(), name{Params: podtemplate.Params{
		Namespace: "ns", SetName: "set0", Node: "n0", Hash: "h1", Owner: metav1.OwnerReference{APIVersion: "apps/v1", UID: "set"}, PodName: "p0",
	}})
	if err != nil || h.why == nil || !isStranger(e.Index.Workload(setKey(0)), h.pod) {
		t.Fatalf("the holder is %+v, error %v, want a stranger", h, err)
	}
	e.Index.ReplacePods([]*clustercache.Pod{&known[0]}, "100")
	if left := e.Index.Ownership(setKey(0), 0).Adopt; len(left) != 0 {
		t.Errorf("%s is to be adopted, although a read has shown that it is terminating", left[0].Name)
	}
}

// TestAnOwnPodInTheWayOfASlowCreate: a pod of the set has the name of a slow create. The create tries another name if the decision has counted that pod. If not, an earlier create
// may have made the pod.
func TestAnOwnPodInTheWayOfASlowCreate(t *testing.T) {
	for _, counted := range []bool{true, false} {
		e := executorOf(t, &slowPods{}, 1, "set")
		e.Pods = holderPods{&slowPods{}, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "p0", UID: uidOf(0), ResourceVersion: "500", Labels: map[string]string{"app": "a"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "set0", UID: "set", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: "n0"},
		}}
		c := &slowCreate{e: sender{Executor: e, key: setKey(0)}, workload: e.Index.Workload(setKey(0)), warn: func(error) {}, name: name{Params: podtemplate.Params{
			Namespace: "ns", SetName: "set0", Node: "n0", Hash: "h1", Owner: metav1.OwnerReference{APIVersion: "apps/v1", UID: "set"}, PodName: "p0",
		}}}
		if counted {
			c.name.counted = []string{string(uidOf(0))}
		}
		if again := c.exists(t.Context()); again != counted || (c.name.PodName != "p0") != counted {
			t.Errorf("counted %t: another try %t, with the name %s", counted, again, c.name.PodName)
		}
	}
}
