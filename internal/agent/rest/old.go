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

// The texts of yurthub that are not made of anything.
const (
	oldDisconnected  = "OTA upgrade is not allowed when node is disconnected to cloud"
	oldListFailed    = "Get pod list failed"
	oldEncodeFailed  = "Encode pod list failed"
	oldApplyFailed   = "Apply update failed"
	oldPatchFailed   = "Patch pod status for imagepull failed"
	oldGetFailed     = "Get pod failed, %v"
	oldUpgraded      = "Start updating pod %v/%v"
	oldPullRequested = "Image pre-pull requested for pod %v/%v"
)

// oldPods is GET /pods.
func (a *API) oldPods(w http.ResponseWriter, _ *http.Request) {
	pods, seen, err := a.o.Pods.Pods()
	if err != nil || !seen {
		klog.V(2).InfoS("GET /pods cannot be answered", "seen", seen, "err", err)
		fail(w, http.StatusInternalServerError, oldListFailed)
		return
	}
	list := &corev1.PodList{}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	data, err := encodePods(list)
	if err != nil {
		klog.ErrorS(err, "GET /pods cannot be answered")
		fail(w, http.StatusInternalServerError, oldEncodeFailed)
		return
	}
	write(w, http.StatusOK, jsonType, data)
}

// encodePods writes pods as the kubelet does for its own /pods.
func encodePods(list *corev1.PodList) ([]byte, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return runtime.Encode(serializer.NewCodecFactory(scheme).LegacyCodec(corev1.SchemeGroupVersion), list)
}

// oldPod reads the pod that the path names, or answers why not.
func (a *API) oldPod(w http.ResponseWriter, r *http.Request) *corev1.Pod {
	if !a.o.Cluster.Connected(r.Context()) {
		fail(w, http.StatusServiceUnavailable, oldDisconnected)
		return nil
	}
	name := podName(r)
	if validName(name) != nil { // nothing has such a name
		fail(w, http.StatusInternalServerError, fmt.Sprintf(oldGetFailed, apierrors.NewNotFound(corev1.Resource("pods"), name.Name)))
		return nil
	}
	pod, err := a.o.Cluster.Pod(r.Context(), name)
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf(oldGetFailed, err))
		return nil
	}
	return pod
}

// oldUpgrade is POST …/upgrade.
func (a *API) oldUpgrade(w http.ResponseWriter, r *http.Request) {
	pod := a.oldPod(w, r)
	if pod == nil {
		return
	}
	if _, err := a.examine(r.Context(), pod); err != nil {
		code, text := oldRefusal(pod, err)
		fail(w, code, text)
		return
	}
	if err := a.delete(r.Context(), pod, false); err != nil {
		klog.ErrorS(err, "A pod cannot be upgraded", "pod", klog.KObj(pod))
		fail(w, http.StatusInternalServerError, oldApplyFailed)
		return
	}
	klog.InfoS("Upgrading a pod", "pod", klog.KObj(pod), "uid", pod.UID)
	write(w, http.StatusOK, jsonType, fmt.Appendf(nil, oldUpgraded, pod.Namespace, pod.Name))
}

// oldRefusal is how yurthub tells a refusal of an upgrade.
func oldRefusal(pod *corev1.Pod, err error) (code int, text string) {
	refused := (*refusal)(nil)
	if !errors.As(err, &refused) {
		return http.StatusInternalServerError, fmt.Sprintf(oldGetFailed, err)
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

// oldImagePull is POST …/imagepull.
func (a *API) oldImagePull(w http.ResponseWriter, r *http.Request) {
	pod := a.oldPod(w, r)
	if pod == nil {
		return
	}
	_, err := a.askForImages(r.Context(), pod, v2.Precondition{})
	refused := (*refusal)(nil)
	switch {
	case err == nil:
		write(w, http.StatusOK, jsonType, fmt.Appendf(nil, oldPullRequested, pod.Namespace, pod.Name))
	case errors.As(err, &refused):
		fail(w, http.StatusForbidden, fmt.Sprintf("Failed to check pod status %v/%v, error: %v", pod.Namespace, pod.Name, refused))
	default:
		klog.ErrorS(err, "The images of a pod cannot be asked for", "pod", klog.KObj(pod))
		fail(w, http.StatusInternalServerError, oldPatchFailed)
	}
}
