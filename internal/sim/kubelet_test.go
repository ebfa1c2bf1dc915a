// SPDX-License-Identifier: Apache-2.0

package sim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	api "everynode.dev/everynode/api/kruise"
)

// blockLabel is what the preDelete hook of a set waits for: whoever it is told to takes the label away.
const blockLabel = "block"

// podOps are what kubelets do with a pod, and what happens to it. Those that lead to its being ready, or gone, come first.
func (s *sim) podOps(ops []op, p *corev1.Pod) []op {
	node, uid := s.w.node(nodeOf(p)), string(p.UID)
	add := func(weight int, text string, change func(*corev1.Pod)) {
		ops = append(ops, op{uid + " " + text, weight, func() { s.w.changePod(p, change) }})
	}
	if s.lost(p) && p.DeletionTimestamp == nil {
		ops = append(ops, op{uid + " is collected with its set", 4, func() { s.w.endPod(p, grace) }})
	}
	if preparing(p) && p.Labels[blockLabel] != "" && !s.out.holds(p) {
		add(3, "is released by its hook", func(p *corev1.Pod) { delete(p.Labels, blockLabel) })
	}
	switch {
	case node == nil:
		return append(ops, op{uid + " is collected", 1, func() { s.collect(p) }})
	case !nodeReady(node) || ended(p) && p.DeletionTimestamp == nil:
		return ops
	case p.Spec.NodeName == "":
		add(10, "starts", func(p *corev1.Pod) { s.start(p, node) })
		return ops
	}
	ready, _ := readyOf(p)
	switch {
	case p.DeletionTimestamp != nil && len(p.Finalizers) == 0:
		ops = append(ops, op{uid + " is gone", 10, func() { s.w.remove(ofPods, p.Name) }})
	case p.DeletionTimestamp != nil && !ended(p):
		add(10, "has ended", func(p *corev1.Pod) { s.setReady(p, false); p.Status.Phase = corev1.PodSucceeded })
	case p.DeletionTimestamp != nil:
		return ops
	case ready && !gatesOpen(p):
		add(10, "is told not to be ready", func(p *corev1.Pod) { s.setReady(p, false) })
	case runs(p) != imageOf(p) && ready && changesOpenly(p):
		add(5, "runs the new image, and is not ready yet", func(p *corev1.Pod) { s.renew(p); s.setReady(p, false) })
		if works(p) && !s.isIll(p) { // what it was in between, the kubelet never says
			add(5, "runs the new image, and is ready", func(p *corev1.Pod) { s.renew(p) })
		}
	case runs(p) != imageOf(p):
		add(10, "runs the new image", func(p *corev1.Pod) { s.renew(p) })
	case !ready && gatesOpen(p) && works(p) && !s.isIll(p):
		add(10, "gets ready", func(p *corev1.Pod) { s.runAgain(p); s.setReady(p, true) })
	case s.mayWait(p, ready):
		add(5, "waits because of "+reasonOf(p), waitFor)
	}
	if (restarting(p) || s.stale(p)) && s.hasAgent(node) && !ended(p) {
		add(5, "has its side restarted", func(p *corev1.Pod) { s.restartSide(p) })
		if ready {
			add(5, "has its side restarted, and is not ready yet", func(p *corev1.Pod) { s.restartSide(p); s.setReady(p, false) })
		}
	}
	if s.cfg.with("kubelets") {
		if ready {
			add(1, "breaks", func(p *corev1.Pod) { s.setReady(p, false) })
		}
		if !ended(p) {
			add(1, "fails", func(p *corev1.Pod) { s.setReady(p, false); p.Status.Phase = corev1.PodFailed })
		}
	}
	return ops
}

// collect is what Kubernetes does with a pod whose node is gone: it goes, unless it has a finalizer.
func (s *sim) collect(p *corev1.Pod) {
	if len(p.Finalizers) == 0 {
		s.w.remove(ofPods, p.Name)
		return
	}
	s.w.changePod(p, func(p *corev1.Pod) { s.setReady(p, false); p.Status.Phase = corev1.PodFailed })
	s.w.endPod(s.w.pod(p.Name), 0)
}

func (s *sim) start(p *corev1.Pod, n *corev1.Node) {
	p.Spec.NodeName, p.Status.Phase = n.Name, corev1.PodRunning
	s.renew(p)
	s.setReady(p, false)
}

// renew is a new container of the image that the pod has now. It may be an image whose digest the node has already.
func (s *sim) renew(p *corev1.Pod) {
	s.containers++
	s.pulls.has[p.Spec.NodeName+" "+imageOf(p)] = true
	digest := imageOf(p)
	if s.cfg.with("digests") {
		digest = "the one"
	}
	others := p.Status.ContainerStatuses[min(1, len(p.Status.ContainerStatuses)):]
	if len(p.Spec.Containers) > 1 && len(others) == 0 {
		others = []corev1.ContainerStatus{s.sideStatus(p)}
	}
	restarts := int32(0)
	if len(p.Status.ContainerStatuses) > 0 {
		restarts = p.Status.ContainerStatuses[0].RestartCount + 1
	}
	p.Status.ContainerStatuses = append([]corev1.ContainerStatus{{
		RestartCount: restarts, Name: p.Spec.Containers[0].Name, Image: imageOf(p), ImageID: digest, ContainerID: words("c%d", s.containers),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.w.now)}},
	}}, others...)
	p.Status.ObservedGeneration = p.Generation
}

// restartOften has the containers of all pods restarted often, as in months, while no rollout is active. That says nothing about an image.
func (s *sim) restartOften() {
	if p := s.w.rolloutPolicy(); p == nil || len(p.Status.Sets) == 0 || p.Status.Sets[0].Phase != v1alpha1.PhaseComplete {
		return
	}
	s.note("the containers of all pods have been restarted often")
	for _, p := range s.w.pods() {
		if ready, _ := readyOf(p); ready && ownedBy(p, s.w.set()) && len(p.Status.ContainerStatuses) > 0 {
			s.w.changePod(p, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 9 })
		}
	}
}

// runs is the image that the node runs.
func runs(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) == 0 {
		return ""
	}
	return p.Status.ContainerStatuses[0].Image
}

// gatesOpen is whether every readiness gate of a pod has been opened.
func gatesOpen(p *corev1.Pod) bool {
	for _, g := range p.Spec.ReadinessGates {
		if conditionOf(p, g.ConditionType) != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// preparing is whether a pod has been told that it will be deleted.
func preparing(p *corev1.Pod) bool {
	return p.Labels[api.LifecycleState] == api.LifecyclePreparingDelete
}

func (s *sim) setReady(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.ObservedGeneration = p.Generation
	now := metav1.NewTime(s.w.now.Add(s.clocks[nodeOf(p)]))
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, now
			}
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: now})
}
