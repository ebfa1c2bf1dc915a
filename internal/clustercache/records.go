// SPDX-License-Identifier: Apache-2.0

package clustercache

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/clustercache/inflight"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// hashLabel is the label that carries the name of a pod's revision.
const hashLabel = appsv1.ControllerRevisionHashLabelKey

// Key names a daemon set of a dialect.
type Key = inflight.Key

// Pod is what the cache keeps of a pod.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	RV              string
	// Node is the node that the pod is bound to, or made for.
	Node string
	// Owner is the UID of the controller, empty for an orphan. Advanced reports whether the controller has the API group apps.kruise.io, and not apps.
	Owner  types.UID
	Labels map[string]string
	// Hash is the label controller-revision-hash, Generation the number in the label pod-template-generation (-1: none).
	Hash                string
	Generation          int64
	Phase               rollout.Phase
	Scheduled, Advanced bool
	Deleting            bool
	// DeletedAt is when the deletion was asked for; 0 for none.
	DeletedAt  rollout.Time
	Ready      bool
	ReadySince rollout.Time
	Created    rollout.Time
	// Waiting are the reasons why containers do not start, Pull whether the pod waits for an image, and Restarts how often its containers were restarted, together. OtherRestarts are those of
	// Restarts of all containers but the one that was restarted most.
	Waiting                 rollout.Waiting
	Pull                    rollout.Pull
	Restarts, OtherRestarts uint16
	// Ended is why a container that does not run last ended, and ExitCode its code.
	Ended    rollout.Ending
	ExitCode int32
	// Facts are what only the pod's dialect needs to know; nil for pods of most dialects.
	Facts *dialect.PodFacts
}

// ReadFacts sets what reads the Facts of a pod. It must be called before the first event.
func (x *Index) ReadFacts(read dialect.FactsFunc) { x.read = read }

// Facts reads the facts of a pod.
func (x *Index) Facts(p *corev1.Pod) *dialect.PodFacts {
	if x.read == nil {
		return nil
	}
	return x.read(p)
}

// PodFrom reads a Pod with its Facts out of a pod object.
func (x *Index) PodFrom(p *corev1.Pod) (rec Pod, ok bool) {
	if rec, ok = PodFrom(p); ok {
		rec.Facts = x.Facts(p)
	}
	return rec, ok
}

// PodFrom reads a Pod without Facts out of a pod object; ok is false for a pod that no daemon set can ever own: its controller is of
// another kind.
func PodFrom(p *corev1.Pod) (rec Pod, ok bool) {
	owner, advanced, ok := OwnerOf(p)
	if !ok {
		return Pod{}, false
	}
	rec = Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, RV: p.ResourceVersion,
		Node: placement.TargetNode(p), Labels: p.Labels,
		Hash: p.Labels[hashLabel], Generation: -1,
		Phase: phaseOf(p.Status.Phase), Scheduled: p.Spec.NodeName != "",
		Deleting: p.DeletionTimestamp != nil, DeletedAt: deletedAt(p), Created: timeOf(p.CreationTimestamp),
	}
	rec.Owner, rec.Advanced = owner, advanced
	if g, err := strconv.ParseInt(p.Labels[extensionsv1beta1.DaemonSetTemplateGenerationKey], 10, 64); err == nil {
		rec.Generation = g
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			rec.Ready, rec.ReadySince = c.Status == corev1.ConditionTrue, timeOf(c.LastTransitionTime)
		}
	}
	rec.Waiting, rec.Restarts, rec.OtherRestarts = startsOf(p)
	rec.Pull = pullOf(p)
	rec.Ended, rec.ExitCode = endOf(p)
	return rec, true
}

// endOf is how the first container of a pod that does not run has ended, if it has run.
func endOf(p *corev1.Pod) (rollout.Ending, int32) {
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			switch t := s.State.Terminated; {
			case s.State.Running != nil && s.Ready, t != nil && t.ExitCode == 0 && s.Ready:
			case t != nil:
				return rollout.EndingFor(t.Reason), t.ExitCode
			case s.LastTerminationState.Terminated != nil:
				t = s.LastTerminationState.Terminated
				return rollout.EndingFor(t.Reason), t.ExitCode
			}
		}
	}
	return rollout.NotEnded, 0
}

// pullOf reports whether a pod waits for an image. Kubelet has no reason for that: a container that it has yet to create waits because of ContainerCreating, or in a pod with
// init containers PodInitializing, also while volumes or the network are missing. Since Kubernetes 1.36, the condition PodReadyToStartContainers is True before the pull
// begins; since 1.37, it has a reason while it is False.
func pullOf(p *corev1.Pod) rollout.Pull {
	if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending || !creates(p) {
		return rollout.NoPull
	}
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; {
		case c.Type != corev1.PodReadyToStartContainers:
		case c.Status == corev1.ConditionTrue:
			return rollout.Pulls
		case c.Reason != "":
			return rollout.NoPull
		}
	}
	return rollout.MayPull
}

