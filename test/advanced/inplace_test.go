// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise"
	kruisedialect "everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// inPlaceScenarios are about pods that are changed and not replaced.
func inPlaceScenarios() []scenario {
	return []scenario{
		{"in-place-image", 3, true, inPlaceImage},
		{"in-place-labels-and-annotations", 2, false, inPlaceMetadata},
		{"in-place-field-ref-recreates", 2, false, inPlaceFieldRef},
		{"in-place-env-recreates", 2, false, recreatedBy(`spec: {template: {spec: {containers: [{name: agent, image: "registry.example/agent:1", env: [{name: A, value: b}]}]}}}`)},
		{"in-place-resources-recreate", 2, false, recreatedBy(`spec: {template: {spec: {containers: [{name: agent, image: "registry.example/agent:1", resources: {requests: {cpu: 1m}}}]}}}`)},
		{"in-place-init-image-recreates", 2, false, inPlaceInitImage},
		{"in-place-same-digest", 2, false, inPlaceSameDigest},
		{"in-place-broken-image-is-superseded", 3, false, inPlaceBroken},
		{"in-place-rollback", 2, false, inPlaceRollback},
		{"in-place-grace", 2, false, inPlaceGrace},
		{"in-place-switched-on-later", 2, false, inPlaceSwitchedOn},
		{"in-place-gate", 2, false, inPlaceGate},
		{"in-place-max-unavailable", 4, false, inPlaceBudget},
		{"in-place-with-partition", 3, false, inPlacePartition},
		{"in-place-paused-mid-roll", 4, false, inPlacePaused},
	}
}

// sidecar is a fragment with two containers.
func sidecar(agent, side string) string {
	return fmt.Sprintf("spec: {template: {spec: {containers: [{name: agent, image: %q}, {name: side, image: %q}]}}}", agent, side)
}

// inPlaceImage: pod, address and all else stay; the one container restarts whose image changed.
func inPlaceImage(s *stage) {
	s.run(rolling(inPlace), sidecar(one, one))
	before, address := s.uids(), s.pod(s.Nodes[0]).Status.PodIP
	s.roll(two, sidecar(two, one))
	s.samePods(before)
	for _, node := range s.Nodes {
		pod := s.pod(node)
		if len(pod.Spec.ReadinessGates) > 0 {
			s.t.Errorf("pod %s has gates %v, which nothing asks for", pod.Name, pod.Spec.ReadinessGates)
		}
		if got := restartsOf(pod); got["agent"] != 1 || got["side"] != 0 {
			s.t.Errorf("pod %s: restarts %v, want one of the container agent only", pod.Name, got)
		}
		var state kruise.InPlaceState
		if err := json.Unmarshal([]byte(pod.Annotations[kruise.InPlaceUpdateState]), &state); err != nil || state.Revision != s.set().Status.UpdateRevision {
			s.t.Errorf("pod %s: state %q (%v), want revision %s", pod.Name, pod.Annotations[kruise.InPlaceUpdateState], err, s.set().Status.UpdateRevision)
		}
	}
	if now := s.pod(s.Nodes[0]).Status.PodIP; now != address {
		s.t.Errorf("address %s became %s", address, now)
	}
	s.Wait("an event tells it", harness.HasEvent(s.name, corev1.EventTypeNormal, "SuccessfulUpdatePodInPlace"))
}

func restartsOf(pod *corev1.Pod) map[string]int32 {
	restarts := map[string]int32{}
	for _, status := range pod.Status.ContainerStatuses {
		restarts[status.Name] = status.RestartCount
	}
	return restarts
}

func inPlaceMetadata(s *stage) {
	s.run(rolling(inPlace), "spec: {template: {metadata: {labels: {old: label}}}}")
	before := s.uids()
	s.apply("spec: {template: {metadata: {labels: {old: null, tier: edge}, annotations: {note: changed}}}}")
	s.rolled(harness.EachPod(s.name, "labelled and annotated anew", func(pod *corev1.Pod) bool {
		_, old := pod.Labels["old"]
		return !old && pod.Labels["tier"] == "edge" && pod.Annotations["note"] == "changed"
	}))
	s.samePods(before)
	s.atEnd(func(report observe.Report) {
		if len(report.Restarted) > 0 {
			s.t.Errorf("containers of pods %v were restarted", report.Restarted)
		}
	})
}

