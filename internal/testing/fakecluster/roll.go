// SPDX-License-Identifier: Apache-2.0

package fakecluster

import (
	"fmt"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	kruiseapi "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/revision"
)

// Roll is a daemon set in the middle of a roll from registry.example/agent:1 to :2.
type Roll struct {
	Name     string
	Advanced bool
	// Letters say for each node, node-1 and so on, which pod it has:
	//
	//	u new and ready    a new, not ready    o old and ready    t old and terminating    - none
	//
	// A capital letter is the same on a node that is not ready; n is a node with a taint that keeps pods away.
	Letters string
	// Spec is merged into that of the set, Annotations are those of the set.
	Spec        map[string]any
	Annotations map[string]string
}

// Hashes of the two revisions.
const (
	OldHash = "6b8f7d4c9"
	NewHash = "7c9d5f6b8"
)

// Template is the pod template of an image.
func (r Roll) Template(image string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": r.Name}},
		"spec": map[string]any{"containers": []any{map[string]any{
			"name": "agent", "image": image, "env": []any{map[string]any{"name": "LEVEL", "value": "info"}},
		}}},
	}
}

// UID is the UID of the set.
func (r Roll) UID() types.UID { return types.UID("uid-of-" + r.Name) }

// Object is the set.
func (r Roll) Object() *unstructured.Unstructured {
	version := "apps/v1"
	if r.Advanced {
		version = kruiseapi.Group + "/" + kruiseapi.VersionStored
	}
	spec := map[string]any{
		"selector":       map[string]any{"matchLabels": map[string]any{"app": r.Name}},
		"template":       r.Template("registry.example/agent:2"),
		"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(2)}},
	}
	maps.Copy(spec, r.Spec)
	annotations := map[string]any{}
	for key, value := range r.Annotations {
		annotations[key] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": "DaemonSet",
		"metadata": map[string]any{
			"namespace": "default", "name": r.Name, "uid": string(r.UID()), "generation": int64(2), "annotations": annotations,
			"creationTimestamp": Now().Add(-48 * time.Hour).Format(time.RFC3339), "resourceVersion": "7",
		},
		"spec": spec, "status": map[string]any{"observedGeneration": int64(2)},
	}}
}

// Nodes are the nodes.
func (r Roll) Nodes() []runtime.Object {
	var nodes []runtime.Object
	for i, letter := range r.Letters {
		node := Node(fmt.Sprintf("node-%d", i+1), letter < 'A' || letter > 'Z')
		if letter == 'n' {
			node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// Pods are the pods.
func (r Roll) Pods() []runtime.Object {
	var pods []runtime.Object
	for i, letter := range r.Letters {
		if pod := r.pod(fmt.Sprintf("node-%d", i+1), letter|0x20); pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (r Roll) pod(node string, letter rune) *corev1.Pod {
	hash, ready, since := OldHash, corev1.ConditionTrue, Now().Add(-24*time.Hour)
	switch letter {
	case 'u', 'a':
		hash, since = NewHash, Now().Add(-2*time.Minute)
	case 'o', 't':
	default:
		return nil
	}
	if letter == 'a' {
		ready = corev1.ConditionFalse
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: r.Name + "-" + node + "-" + hash[:3], UID: types.UID(r.Name + node + hash), ResourceVersion: "5",
			Labels:            map[string]string{"app": r.Name, appsv1.ControllerRevisionHashLabelKey: hash},
			CreationTimestamp: metav1.NewTime(since), OwnerReferences: []metav1.OwnerReference{r.owner()},
		},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "agent"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since.Add(10 * time.Second))}}},
	}
	if letter == 't' {
		end, grace := metav1.NewTime(Now().Add(20*time.Second)), int64(30)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = &end, &grace, []string{"example.com/hold"}
	}
	return pod
}

func (r Roll) owner() metav1.OwnerReference {
	yes, version := true, "apps/v1"
	if r.Advanced {
		version = kruiseapi.Group + "/" + kruiseapi.VersionStored
	}
	return metav1.OwnerReference{APIVersion: version, Kind: "DaemonSet", Name: r.Name, UID: r.UID(), Controller: &yes}
}

// Revisions are the two revisions.
func (r Roll) Revisions(tb testing.TB) []runtime.Object {
	tb.Helper()
	var revisions []runtime.Object
	for i, hash := range []string{OldHash, NewHash} {
		data, err := revision.Data(r.Template(fmt.Sprintf("registry.example/agent:%d", i+1)))
		if err != nil {
			tb.Fatal(err)
		}
		revisions = append(revisions, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: r.Name + "-" + hash, UID: types.UID(r.Name + hash), ResourceVersion: "3",
				Labels:          map[string]string{"app": r.Name, appsv1.ControllerRevisionHashLabelKey: hash},
				OwnerReferences: []metav1.OwnerReference{r.owner()}, CreationTimestamp: metav1.NewTime(Now().Add(time.Duration(i-2) * 24 * time.Hour)),
			},
			Revision: int64(i + 1), Data: runtime.RawExtension{Raw: data},
		})
	}
	return revisions
}

// Objects are all of it.
func (r Roll) Objects(tb testing.TB) []runtime.Object {
	tb.Helper()
	objects := append(r.Nodes(), r.Pods()...)
	return append(append(objects, r.Revisions(tb)...), r.Object())
}