// creates reports whether the next container of a pod has yet to be created.
func creates(p *corev1.Pod) bool {
	waits := func(s *corev1.ContainerStatus) bool {
		w := s.State.Waiting
		return w != nil && (w.Reason == "ContainerCreating" || w.Reason == "PodInitializing") && s.LastTerminationState.Terminated == nil
	}
	for i := range p.Status.InitContainerStatuses {
		switch s := &p.Status.InitContainerStatuses[i]; {
		case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0, s.Started != nil && *s.Started && s.State.Running != nil && sidecar(p, s.Name):
		default:
			return waits(s) // the next ones wait for this one
		}
	}
	for i := range p.Status.ContainerStatuses {
		if waits(&p.Status.ContainerStatuses[i]) {
			return true
		}
	}
	return false
}

// sidecar reports whether an init container runs as long as the pod does.
func sidecar(p *corev1.Pod, name string) bool {
	i := slices.IndexFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
	return i >= 0 && p.Spec.InitContainers[i].RestartPolicy != nil && *p.Spec.InitContainers[i].RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// startsOf are the reasons why containers of a pod do not start, and how often its containers were restarted, all and those other than the one that was restarted most. What the node has said of an earlier generation of the
// pod does not count.
func startsOf(p *corev1.Pod) (waiting rollout.Waiting, restarts, others uint16) {
	total, most := int64(0), int64(0)
	current := p.Status.ObservedGeneration == 0 || p.Status.ObservedGeneration >= p.Generation
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			of := int64(max(statuses[i].RestartCount, 0))
			total, most = total+of, max(most, of)
			if w := statuses[i].State.Waiting; w != nil && current {
				waiting |= rollout.WaitingFor(w.Reason)
			}
		}
	}
	total, most = min(total, math.MaxUint16), min(most, math.MaxUint16)
	return waiting, uint16(total), uint16(total - most)
}

// OwnerOf is the controller of a pod or a revision, which is empty for an orphan; advanced is whether it is of the API group apps.kruise.io, and not
// of apps. ok is false if the controller cannot be an existing daemon set: no API server serves the group extensions any more, so an owner of this
// group does not exist.
func OwnerOf(object metav1.Object) (owner types.UID, advanced, ok bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return "", false, true
	}
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	advanced = Advanced(*ref)
	if ref.Kind != "DaemonSet" || group != appsv1.GroupName && !advanced {
		return "", false, false
	}
	return ref.UID, advanced, true
}

// Advanced reports whether an owner is of the API group apps.kruise.io.
func Advanced(owner metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return group == kruise.Group
}

func phaseOf(p corev1.PodPhase) rollout.Phase {
	switch p {
	case corev1.PodRunning:
		return rollout.Running
	case corev1.PodSucceeded:
		return rollout.Succeeded
	case corev1.PodFailed:
		return rollout.Failed
	default:
		return rollout.Pending
	}
}

// deletedAt is when the deletion of a pod was asked for: the API server writes down when the grace period ends.
func deletedAt(p *corev1.Pod) rollout.Time {
	if p.DeletionTimestamp.IsZero() {
		return 0
	}
	at := p.DeletionTimestamp.Time // perhaps of a year that a rollout.Time cannot hold
	if grace := p.DeletionGracePeriodSeconds; grace != nil {
		at = at.Add(-time.Duration(min(*grace, math.MaxInt64/int64(time.Second))) * time.Second)
	}
	return rollout.At(at)
}

func timeOf(t metav1.Time) rollout.Time {
	if t.IsZero() {
		return 0
	}
	return rollout.Time(t.UnixNano())
}

// Node is what the cache keeps of a node.
type Node struct {
	Name  string
	Ready bool
	Since rollout.Time
	// Created is when the Node object was made.
	Created rollout.Time
	RV      string
	Labels  map[string]string
	Taints  []corev1.Taint
}

// NodeFrom reads a Node out of a node object.
func NodeFrom(n *corev1.Node) Node {
	rec := Node{Name: n.Name, RV: n.ResourceVersion, Labels: n.Labels, Taints: n.Spec.Taints, Created: timeOf(n.CreationTimestamp)}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			rec.Ready, rec.Since = c.Status == corev1.ConditionTrue, timeOf(c.LastTransitionTime)
		}
	}
	return rec
}

// Revision is what the cache keeps of a ControllerRevision.
type Revision struct {
	Namespace, Name string
	UID             types.UID
	RV              string
	// Owner is the UID of the controller, empty for an orphan. Advanced reports whether the controller has the API group apps.kruise.io, and not apps.
	Owner    types.UID
	Advanced bool
	Labels   map[string]string
	// Hash is the label controller-revision-hash, or the name where the label is missing (Labelled is false then).
	Hash     string
	Labelled bool
	Number   int64
	// Committed is the number in its mark everynode.Committed; 0 for none.
	Committed int64
	// Failed is its mark everynode.Failed; nil for none.
	Failed *everynode.Failure
	// Durations are those in its annotation everynode.MeasuredDurations.
	Durations everynode.Durations
	Created   rollout.Time
	Deleting  bool
	// Data is kept in its stored form: decoded, it would be many times as large, and most sets are idle.
	Data []byte
}

// Template is the decoded pod template; nil when the data cannot be read.
func (r *Revision) Template() map[string]any {
	template, err := revision.Decode(r.Data)
	if err != nil {
		return nil
	}
	return template
}