// inPlaceFieldRef: a label that a variable reads would not reach the process, so the pod is made anew.
func inPlaceFieldRef(s *stage) {
	s.run(rolling(inPlace), `spec: {template: {metadata: {labels: {tier: a, other: a}}, spec: {containers: [{name: agent, image: "registry.example/agent:1",
  env: [{name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}]}}}`)
	before := s.uids()
	s.run("spec: {template: {metadata: {labels: {other: b}}}}")
	s.samePods(before)
	s.run("spec: {template: {metadata: {labels: {tier: b}}}}")
	s.otherPods(before)
}

func recreatedBy(fragment string) func(s *stage) {
	return func(s *stage) {
		s.run(rolling(inPlace))
		before := s.uids()
		s.run(fragment)
		s.otherPods(before)
	}
}

func inPlaceInitImage(s *stage) {
	const init = "spec: {template: {spec: {initContainers: [{name: init, image: %q}]}}}"
	s.run(rolling(inPlace), fmt.Sprintf(init, one))
	before := s.uids()
	s.run(fmt.Sprintf(init, two))
	s.otherPods(before)
}

func inPlaceSameDigest(s *stage) {
	s.run(rolling(inPlace), withImage(sameDigest))
	before, image := s.uids(), s.pod(s.Nodes[0]).Status.ContainerStatuses[0].ImageID
	s.roll(sameAgain)
	s.samePods(before)
	if now := s.pod(s.Nodes[0]).Status.ContainerStatuses[0].ImageID; now != image {
		s.t.Errorf("image %s became %s: the simulation does not do what this scenario needs", image, now)
	}
}

// inPlaceBroken: a change that never ends keeps its slot and is reported; another template takes its place on the same node.
func inPlaceBroken(s *stage) {
	s.run(rolling(inPlace))
	before := s.uids()
	s.apply(withImage(broken))
	s.Wait("one node is stuck, and the condition says why", harness.Observed(s.name, s.generation()),
		harness.StatusIs(s.name, "1 updated and 1 unavailable", func(status status) bool {
			return status.UpdatedNumberScheduled == 1 && status.NumberUnavailable == 1
		}), harness.ConditionIs(s.name, kruisedialect.Progressing, corev1.ConditionFalse, kruisedialect.ReasonPodsFailing),
		harness.ConditionIs(s.name, kruisedialect.Degraded, corev1.ConditionTrue, kruisedialect.ReasonPodsFailing), s.waitsFor(broken, "ImagePullBackOff"))
	stuck := s.running(broken)
	s.wantOutput(s.View().ConditionOf(s.name, kruisedialect.Progressing).Message, stuck[0], "container agent: ", "ImagePull")
	s.roll(two)
	s.samePods(before)
}

// waitsFor is met when one pod has the image, and its container waits with that reason.
func (s *stage) waitsFor(image, reason string) harness.Condition {
	return func(v harness.View) error {
		for _, pod := range v.Pods(s.name) {
			for _, status := range pod.Status.ContainerStatuses {
				if imageOf(pod) == image && status.State.Waiting != nil && status.State.Waiting.Reason == reason {
					return nil
				}
			}
		}
		return fmt.Errorf("no container with image %s waits with reason %s", image, reason)
	}
}

func inPlaceRollback(s *stage) {
	s.run(rolling(inPlace))
	before, first := s.uids(), s.set().Status.UpdateRevision
	s.roll(two)
	s.roll(one)
	s.samePods(before)
	if again := s.set().Status.UpdateRevision; again != first {
		s.t.Errorf("the revision is %s, want that of before, %s", again, first)
	}
	// From a broken image too.
	s.apply(withImage(broken))
	s.Wait("a node is stuck", s.waitsFor(broken, "ImagePullBackOff"))
	s.roll(one)
	s.samePods(before)
}

// inPlaceGrace: between not ready and the new image lies the grace period.
func inPlaceGrace(s *stage) {
	const seconds = 2
	s.run(rolling(inPlace), fmt.Sprintf(`metadata: {annotations: {everynode.dev/in-place-grace-seconds: "%d"}}`, seconds))
	before := s.uids()
	s.roll(two)
	s.samePods(before)
	since := map[string]time.Time{}
	for _, event := range s.recorder.Log() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		closed := gateClosed(pod, kruise.InPlaceUpdateReady)
		begun, known := since[pod.Name]
		switch {
		case closed && !known:
			since[pod.Name] = event.At
		case closed && imageOf(pod) == two && !begun.IsZero():
			if waited := event.At.Sub(begun); waited < (seconds-1)*time.Second { // times of conditions are whole seconds
				s.t.Errorf("pod %s was patched after %s", pod.Name, waited)
			}
			since[pod.Name] = time.Time{}
		}
	}
	if len(since) != len(s.Nodes) {
		s.t.Errorf("%d pods were marked, want %d", len(since), len(s.Nodes))
	}
}

