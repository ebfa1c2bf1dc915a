// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/klog/v2"

	v2 "everynode.dev/everynode/api/agent/v2"
)

// The fixed texts of yurthub.
const (
	yurthubDisconnected  = "OTA upgrade is not allowed when node is disconnected to cloud"
	yurthubListFailed    = "Get pod list failed"
	yurthubEncodeFailed  = "Encode pod list failed"
	yurthubApplyFailed   = "Apply update failed"
	yurthubPatchFailed   = "Patch pod status for imagepull failed"
	yurthubGetFailed     = "Get pod failed, %v"
	yurthubUpgraded      = "Start updating pod %v/%v"
	yurthubPullRequested = "Image pre-pull requested for pod %v/%v"
)

// yurthubPods is GET /pods.
func (a *API) yurthubPods(w http.ResponseWriter, _ *http.Request) {
	pods, seen, err := a.o.Pods.Pods()
	if err != nil || !seen {
		klog.V(2).InfoS("GET /pods cannot be answered", "seen", seen, "err", err)
		writeText(w, http.StatusInternalServerError, yurthubListFailed)
		return
	}
	list := &corev1.PodList{}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	data, err := encodePods(list)
	if err != nil {
		klog.ErrorS(err, "GET /pods cannot be answered")
		writeText(w, http.StatusInternalServerError, yurthubEncodeFailed)
		return
	}
	write(w, http.StatusOK, jsonType, data)
}

// encodePods encodes pods as the kubelet does for its own /pods.
func encodePods(list *corev1.PodList) ([]byte, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return runtime.Encode(serializer.NewCodecFactory(scheme).LegacyCodec(corev1.SchemeGroupVersion), list)
}

// yurthubPod reads the pod in the path, or responds with an error.
func (a *API) yurthubPod(w http.ResponseWriter, r *http.Request) *corev1.Pod {
	if !a.o.Cluster.Connected(r.Context()) {
		writeText(w, http.StatusServiceUnavailable, yurthubDisconnected)
		return nil
	}
	name := podName(r)
	if validName(name) != nil { // no pod has such a name
		writeText(w, http.StatusInternalServerError, fmt.Sprintf(yurthubGetFailed, apierrors.NewNotFound(corev1.Resource("pods"), name.Name)))
		return nil
	}
	pod, err := a.o.Cluster.Pod(r.Context(), name)
	if err != nil {
		writeText(w, http.StatusInternalServerError, fmt.Sprintf(yurthubGetFailed, err))
		return nil
	}
	return pod
}

// yurthubUpgrade is POST …/upgrade.
func (a *API) yurthubUpgrade(w http.ResponseWriter, r *http.Request) {
	pod := a.yurthubPod(w, r)
	if pod == nil {
		return
	}
	if _, err := a.checkUpgrade(r.Context(), pod); err != nil {
		code, text := yurthubRefusal(pod, err)
		writeText(w, code, text)
		return
	}
	if err := a.delete(r.Context(), pod, false); err != nil {
		klog.ErrorS(err, "A pod cannot be upgraded", "pod", klog.KObj(pod))
		writeText(w, http.StatusInternalServerError, yurthubApplyFailed)
		return
	}
	klog.InfoS("Upgrading a pod", "pod", klog.KObj(pod), "uid", pod.UID)
	write(w, http.StatusOK, jsonType, fmt.Appendf(nil, yurthubUpgraded, pod.Namespace, pod.Name))
}

// yurthubRefusal returns the response of yurthub to a refused upgrade.
func yurthubRefusal(pod *corev1.Pod, err error) (code int, text string) {
	refused := (*refusal)(nil)
	if !errors.As(err, &refused) {
		return http.StatusInternalServerError, fmt.Sprintf(yurthubGetFailed, err)
	}
	switch refused.reason {
	case v2.ReasonUnsupported:
		if refused.kind == kindNode {
			return http.StatusForbidden, refused.text
		}
		return http.StatusBadRequest, refused.text
	case v2.ReasonImagesNotReady:
		return http.StatusForbidden, fmt.Sprintf("Pre check update pod failed, Failed to check pod %v/%v image ready, error: %v", pod.Namespace, pod.Name, refused)
	}
	return http.StatusForbidden, fmt.Sprintf("Pre check update pod failed, Failed to check pod %v/%v status, error: %v", pod.Namespace, pod.Name, refused)
}

// yurthubImagePull is POST …/imagepull.
func (a *API) yurthubImagePull(w http.ResponseWriter, r *http.Request) {
	pod := a.yurthubPod(w, r)
	if pod == nil {
		return
	}
	_, err := a.requestImages(r.Context(), pod, v2.Precondition{})
	refused := (*refusal)(nil)
	switch {
	case err == nil:
		write(w, http.StatusOK, jsonType, fmt.Appendf(nil, yurthubPullRequested, pod.Namespace, pod.Name))
	case errors.As(err, &refused):
		writeText(w, http.StatusForbidden, fmt.Sprintf("Failed to check pod status %v/%v, error: %v", pod.Namespace, pod.Name, refused))
	default:
		klog.ErrorS(err, "Requesting the images of a pod failed", "pod", klog.KObj(pod))
		writeText(w, http.StatusInternalServerError, yurthubPatchFailed)
	}
}
