// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/explain"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// agentOn is the pod of an agent that is ready.
func agentOn(node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: everynode.AgentNamespace, Name: "agent-" + node, Labels: map[string]string{everynode.AgentLabel: everynode.AgentName},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: everynode.AgentName, UID: "agents", Controller: new(true)}},
	}}
	p.Spec.NodeName, p.Status.Conditions = node, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// TestANodeThatWaitsForItsImage: where the manager has made a job, a node with an agent waits, and it is shown until when and what the agent reports.
func TestANodeThatWaitsForItsImage(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Advanced: true, Letters: "uoo", Spec: rolling(map[string]any{"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": "100%"})}
	objects := append(roll.Objects(t), agentOn("node-2"))
	hash, image := "", "registry.example/agent:2"
	for _, object := range objects {
		if p, ok := object.(*corev1.Pod); ok && p.Spec.NodeName == "node-1" {
			hash = p.Labels["controller-revision-hash"]
		}
	}
	name, tag, _ := strings.Cut(image, ":")
	asked := metav1.NewTime(fakecluster.Now().Add(-time.Minute)).Format(time.RFC3339)
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
		"metadata": map[string]any{"namespace": "default", "name": "agent-" + hash, "uid": "job", "creationTimestamp": asked,
			"labels":          map[string]any{"controller-revision-hash": hash},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": "agent", "uid": string(roll.UID()), "controller": true}}},
		"spec": map[string]any{"image": image, "completionPolicy": map[string]any{"type": "Never"}},
	}}
	node := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": map[string]any{"name": "node-2"},
		"spec": map[string]any{"images": map[string]any{name: map[string]any{"tags": []any{map[string]any{
			"tag": tag, "createdAt": asked, "version": int64(0), "ownerReferences": []any{map[string]any{"uid": "job"}},
		}}}}},
		"status": map[string]any{"imageStatuses": map[string]any{name: map[string]any{"tags": []any{map[string]any{
			"tag": tag, "phase": "Pulling", "version": int64(0), "message": "try 2: not found",
		}}}}},
	}}
	for line, want := range map[string][]string{
		"node-2 agent": {"wait-image", "the update starts without it in 4m", image + ": Pulling, try 2: not found"},
		"node-3 agent": {"updating-in-place"}, // no agent is there
	} {
		cluster := fakecluster.New(t, append([]runtime.Object{job, node}, objects...)...)
		if err := cluster.Run(t, explain.New, strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if out := cluster.Out.String(); !strings.Contains(out, text) {
				t.Errorf("%s does not say %q:\n%s", line, text, out)
			}
		}
	}
}
