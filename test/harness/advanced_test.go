// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestDeletePod: a pod that is gone when a test deletes it does not end the test.
func TestDeletePod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	client := fake.NewClientset(pod)
	s := &Space{Cluster: &Cluster{Client: client}, Name: "ns", t: t, ctx: t.Context()}
	s.DeletePod(nil, pod)
	if left, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Fatalf("%d pods are left, %v", len(left.Items), err)
	}
	s.DeletePod(nil, pod)
}