func gateClosed(pod *corev1.Pod, gate corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == gate {
			return c.Status == corev1.ConditionFalse
		}
	}
	return false
}

// inPlaceSwitchedOn: pods made before are changed in place like all others.
func inPlaceSwitchedOn(s *stage) {
	s.run()
	before := s.uids()
	s.roll(two, rolling(inPlace))
	s.samePods(before)
}

// inPlaceGate: with the annotation a pod is not ready before it is changed. Pods made before have no readiness gate for that, so they are recreated once, and
// changed in place from then on.
func inPlaceGate(s *stage) {
	s.run(rolling(inPlace))
	before := s.uids()
	s.roll(two, `metadata: {annotations: {everynode.dev/in-place-gate: "true"}}`)
	s.otherPods(before)
	before = s.uids()
	s.roll(three)
	s.samePods(before)
	marked := map[string]bool{}
	for _, event := range s.recorder.Log() {
		if pod, ok := event.Object.(*corev1.Pod); ok && gateClosed(pod, kruise.InPlaceUpdateReady) && imageOf(pod) == two {
			marked[pod.Name] = true
		}
	}
	if len(marked) != len(s.Nodes) {
		s.t.Errorf("%d pods were marked before they were changed, want %d", len(marked), len(s.Nodes))
	}
}

func inPlaceBudget(s *stage) {
	s.run(rolling(inPlace+", maxUnavailable: 50%"), "spec: {minReadySeconds: 5}") // slow enough for two to be unavailable at once
	before := s.uids()
	s.roll(two)
	s.samePods(before)
	s.atEnd(func(report observe.Report) {
		if report.MostUnavailable != 2 {
			s.t.Errorf("%s, want 2 unavailable", report.Summary())
		}
	})
}

func inPlacePartition(s *stage) {
	s.run(rolling(inPlace + ", partition: 2"))
	before := s.uids()
	s.apply(withImage(two))
	s.held(1)
	s.wantNodes(two, s.sorted()[2])
	s.apply(rolling("partition: 0"))
	s.rolled(s.runs(two))
	s.samePods(before)
}

func inPlacePaused(s *stage) {
	s.run(rolling(inPlace), "spec: {minReadySeconds: 5}") // slow enough for the pause to come in the middle
	before := s.uids()
	s.apply(withImage(two))
	s.Wait("the update has begun", s.updatedSomewhere(two))
	s.apply(rolling("paused: true"))
	s.Wait("the update is paused", harness.ConditionIs(s.name, kruisedialect.Progressing, corev1.ConditionFalse, kruisedialect.ReasonHeld))
	if updated := len(s.running(two)); updated == len(s.Nodes) {
		s.t.Errorf("all %d nodes are updated while paused", updated)
	}
	s.apply(rolling("paused: false"))
	s.rolled(s.runs(two))
	s.samePods(before)
}

// withCPU is a fragment with an image and a request.
func withCPU(image, cpu string) string {
	return fmt.Sprintf("spec: {template: {spec: {containers: [{name: agent, image: %q, resources: {requests: {cpu: %s}}}]}}}", image, cpu)
}

// inPlaceResources: a running container is given other resources, and is not restarted.
func inPlaceResources(s *stage) {
	s.run(rolling(inPlace), withCPU(one, "10m"))
	before := s.uids()
	s.apply(withCPU(one, "20m"))
	s.rolled(s.hasCPU("20m"))
	s.samePods(before)
	s.atEnd(func(report observe.Report) {
		if len(report.Restarted) > 0 {
			s.t.Errorf("containers of pods %v were restarted", report.Restarted)
		}
	})
}

func inPlaceResourcesAndImage(s *stage) {
	s.run(rolling(inPlace), withCPU(one, "10m"))
	before := s.uids()
	s.apply(withCPU(two, "20m"))
	s.rolled(s.hasCPU("20m"), s.runs(two))
	s.samePods(before)
}

// hasCPU is met when every pod asks for that much CPU, and its node has given it.
func (s *stage) hasCPU(cpu string) harness.Condition {
	return harness.EachPod(s.name, "given "+cpu, func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return pod.Spec.Containers[0].Resources.Requests.Cpu().String() == cpu &&
			status.Resources != nil && status.Resources.Requests.Cpu().String() == cpu
	})
}
