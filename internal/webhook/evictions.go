// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
)

// evictions keeps pods of Advanced DaemonSets on their nodes when a node is drained, in namespaces that ask for that (everynode.KeepDaemonPods). Tools skip the
// pods of a DaemonSet of apps/v1 when they drain a node, and know no other kind. They treat the answer "not found" as success, and continue; after any other
// answer they try again, or abort.
//
// A pod stays only where it would come back: on a node with a taint that it does not tolerate, as one that an autoscaler removes, it is evicted, because such
// tools wait until it is gone. A pod that only names a set as its owner would not come back either. If its set asks for that (everynode.LeaveLast), it is evicted after the pods of other workloads.
type evictions struct {
	client corev1client.CoreV1Interface
	sets   dynamic.NamespaceableResourceInterface
	turns  *turns
	clock  clock.PassiveClock

	mu sync.Mutex
	// attempts are the evictions of pods that wait, or have waited. They are lost with the process, and each replica counts by itself: the pod then waits
	// for longer, by the same time at most.
	attempts map[types.UID]attempts
}

// attempts is when the evictions of a pod by one drain began, and when the last one was.
type attempts struct{ first, last time.Time }

// forgetAfter is how long after the last eviction of a pod the next one belongs to another drain. Tools try again within minutes.
const forgetAfter = 30 * time.Minute

// evictAgain is when a client may try an eviction again.
const evictAgain = 5 * time.Second

func newEvictions(client corev1client.CoreV1Interface, sets dynamic.Interface) *evictions {
	return &evictions{
		client: client, sets: sets.Resource(schema.GroupVersionResource{Group: kruise.Group, Version: kruise.VersionStored, Resource: kruise.Resource}),
		turns: &turns{free: checksAtOnce, atMost: waitingChecks, waiting: map[string][]chan struct{}{}}, clock: clock.RealClock{}, attempts: map[types.UID]attempts{},
	}
}

// Handle implements admission.Handler. If it cannot decide, it allows the eviction, because the client requested it.
func (e *evictions) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Resource.Resource != "pods" || request.SubResource != "eviction" || request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	if err := e.turns.enter(ctx, senderOf(ctx)); errors.As(err, &tooManyWait{}) { // many nodes are drained at once: the others are answered in a moment
		return again(fmt.Sprintf("whether the pod is kept on its node is not known yet, because %v: try again", err))
	} else if err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("whether the pod is kept on its node is not known: %v", err))
	}
	defer e.turns.leave()
	pod, err := e.client.Pods(request.Namespace).Get(ctx, request.Name, metav1.GetOptions{})
	if err != nil || !runsForNode(pod) {
		return admission.Allowed("") // without the pod, the API server itself says that it is not there
	}
	var set *unstructured.Unstructured
	comesBack := false
	var reads sync.WaitGroup // at once, because the API server does not wait for long
	reads.Go(func() { set = e.setOf(ctx, pod) })
	reads.Go(func() { comesBack = e.tolerated(ctx, pod) })
	reads.Wait()
	switch {
	case set == nil || set.GetDeletionTimestamp() != nil:
		return admission.Allowed("")
	case !comesBack:
		return e.leave(ctx, pod, set, isDryRun(&request))
	}
	response := admission.Denied("")
	response.Result = &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: fmt.Sprintf("the pod belongs to its node, as a pod of the Advanced DaemonSet %s, and is not evicted: delete it to have it replaced", set.GetName()),
	}
	return response
}

// isDryRun reports whether an eviction is a dry run, which its parameters say, or with kubectl its options for the deletion.
func isDryRun(request *admission.Request) bool {
	var eviction policyv1.Eviction
	asked := json.Unmarshal(request.Object.Raw, &eviction) == nil && eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
	return asked || request.DryRun != nil && *request.DryRun
}

