// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/ota"
)

// refusal is the reason why a pod is not upgraded, with OpenYurt's text if there is one.
type refusal struct {
	reason v2.Reason
	text   string
	// kind is the kind of an unsupported owner; only with the reason Unsupported.
	kind string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) code() int {
	switch r.reason {
	case v2.ReasonForeignNode:
		return http.StatusForbidden
	case v2.ReasonDisconnected:
		return http.StatusServiceUnavailable
	}
	return http.StatusConflict
}

// hashLabel is the label with the revision of a pod.
const hashLabel = appsv1.ControllerRevisionHashLabelKey

// Kinds of owners.
const (
	kindNode      = "Node" // the owner of a static pod
	kindDaemonSet = "DaemonSet"
	groupApps     = "apps"
)

// ownerOf returns the controller of a pod, or its first owner.
func ownerOf(pod *corev1.Pod) (owner metav1.OwnerReference, ok bool) {
	if by := metav1.GetControllerOfNoCopy(pod); by != nil {
		return *by, true
	}
	if len(pod.OwnerReferences) > 0 {
		return pod.OwnerReferences[0], true
	}
	return owner, false
}

func groupOf(owner metav1.OwnerReference) string {
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return group
}

// isAdvanced reports whether a pod belongs to an Advanced DaemonSet. Such pods have no condition, so they are compared
// with their set.
func isAdvanced(owner metav1.OwnerReference) bool {
	return owner.Kind == kindDaemonSet && groupOf(owner) == kruise.Group
}

// next returns the name of the revision that a pod can be upgraded to, if known; old reports whether there is one.
func (a *API) next(ctx context.Context, pod *corev1.Pod) (next string, old bool, err error) {
	next, old, said := ota.Announced(pod)
	if owner, ok := ownerOf(pod); ok && !said && isAdvanced(owner) {
		next, err = a.o.Cluster.NextAdvanced(ctx, pod, owner)
		return next, next != "", err
	}
	return next, old, nil
}

// checkPod refuses a pod that cannot be upgraded here, whatever its revision is.
func (a *API) checkPod(pod *corev1.Pod) *refusal {
	switch {
	case pod.DeletionTimestamp != nil:
		return &refusal{reason: v2.ReasonDeleting, text: fmt.Sprintf("Pod %v/%v is deleting, can not be updated", pod.Namespace, pod.Name)}
	case pod.Spec.NodeName != a.o.Node:
		return &refusal{reason: v2.ReasonForeignNode, text: fmt.Sprintf("Pod: %v/%v is running on %v, can not be updated", pod.Namespace, pod.Name, pod.Spec.NodeName)}
	}
	return nil
}

// isStatic reports whether the pod is a static pod, which comes from a file on its node.
func isStatic(pod *corev1.Pod) bool {
	owner, ok := ownerOf(pod)
	return ok && owner.Kind == kindNode
}

func upToDate(pod *corev1.Pod) *refusal {
	return &refusal{reason: v2.ReasonUpToDate, text: fmt.Sprintf("Pod: %v/%v update status is False, can not be updated", pod.Namespace, pod.Name)}
}

// checkImages refuses a pod whose images were requested and are not on the node yet.
func checkImages(pod *corev1.Pod, next string) *refusal {
	if ota.Refusal(pod, next, true) != v2.ReasonImagesNotReady {
		return nil
	}
	c := ota.Condition(pod, openyurt.PodImageReady)
	return &refusal{reason: v2.ReasonImagesNotReady, text: fmt.Sprintf("Pod: %v/%v image is not ready, reason: %s, message: %s",
		pod.Namespace, pod.Name, c.Reason, c.Message)}
}

// checkOwner refuses a pod that does not belong to a DaemonSet.
func checkOwner(pod *corev1.Pod) *refusal {
	owner, ok := ownerOf(pod)
	switch {
	case !ok:
		return &refusal{reason: v2.ReasonUnsupported, text: "Pod has no owner references"}
	case owner.Kind != kindDaemonSet, groupOf(owner) != groupApps && !isAdvanced(owner):
		return &refusal{reason: v2.ReasonUnsupported, kind: owner.Kind, text: fmt.Sprintf("Not support ota upgrade pod type %v", owner.Kind)}
	}
	return nil
}

// staticPod refuses a static pod.
func staticPod() *refusal {
	return &refusal{reason: v2.ReasonUnsupported, kind: kindNode, text: "Configmap for static pod does not exist"}
}

// firstOf returns the first refusal as an error.
func firstOf(all ...*refusal) error {
	for _, r := range all {
		if r != nil {
			return r
		}
	}
	return nil
}
