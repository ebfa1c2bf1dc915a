// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/kubectl/pkg/drain"
)

// daemonPod is a pod of a set of that API version.
func daemonPod(version string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-x", Namespace: "agents", UID: "p", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: version, Kind: "DaemonSet", Name: "agent", UID: "u", Controller: &yes},
		}},
		Spec:   corev1.PodSpec{NodeName: "a"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// withEmptyDir gives a pod a volume that ends with it.
func withEmptyDir(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	return pod
}

// drainer is kubectl drain --ignore-daemonsets, with --delete-emptydir-data or without.
type drainer struct{ deleteEmptyDirData bool }

// drained runs kubectl's drain of a node with that pod, whose eviction is answered with a status of that code, if it is not 0. It returns how often an
// eviction was tried.
func (d drainer) drained(t *testing.T, pod *corev1.Pod, code int32, more ...runtime.Object) (evictions int, err error) {
	t.Helper()
	client := fake.NewClientset(append(more, pod)...)
	client.Resources = []*metav1.APIResourceList{
		{GroupVersion: "policy/v1", APIResources: []metav1.APIResource{{Name: "poddisruptionbudgets"}}},
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1"}}},
	}
	client.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		evictions++
		if code != 0 { // as the API server passes on the answer of a webhook
			reason := map[int32]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests}[code]
			return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "admission webhook denied the request"}}
		}
		return true, nil, client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, pod.Name)
	})
	helper := &drain.Helper{
		Ctx: t.Context(), Client: client, IgnoreAllDaemonSets: true, GracePeriodSeconds: -1, Timeout: time.Second, EvictErrorRetryDelay: 10 * time.Millisecond,
		Out: io.Discard, ErrOut: io.Discard, DeleteEmptyDirData: d.deleteEmptyDirData,
	}
	err = drain.RunNodeDrain(helper, "a")
	return evictions, err
}

// TestKubectlDrain: kubectl 1.37 takes no pod of an Advanced DaemonSet for a daemon pod, and a DaemonSet of apps/v1 of the same name changes nothing about that.
// Only an eviction that is answered with 404 lets the drain end and the pod run. If the pod has an emptyDir, the drain begins only with --delete-emptydir-data.
func TestKubectlDrain(t *testing.T) {
	drained := drainer{}.drained
	companion := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "agents", UID: "c"}}
	if n, err := drained(t, daemonPod(nativeVersion), 0, companion); n != 0 || err != nil {
		t.Errorf("a pod of apps/v1: %d evictions, %v", n, err)
	}
	for name, more := range map[string][]runtime.Object{"alone": nil, "with a DaemonSet of apps/v1 of the same name": {companion}} {
		if n, err := drained(t, daemonPod(advancedVersion), 0, more...); n != 1 || err != nil {
			t.Errorf("a pod of an Advanced DaemonSet, %s: %d evictions, %v", name, n, err)
		}
	}
	if n, err := drained(t, daemonPod(advancedVersion), http.StatusNotFound); n != 1 || err != nil {
		t.Errorf("answered with 404: %d evictions, %v", n, err)
	}
	if n, err := drained(t, daemonPod(advancedVersion), http.StatusForbidden); n != 1 || err == nil || !strings.Contains(err.Error(), "denied") {
		t.Errorf("answered with 403: %d evictions, %v", n, err)
	}
	if n, err := drained(t, daemonPod(advancedVersion), http.StatusTooManyRequests); n < 1 || err == nil {
		t.Errorf("answered with 429: %d evictions, %v", n, err)
	}
	if n, err := drained(t, withEmptyDir(daemonPod(nativeVersion)), 0, companion); n != 0 || err != nil {
		t.Errorf("a pod of apps/v1 with an emptyDir: %d evictions, %v", n, err)
	}
	if n, err := drained(t, withEmptyDir(daemonPod(advancedVersion)), http.StatusNotFound); n != 0 || err == nil || !strings.Contains(err.Error(), "cannot delete Pods with local storage (use --delete-emptydir-data to override)") {
		t.Errorf("with an emptyDir: %d evictions, %v", n, err)
	}
	if n, err := (drainer{deleteEmptyDirData: true}).drained(t, withEmptyDir(daemonPod(advancedVersion)), http.StatusNotFound); n != 1 || err != nil {
		t.Errorf("with an emptyDir and the flag for it: %d evictions, %v", n, err)
	}
}
