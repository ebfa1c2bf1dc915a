// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
)

// The components that are killed.
const (
	firstManager  = harness.ManagerComponent
	secondManager = harness.ManagerComponent + "-2"
	apiServer     = "kube-apiserver"
)

// hookLabel is the label of the preDelete hook of TestDeathsInMidRoll.
const hookLabel = "example.io/block-deleting"

// blocked is a manifest with a preDelete hook that takes a pod out of use and holds it by a label.
func blocked(manifest string) string {
	lifecycle := `"lifecycle": {"preDelete": {"labelsHandler": {"` + hookLabel + `": "true"}, "markPodNotReady": true}}, "template":`
	manifest = strings.Replace(manifest, `"template":`, lifecycle, 1)
	const template = `"template":`
	at := strings.Index(manifest, template) + len(template)
	return manifest[:at] + strings.Replace(manifest[at:], `"app": "agent"`, `"app": "agent", "`+hookLabel+`": "true"`, 1)
}

// TestDeathsInMidRoll kills managers, of which there are two, and the API server in the middle of an update in place and of one
// with hooks. The budget holds at every moment, nothing is done twice, and the roll comes to its end.
func TestDeathsInMidRoll(t *testing.T) {
	t.Parallel() // it waits most of the time for the leases of dead leaders
	c := harness.Own(t, harness.Options{Nodes: allNodes, Controller: harness.Everynode, Advanced: true, Managers: 2, Sim: quick()})
	s := c.Space(t, allNodes)
	p := recorded(t, "minimal", kubernetes132)
	manifest := blocked(p.manifest(beta, inPlace))
	apply(t, s, manifest)
	s.Wait("the set runs", harness.RolledOut(agent, 1, allNodes))
	t.Run("InPlace", func(t *testing.T) { dieInPlace(t, s.In(t)) })
	t.Run("Hooks", func(t *testing.T) { dieWithHooks(t, s.In(t)) })
}

// dieInPlace kills one manager, then the other, while images are changed.
func dieInPlace(t *testing.T, s *harness.Space) {
	c, w := s.Cluster, newWitness(t, s)
	change(t, s, "/spec/template/spec/containers/0/image", "replace", minimalImage2)
	for i, victim := range []string{firstManager, secondManager} {
		w.await(fmt.Sprintf("%d restarts", 10+15*i), func(seen testimony) bool { return len(seen.restarted) >= 10+15*i })
		c.Kill(t, victim)
		c.StartComponent(t, victim)
	}
	s.Wait("the update ends", image(minimalImage2), harness.RolledOut(agent, 2, allNodes))
	seen := w.testify(t)
	seen.keptBudget(t)
	if len(seen.made) != 0 || len(seen.ended) != 0 || len(seen.restarted) != allNodes {
		t.Errorf("pods made %v, ended %v, %d restarts, want none, none and %d", seen.made, seen.ended, len(seen.restarted), allNodes)
	}
}

// dieWithHooks kills the API server, then both managers, while pods wait for their hook and are made anew.
func dieWithHooks(t *testing.T, s *harness.Space) {
	c, w := s.Cluster, newWitness(t, s)
	hook := startHook(t, s)
	change(t, s, "/spec/template/spec/containers/0/env", "add", []map[string]string{{"name": "A", "value": "b"}})
	w.await("10 pods have ended", func(seen testimony) bool { return len(seen.ended) >= 10 })
	c.Kill(t, apiServer)
	c.StartComponent(t, apiServer)
	w.await("25 pods have ended", func(seen testimony) bool { return len(seen.ended) >= 25 })
	c.Kill(t, firstManager)
	c.Kill(t, secondManager)
	c.StartComponent(t, firstManager)
	c.StartComponent(t, secondManager)
	s.Wait("the update ends", harness.RolledOut(agent, 3, allNodes), harness.EachPod(agent, "of the new template", func(pod *corev1.Pod) bool {
		return len(pod.Spec.Containers[0].Env) == 1
	}))
	if released := hook(); released != allNodes {
		t.Errorf("the hook has released %d pods, want %d", released, allNodes)
	}
	seen := w.testify(t)
	seen.oneEach(t, "the roll")
	seen.keptBudget(t)
	if len(seen.made) != allNodes || len(seen.ended) != allNodes || len(seen.restarted) != 0 {
		t.Errorf("%d pods made, %d ended, restarted %v, want %d, %d and none", len(seen.made), len(seen.ended), seen.restarted, allNodes, allNodes)
	}
}

// keptBudget fails unless the budget was used, and not exceeded.
func (seen testimony) keptBudget(t testing.TB) {
	t.Helper()
	if unavailable := allNodes - seen.fewest; !seen.settled || unavailable > budget || unavailable < budget/2 {
		t.Errorf("%d nodes were unavailable at once, want the budget of %d used and not exceeded:\n%s", unavailable, budget, seen.worst)
	}
}

// change changes the set as soon as somebody answers its webhooks.
func change(t *testing.T, s *harness.Space, path, op string, value any) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op": %q, "path": %q, "value": %s}]`, op, path, asJSON(t, value))
	s.Poll("the set can be changed", func() error {
		if out, err := s.KubectlWith("", "patch", advancedSets, agent, "--type=json", "-p", patch); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// startHook plays the controller that pods wait for before they are deleted: it takes its label off those that are out of use.
// The function that is returned ends it, and tells how many pods it has released.
func startHook(t *testing.T, s *harness.Space) func() int {
	ctx, cancel := context.WithCancel(s.Context())
	ended, released := make(chan struct{}), map[types.UID]bool{}
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, pod := range s.View().AllPods() {
				if waits(pod) && !released[pod.UID] && release(ctx, s, pod) == nil { // what fails is tried again
					released[pod.UID] = true
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	stop := func() int {
		cancel()
		<-ended
		return len(released)
	}
	t.Cleanup(func() { stop() })
	return stop
}

// waits is whether the pod waits for the hook, and gets no traffic meanwhile.
func waits(pod *corev1.Pod) bool {
	if pod.Labels[kruise.LifecycleState] != kruise.LifecyclePreparingDelete || pod.Labels[hookLabel] == "" {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kruise.KruisePodReady {
			return condition.Status == corev1.ConditionFalse
		}
	}
	return false
}

func release(ctx context.Context, s *harness.Space, pod *corev1.Pod) error {
	patch := fmt.Sprintf(`{"metadata": {"uid": %q, "labels": {%q: null}}}`, pod.UID, hookLabel)
	_, err := s.Cluster.Client.CoreV1().Pods(s.Name).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
