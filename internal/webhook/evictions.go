// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"everynode.dev/everynode/api/kruise"
)

// evictions keeps pods of Advanced DaemonSets on their nodes when a node is drained, in namespaces that ask for that (everynode.KeepDaemonPods). Tools skip the
// pods of a DaemonSet of apps/v1 when they drain a node, and know no other kind. They treat the answer "not found" as success, and continue; after any other
// answer they try again, or abort.
//
// A pod stays only where it would come back: on a node with a taint that it does not tolerate, as one that an autoscaler removes, it is evicted, because such
// tools wait until it is gone.
type evictions struct {
	client corev1client.CoreV1Interface
	turns  *turns
}

func newEvictions(client corev1client.CoreV1Interface) *evictions {
	return &evictions{client: client, turns: &turns{free: checksAtOnce, atMost: waitingChecks, waiting: map[string][]chan struct{}{}}}
}

// Handle implements admission.Handler. If it cannot decide, it allows the eviction, because the client requested it.
func (e *evictions) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Resource.Resource != "pods" || request.SubResource != "eviction" || request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	if err := e.turns.enter(ctx, senderOf(ctx)); err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("whether the pod is kept on its node is not known: %v", err))
	}
	defer e.turns.leave()
	pod, err := e.client.Pods(request.Namespace).Get(ctx, request.Name, metav1.GetOptions{})
	if err != nil || !runsForNode(pod) || !e.tolerated(ctx, pod) {
		return admission.Allowed("") // without the pod, the API server itself says that it is not there
	}
	owner := metav1.GetControllerOf(pod).Name
	response := admission.Denied("")
	response.Result = &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("the pod belongs to its node, as a pod of the Advanced DaemonSet %s, and is not evicted: delete it to have it replaced", owner),
	}
	return response
}

// tolerated reports whether a pod would be created again on its node. The manager has the right to list nodes, but not to get one.
func (e *evictions) tolerated(ctx context.Context, pod *corev1.Pod) bool {
	found, err := e.client.Nodes().List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Spec.NodeName).String()})
	if err != nil {
		return false
	}
	for i := range found.Items {
		if node := &found.Items[i]; node.Name == pod.Spec.NodeName {
			repels := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
			_, repelled := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, repels, false)
			return !repelled
		}
	}
	return false
}

// runsForNode reports whether a pod is one of an Advanced DaemonSet, and runs.
func runsForNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil || owner.Kind != "DaemonSet" || !strings.HasPrefix(owner.APIVersion, kruise.Group+"/"):
		return false
	case pod.DeletionTimestamp != nil:
		return false
	default:
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	}
}