// leave answers the eviction of a pod that does not come back to its node.
func (e *evictions) leave(ctx context.Context, pod *corev1.Pod, set *unstructured.Unstructured, dryRun bool) admission.Response {
	text, asked := set.GetAnnotations()[everynode.LeaveLast]
	seconds, valid := everynode.LeaveLastValue.Parse(text)
	if !asked || !valid {
		return admission.Allowed("")
	}
	wait := time.Duration(seconds) * time.Second
	if dryRun { // in a dry run the others never leave, and a client would try again until its timeout
		return admission.Allowed("").WithWarnings(fmt.Sprintf("the pod leaves after those of other workloads on its node, or after %v", wait))
	}
	others := e.others(ctx, pod)
	if others == 0 || !e.waits(pod.UID, wait) {
		return admission.Allowed("")
	}
	counted := "1 pod of another workload is"
	if others > 1 {
		counted = fmt.Sprintf("%d pods of other workloads are", others)
	}
	return again(fmt.Sprintf("the Advanced DaemonSet %s asks with the annotation %s that its pods leave last, for %v at most: %s on node %s",
		set.GetName(), everynode.LeaveLast, wait, counted, pod.Spec.NodeName))
}

// again is the answer after which a client tries the eviction again.
func again(message string) admission.Response {
	response := admission.Denied("")
	response.Result = &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(evictAgain.Seconds())},
		Message: message,
	}
	return response
}

// setOf returns the set of a pod; nil if there is none, or it cannot be read.
func (e *evictions) setOf(ctx context.Context, pod *corev1.Pod) *unstructured.Unstructured {
	owner := metav1.GetControllerOf(pod)
	set, err := e.sets.Namespace(pod.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil || set.GetUID() != owner.UID {
		return nil
	}
	return set
}

// others is how many pods of other workloads are on the node of a pod: none of a DaemonSet of any kind, which may leave last as well, no static pod, and none that has ended.
func (e *evictions) others(ctx context.Context, pod *corev1.Pod) (n int) {
	found, err := e.client.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", pod.Spec.NodeName).String(), ResourceVersion: "0", // what a cache of the API server knows is good enough
	})
	if err != nil {
		return 0
	}
	for i := range found.Items {
		p := &found.Items[i]
		owner := metav1.GetControllerOf(p)
		_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Spec.NodeName == pod.Spec.NodeName && !static && !ended && (owner == nil || owner.Kind != kruise.Kind) {
			n++
		}
	}
	return n
}

// waits reports whether a pod still waits for others to leave, and remembers this attempt.
func (e *evictions) waits(pod types.UID, atMost time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	maps.DeleteFunc(e.attempts, func(_ types.UID, a attempts) bool { return now.Sub(a.last) > forgetAfter })
	of, known := e.attempts[pod]
	if !known {
		of.first = now
	}
	of.last = now
	e.attempts[pod] = of
	return now.Sub(of.first) < atMost
}

// tolerated reports whether a pod would be created again on its node. The manager has the right to list nodes, but not to get one.
func (e *evictions) tolerated(ctx context.Context, pod *corev1.Pod) bool {
	found, err := e.client.Nodes().List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Spec.NodeName).String()})
	if err != nil {
		return false
	}
	for i := range found.Items {
		if node := &found.Items[i]; node.Name == pod.Spec.NodeName {
			// A hold is removed again when the pods are ready for which the manager has put it there.
			repels := func(t *corev1.Taint) bool {
				return t.Effect != corev1.TaintEffectPreferNoSchedule && !everynode.IsHold(*t)
			}
			_, repelled := scheduling.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, repels, false)
			return !repelled
		}
	}
	return false
}

// runsForNode reports whether a pod is one of an Advanced DaemonSet, and runs on a node.
func runsForNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil || owner.Kind != "DaemonSet" || !strings.HasPrefix(owner.APIVersion, kruise.Group+"/"):
		return false
	case pod.DeletionTimestamp != nil || pod.Spec.NodeName == "":
		return false
	default:
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	}
}
