// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/api/everynode"
)

// Agents returns the nodes on which an agent is ready; none if its pods cannot be read.
func Agents(ctx context.Context, c kubernetes.Interface) map[string]bool {
	list, err := c.CoreV1().Pods(everynode.AgentNamespace).List(ctx, metav1.ListOptions{LabelSelector: everynode.AgentLabel + "=" + everynode.AgentName, ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	nodes := map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if ready && p.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(p) != nil {
			nodes[p.Spec.NodeName] = true
		}
	}
	return nodes
}

// WaitsInPlace returns whether changes in place wait for images by the flags of the manager: if that is not turned off, and if it may copy the pull secrets
// of the namespace, where the set needs them.
func WaitsInPlace(flags map[string]string, namespace string, secrets bool) bool {
	if text, given := flags["in-place-wait-for-images"]; given && text != "" {
		if on, err := strconv.ParseBool(text); err == nil && !on {
			return false
		}
	}
	return !secrets || slices.Contains(strings.Split(flags["pull-secret-namespaces"], ","), namespace)
}
