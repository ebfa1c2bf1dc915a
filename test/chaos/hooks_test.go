// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
)

// The preDelete hook of a set is made of this label: the user that its pods wait for takes it away.
const holdLabel, held = "example.io/hold", "yes"

// hookReleased is what users do then.
const hookReleased = "hook released"

// hook gives a set that hook, and its pods the label.
func hook(set *unstructured.Unstructured) error {
	return errors.Join(
		unstructured.SetNestedField(set.Object, held, "spec", "template", "metadata", "labels", holdLabel),
		unstructured.SetNestedStringMap(set.Object, map[string]string{holdLabel: held}, "spec", "lifecycle", "preDelete", "labelsHandler"))
}

// release lets go what waits for its hook. Each version of a pod is released once: that it is shows a little later.
func (u *troupe) release() {
	for _, m := range u.members {
		if !m.hooked || m.away {
			continue
		}
		for _, pod := range u.View().Pods(m.name) {
			waits := pod.DeletionTimestamp == nil && pod.Labels[holdLabel] != "" && pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete
			if waits && u.released[pod.UID] != pod.ResourceVersion {
				u.releasePod(pod)
			}
		}
	}
}

func (u *troupe) releasePod(pod *corev1.Pod) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:null}}}`, pod.UID, holdLabel)
	u.Poll("a user can release a pod", func() error {
		_, err := u.Cluster.Client.CoreV1().Pods(u.Name).Patch(u.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // it is gone, and another one may have its name
			return nil
		}
		return err
	})
	u.released[pod.UID] = pod.ResourceVersion
	u.acts[hookReleased]++
}
