// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// ReservedPrefix begins the annotations on nodes in which Reserve writes. The rest is the namespace and the label app of the
// pod, the value the time of the last reservation.
const ReservedPrefix = "reserved.example.io/"

// Reserve returns a Work that notes on the node that the place of the pod is taken, for the pod that comes after it. On a
// node that is gone there is nothing to reserve.
//
// It is an example of work that must happen before the pod is deleted, such as removing the node from a load balancer.
func Reserve(client kubernetes.Interface, clock clock.PassiveClock) Work {
	return func(ctx context.Context, pod *corev1.Pod, node *corev1.Node) error {
		if node == nil {
			return nil
		}
		// Strings and nothing else can always be encoded.
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid":         node.UID,
			"annotations": map[string]string{ReservedKey(pod): clock.Now().UTC().Format(time.RFC3339)},
		}})
		_, err := client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reserving a place on node %s: %w", node.Name, err)
		}
		return nil
	}
}

// ReservedKey is the annotation of a node for the place of a pod.
func ReservedKey(pod *corev1.Pod) string {
	name := pod.Namespace
	if app := pod.Labels["app"]; app != "" {
		name += "." + app
	}
	// The name of an annotation has at most 63 characters, the last of which is a letter or a digit.
	return ReservedPrefix + strings.TrimRight(name[:min(len(name), 63)], "-._")
}
