// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "everynode.dev/everynode/api/agent/v2"
	"everynode.dev/everynode/api/openyurt"
	"everynode.dev/everynode/internal/ota"
)

// checkUpgrade returns the revision that a pod can be upgraded to now, or a refusal. A revision without a name is
// refused too.
func (a *API) checkUpgrade(ctx context.Context, pod *corev1.Pod) (next string, err error) {
	if r := a.checkPod(pod); r != nil {
		return "", r
	}
	if isStatic(pod) {
		return "", staticPod()
	}
	next, old, err := a.next(ctx, pod)
	if err != nil {
		return "", err
	}
	if !old {
		return "", upToDate(pod)
	}
	return next, firstOf(checkImages(pod, next), checkOwner(pod))
}

// checkPrecondition refuses a request whose precondition is not met.
func checkPrecondition(pod *corev1.Pod, next string, want v2.Precondition) *refusal {
	switch {
	case want.UID != "" && want.UID != string(pod.UID):
		return &refusal{reason: v2.ReasonChanged, text: fmt.Sprintf("the UID of the pod is %s now", pod.UID)}
	case want.Revision != "" && want.Revision != next:
		return &refusal{reason: v2.ReasonChanged, text: fmt.Sprintf("the next revision of the pod is %s now", next)}
	}
	return nil
}

// delete deletes exactly that pod. With exact, it must not have changed since it was read.
func (a *API) delete(ctx context.Context, pod *corev1.Pod, exact bool) error {
	only := metav1.Preconditions{UID: &pod.UID}
	if exact {
		only.ResourceVersion = &pod.ResourceVersion
	}
	return a.o.Cluster.DeletePod(ctx, nameOf(pod), only)
}

// requestImages requests the images of the next revision of a pod. A second request changes nothing while a pull is in
// progress or has succeeded. After a failure, it starts again.
func (a *API) requestImages(ctx context.Context, pod *corev1.Pod, want v2.Precondition) (v2.Images, error) {
	if r := a.checkPod(pod); r != nil {
		return v2.Images{}, r
	}
	next, old, err := a.next(ctx, pod)
	if err != nil {
		return v2.Images{}, err
	}
	if !old {
		return v2.Images{}, upToDate(pod)
	}
	if err := firstOf(checkPrecondition(pod, next, want), checkOwner(pod), checkNamed(next)); err != nil {
		return v2.Images{}, err
	}
	if ota.Asked(pod, next) {
		return ota.ImagesOf(pod, next), nil
	}
	// The time distinguishes a request from the one before it, even if that one has failed and the status stays the
	// same.
	asked := corev1.PodCondition{
		Type: openyurt.PodImageReady, Status: corev1.ConditionFalse, Message: openyurt.FormatRevision(next),
		LastTransitionTime: metav1.NewTime(a.o.Now()),
	}
	if err := a.o.Cluster.SetCondition(ctx, pod, asked); err != nil {
		return v2.Images{}, fmt.Errorf("asking for the images: %w", err)
	}
	return v2.Images{State: v2.ImagesPulling, Revision: next}, nil
}

// checkNamed refuses a revision without a name, because its images cannot be found.
func checkNamed(next string) *refusal {
	if next != "" {
		return nil
	}
	return &refusal{reason: v2.ReasonChanged, text: fmt.Sprintf("the condition %s of the pod names no revision", openyurt.PodNeedUpgrade)}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
