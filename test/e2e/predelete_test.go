// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
)

// block is the label that holds a pod back before it is deleted.
const block = "example.io/block-deleting"

// TestPreDelete rolls a service of three nodes, with questions open all the time: not one is left without an answer. Each pod is taken
// out of the Service before it goes, and a hook lets it go when nobody asks it any more.
func TestPreDelete(t *testing.T) {
	s := newStage(t, advancedRecreate())
	s.create(func(ds *appsv1.DaemonSet) { ds.Spec.Template.Labels = map[string]string{"app": set, block: "true"} })
	generation := s.change(fmt.Sprintf(`{"spec": {"lifecycle": {"preDelete": {"markPodNotReady": true, "labelsHandler": {%q: "true"}}}}}`, block))
	s.Wait("the set runs on all nodes", harness.RolledOut(set, generation, count), harness.EachPod(set, "with a gate", func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == kruise.KruisePodReady })
	}))
	url := s.service(corev1.ServiceInternalTrafficPolicyCluster)
	clients := s.probes(url)
	for _, node := range s.Nodes {
		clients = append(clients, s.ask(node, "hold", url+"slow?for=1s", "--connections", "4", "--timeout", "10s"))
	}
	generation = s.order(two)
	released := s.releaseEach()
	s.rolled(generation, two)
	if len(released) != count {
		t.Errorf("the hook has released %d pods, want %d", len(released), count)
	}
	for _, client := range clients[:count] {
		s.servedBy(client, "v1", "v2") // the last pod has only just become ready
	}
	for _, client := range clients {
		client.answered()
		client.noGap()
	}
	s.ran(set, "v1", "v2")
}

// releaseEach is the hook: it lets go of one pod after the other, until none with the old image is left.
func (s *stage) releaseEach() map[types.UID]bool {
	s.t.Helper()
	released := map[types.UID]bool{}
	for len(released) < count {
		var waiting *corev1.Pod
		s.Wait("a pod waits for the hook, and is not ready", func(v harness.View) error {
			for _, pod := range v.Pods(set) {
				if pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete && !released[pod.UID] && !harness.Ready(pod) {
					waiting = pod
					return nil
				}
			}
			return fmt.Errorf("none does; %d were released", len(released))
		})
		s.Poll("no Service leads to pod "+waiting.Name, func() error { return s.leadsNowhere(waiting) })
		s.Poll("nobody asks pod "+waiting.Name+" any more", func() error { return s.idle(waiting) })
		s.Kubectl("label", "pod", waiting.Name, block+"-")
		released[waiting.UID] = true
	}
	return released
}

// leadsNowhere tells which EndpointSlice has the pod as ready.
func (s *stage) leadsNowhere(pod *corev1.Pod) error {
	slices, err := s.Cluster.Client.DiscoveryV1().EndpointSlices(s.Name).List(s.Context(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + set,
	})
	if err != nil {
		return err
	}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && endpoint.TargetRef.UID == pod.UID && endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
				return fmt.Errorf("EndpointSlice %s has it as ready", slice.Name)
			}
		}
	}
	return nil
}

// idle tells what the pod has to do. The nodes hear a little later of what stands in an EndpointSlice, so nobody may have asked for a
// while.
func (s *stage) idle(pod *corev1.Pod) error {
	const quiet = time.Second
	body, err := s.fromOutside(pod.Status.PodIP, port, "/busy")
	if err != nil {
		return err
	}
	var open int
	var text string
	if _, err := fmt.Sscan(body, &open, &text); err != nil {
		return fmt.Errorf("it says %q: %w", body, err)
	}
	since, err := time.ParseDuration(text)
	if err == nil && (open > 0 || since < quiet) {
		err = fmt.Errorf("%d questions are open, the last was %s ago", open, since)
	}
	return err
}

// servedBy waits until a client was answered by the pods of all nodes, in each of these versions.
func (s *stage) servedBy(client *asking, versions ...string) {
	s.t.Helper()
	s.Poll("the client in "+client.node+" is answered by all pods", func() error {
		have := map[string]bool{}
		for _, answer := range client.answers() {
			if words := strings.Fields(answer.Body); len(words) == 3 {
				have[words[0]+" "+words[2]] = true
			}
		}
		for _, version := range versions {
			for _, node := range s.Nodes {
				if !have[version+" "+node] {
					return fmt.Errorf("not by %s on %s, but by %v", version, node, slices.Sorted(maps.Keys(have)))
				}
			}
		}
		return nil
	})
}
