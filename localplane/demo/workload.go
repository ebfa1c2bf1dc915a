// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// The DaemonSet of the demo. A simulated node cannot pull an image whose name contains "broken".
const (
	namespace   = "default"
	setName     = "agent"
	container   = "agent"
	imageOne    = "registry.example/agent:1.0"
	imageTwo    = "registry.example/agent:2.0"
	imageBroken = "registry.example/agent:3.0-broken"
	// budgetPercent is the maxUnavailable of the set. The two cut nodes use two slots; the others must be enough for the
	// update to continue.
	budgetPercent = 20
)

func podLabels() map[string]string { return map[string]string{"app": setName} }

// budgetOf returns maxUnavailable for that many nodes: percentages are rounded up.
func budgetOf(nodes int) int { return (budgetPercent*nodes + 99) / 100 }

func daemonSet() *appsv1.DaemonSet {
	maxUnavailable := intstr.FromString(fmt.Sprintf("%d%%", budgetPercent))
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: setName, Labels: podLabels()},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: podLabels()},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &maxUnavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels()},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: imageOne}}},
			},
		},
	}
}

// setImage changes the image like `kubectl set image`.
func setImage(ctx context.Context, client kubernetes.Interface, image string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": container, "image": image}},
	}}}})
	if err != nil {
		return fmt.Errorf("writing the patch for image %s: %w", image, err)
	}
	if err := patchSet(ctx, client, patch); err != nil {
		return fmt.Errorf("setting image %s: %w", image, err)
	}
	return nil
}

// undo restores the previous template like `kubectl rollout undo`.
func undo(ctx context.Context, client kubernetes.Interface) error {
	set, err := client.AppsV1().DaemonSets(namespace).Get(ctx, setName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading DaemonSet %s to undo it: %w", setName, err)
	}
	list, err := client.AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the revisions of DaemonSet %s: %w", setName, err)
	}
	history := slices.DeleteFunc(list.Items, func(r appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(&r, set) })
	if len(history) < 2 {
		return fmt.Errorf("undoing DaemonSet %s: its history holds %d revision(s), and two are needed", setName, len(history))
	}
	slices.SortFunc(history, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	if err := patchSet(ctx, client, history[1].Data.Raw); err != nil {
		return fmt.Errorf("undoing DaemonSet %s: %w", setName, err)
	}
	return nil
}

// patchSet applies a strategic merge patch, the format of templates in the history.
func patchSet(ctx context.Context, client kubernetes.Interface, patch []byte) error {
	_, err := client.AppsV1().DaemonSets(namespace).Patch(ctx, setName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
