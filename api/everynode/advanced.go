// SPDX-License-Identifier: Apache-2.0

package everynode

import (
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/annotation"
)

// Labels on Everynode's own objects.
const (
	// PartOf is set, with the value PartOfValue, on objects of Everynode, in particular the CustomResourceDefinitions:
	// those of OpenKruise have the same names.
	PartOf = Domain + "/part-of"
	// PartOfValue is the value of PartOf.
	PartOfValue = "everynode"
)

// Labels on a namespace.
const (
	// KeepDaemonPods keeps, with the value "true", the pods of the Advanced DaemonSets of the namespace on their nodes when these are drained: an eviction of
	// such a pod is answered with "not found", after which kubectl drain and other tools continue as with a pod of a DaemonSet of apps/v1.
	KeepDaemonPods = Domain + "/keep-daemon-pods"
)

// Taints of a node.
const (
	// HoldKey is the key of a taint, with the effect NoSchedule, of a node that comes back while pods of a set with ComeBackFirst are not ready there. The manager writes it, and
	// a kubelet can register a new node with it.
	HoldKey = Domain + "/waits-for-daemon-pods"
)

// HoldTaint returns the taint with HoldKey.
func HoldTaint() corev1.Taint {
	return corev1.Taint{Key: HoldKey, Effect: corev1.TaintEffectNoSchedule}
}

// IsHold reports whether a taint is one that the manager removes: HoldTaint, with any value.
func IsHold(t corev1.Taint) bool { return t.Key == HoldKey && t.Effect == corev1.TaintEffectNoSchedule }

// Annotations on an Advanced DaemonSet.
const (
	// InPlaceGrace is how long a pod that is updated in place is not ready before its images change, so that it gets no
	// more traffic by then: a whole number of seconds. The default is 0.
	InPlaceGrace = Domain + "/in-place-grace-seconds"
	// InPlaceGate makes, with the value "true", a pod not ready from before it is updated in place until it runs the update, and gives new pods the
	// readiness gate InPlaceUpdateReady for that, as OpenKruise does. A grace period asks for the same. The default is "false": the update is one
	// patch, and the pod is not ready only while the kubelet restarts its containers.
	InPlaceGate = Domain + "/in-place-gate"
	// InPlaceInitImages lets, with the value "true", images of init containers change in place. An init container that has ended does not run again
	// for that: the next start of the whole pod, such as after a reboot of the node, runs the new image, and the other containers may be
	// updated before. The default is "false": such a change recreates the pod. Images of sidecars (restartPolicy: Always) always change in place.
	InPlaceInitImages = Domain + "/in-place-init-images"
	// MarkForAutoscaler is whether new pods of the set get the annotation AutoscalerDaemonPod. The default is "true". If the template has that annotation,
	// the template decides. Pods that exist are not changed.
	MarkForAutoscaler = Domain + "/mark-for-autoscaler"
	// LeaveLast makes the pods of the set leave a node last that is removed, in a namespace with the label KeepDaemonPods: while pods of other workloads are on
	// the node, an eviction is answered with 429, so that the tool tries again. The value is the limit in seconds, from 1 to 3600, from the first eviction of the pod. Without it these pods leave in
	// any order. Pods that come back to the node, because they tolerate its taints, stay in any case.
	LeaveLast = Domain + "/leave-last-seconds"
	// ComeBackFirst makes the pods of the set run first on a node that comes back, in a namespace of --come-back-first-namespaces: while the node is not ready, or
	// cordoned without a ready pod of the set, the manager puts the taint HoldKey on it, and removes it when the pod is ready. The value is the limit in seconds, from 1 to 3600, from
	// when the node is ready and not cordoned. The template must tolerate the taint. Pods that are bound to the node already are not held back.
	ComeBackFirst = Domain + "/come-back-first-seconds"
)

// Annotations on the template of an Advanced DaemonSet.
const (
	// RestartedAt restarts the containers of each pod that is updated in place to a template with another value, within the budget and as any other update:
	// the agent of the node stops them, and the kubelet starts them again. `kubectl everynode restart --in-place` sets it to the time of the request. Of two
	// times in RFC 3339, an earlier one restarts nothing, so an undo does not. If the agent has not stopped the containers 30 seconds after they should
	// have ended, the pod is recreated.
	RestartedAt = Domain + "/restarted-at"
	// RestartedContainers lists the containers that RestartedAt restarts, separated by commas. Without it these are all containers, and the sidecars among the
	// init containers.
	RestartedContainers = Domain + "/restarted-containers"
)

// Annotations on a pod of an Advanced DaemonSet.
const (
	// AutoscalerDaemonPod shows cluster-autoscaler, with the value "true", that the pod belongs to its node, as one of a DaemonSet of apps/v1 does.
	AutoscalerDaemonPod = "cluster-autoscaler.kubernetes.io/daemonset-pod"
	// PreparedFor is set, with the value PreparedForEviction, on a pod that is prepared for deletion because its node
	// must not run it any more. If the node may run it again, such a pod stays, even if an update of the set would not
	// have started there.
	PreparedFor = Domain + "/prepared-for"
	// PreparedForEviction is the value of PreparedFor.
	PreparedForEviction = "eviction"
)

// Annotations that conversion between the versions of the Advanced DaemonSet writes, for the conversion back. Do not
// set them.
const (
	// KeptSurging is set on a v1beta1 object that was written as v1alpha1 with the type Surging. The value is JSON: the
	// converted budgets, and which of them were not set.
	KeptSurging = Domain + "/v1alpha1-surging"
	// KeptScaling is set on an object shown as v1alpha1 if its scaleStrategy of v1beta1 has more than the annotation
	// daemonset.kruise.io/progressive-create-pod can express. The value is JSON.
	KeptScaling = Domain + "/v1beta1-scaling"
)

// MarkForAutoscalerValue is the value of MarkForAutoscaler.
var MarkForAutoscalerValue = annotation.Of(annotation.Rule{Key: MarkForAutoscaler, For: annotation.AdvancedOnly, Want: `"true" or "false"`}, annotation.Bool)

// mostSeconds is how long a set can keep a node from being drained, or from the pods of others: an hour. Who may annotate a set need not be who owns the nodes.
const mostSeconds = 3600

// LeaveLastValue is the value of LeaveLast.
var LeaveLastValue = annotation.Of(annotation.Rule{Key: LeaveLast, For: annotation.AdvancedOnly, Want: "a whole number of seconds from 1 to 3600"}, annotation.WholeBetween(1, mostSeconds))

// ComeBackFirstValue is the value of ComeBackFirst.
var ComeBackFirstValue = annotation.Of(annotation.Rule{Key: ComeBackFirst, For: annotation.AdvancedOnly, Want: "a whole number of seconds from 1 to 3600"}, annotation.WholeBetween(1, mostSeconds))

// InPlaceGraceValue is the value of InPlaceGrace.
var InPlaceGraceValue = annotation.Of(annotation.Rule{
	Key: InPlaceGrace, For: annotation.AdvancedOnly, Want: "a whole number of seconds from 0",
}, annotation.WholeFrom(0))

// InPlaceInitImagesValue is the value of InPlaceInitImages.
var InPlaceInitImagesValue = annotation.Of(annotation.Rule{Key: InPlaceInitImages, For: annotation.AdvancedOnly, Want: `"true" or "false"`}, annotation.Bool)

// InPlaceGateValue is the value of InPlaceGate.
var InPlaceGateValue = annotation.Of(annotation.Rule{Key: InPlaceGate, For: annotation.AdvancedOnly, Want: `"true" or "false"`}, annotation.Bool)
