// SPDX-License-Identifier: Apache-2.0

package advanced

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/examples/predelete-hook/hook"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// sampleScenarios apply the manifests of docs/samples/advanced, which hold every fragment of OpenKruise's own page.
func sampleScenarios() []scenario {
	return []scenario{
		{"sample-with-only-the-api-version-changed", 3, true, func(s *stage) { s.sample("sample.yaml"); s.run(); s.roll(two) }},
		{"sample-standard", 3, false, func(s *stage) { s.sample("standard.yaml"); s.run(); s.roll(two) }},
		{"sample-surging", 3, true, sampleSurging},
		{"sample-in-place", 5, false, sampleInPlace},
		{"sample-selector", 3, false, sampleSelector},
		{"sample-partition", 12, false, samplePartition},
		{"sample-progressive-create", 12, false, sampleProgressive},
		{"sample-paused", 3, false, samplePaused},
		{"sample-predownload", 3, false, func(s *stage) { s.sample("predownload.yaml"); s.run(); s.roll(two) }},
		{"sample-predelete-label", 2, false, samplePreDeleteLabel},
		{"sample-predelete-controller", 3, false, samplePreDeleteController},
		{"sample-predelete-finalizer", 2, false, samplePreDeleteFinalizer},
		{"sample-everything-v1beta1", 4, false, sampleEverything},
	}
}

// sample makes a file of the samples the manifest.
func (s *stage) sample(file string) {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "samples", "advanced", file))
	if err != nil {
		s.t.Fatal(err)
	}
	s.start(string(raw))
}

func sampleSurging(s *stage) {
	s.sample("surging.yaml")
	s.wantOutput(s.apply(), "Surging is an old spelling")
	s.rolled()
	s.roll(two)
	s.atEnd(func(report observe.Report) {
		if report.MostSurging != 1 || report.MostUnavailable != 0 {
			s.t.Errorf("%s, want one node surging and none unavailable", report.Summary())
		}
	})
}

func sampleInPlace(s *stage) {
	s.sample("in-place.yaml")
	s.run()
	before := s.uids()
	s.roll(two)
	s.samePods(before)
}

// nodeType is the label that the samples choose nodes by.
const nodeType = harness.SampleLabel

func sampleSelector(s *stage) {
	s.sample("selector.yaml")
	s.LabelNode(s.Nodes[0], nodeType, "canary")
	s.run()
	s.apply(withImage(two))
	s.held(1)
	s.wantNodes(two, s.Nodes[0])
	s.apply(rolling("selector: null"))
	s.rolled(s.runs(two))
}

func samplePartition(s *stage) {
	s.sample("partition.yaml")
	s.run()
	s.apply(withImage(two))
	s.held(2)
	s.wantNodes(two, s.sorted()[10:]...)
}

func sampleProgressive(s *stage) {
	s.unjudged = true
	s.sample("progressive-create.yaml")
	s.apply()
	s.held(2)
	s.wantNodes(one, s.sorted()[:2]...)
	s.apply(rolling("partition: 0"))
	s.rolled()
}

func samplePaused(s *stage) {
	s.sample("paused.yaml")
	s.run()
	before := s.uids()
	s.apply(withImage(two))
	s.held(0)
	s.samePods(before)
	s.apply(rolling("paused: false"))
	s.rolled(s.runs(two))
}

func samplePreDeleteLabel(s *stage) {
	s.sample("predelete-label.yaml")
	s.run()
	hooked := s.pod(s.sorted()[1])
	s.patchPod(hooked, `{"metadata":{"labels":{"example.io/block-deleting":"true"}}}`)
	s.apply(withImage(two))
	s.waitPrepared(hooked)
	s.release(hooked)
	s.rolled(s.runs(two))
}

// samplePreDeleteController runs the example of a controller that releases pods.
func samplePreDeleteController(s *stage) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- hook.RunWith(ctx, s.Cluster.Client, hook.Options{Namespace: s.Name, Label: hook.DefaultLabel})
	}()
	s.sample("predelete-controller.yaml")
	s.run()
	s.roll(two)
	prepared := map[string]bool{}
	for _, event := range s.recorder.Log() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.Labels[kruise.LifecycleState] == kruise.LifecyclePreparingDelete {
			prepared[pod.Name] = true
		}
	}
	if len(prepared) != len(s.Nodes) {
		s.t.Errorf("pods %v were prepared, want %d", prepared, len(s.Nodes))
	}
	cancel()
	if err := <-ended; err != nil {
		s.t.Error(err)
	}
}

func samplePreDeleteFinalizer(s *stage) {
	defer s.removeFinalizers()
	s.sample("predelete-finalizer.yaml")
	s.run()
	first := s.pod(s.sorted()[1])
	s.apply(withImage(two))
	s.waitPrepared(first, notReadyForHook(first))
	s.release(first)
	second := s.pod(s.sorted()[0])
	s.waitPrepared(second)
	s.release(second)
	s.rolled(s.runs(two))
}

func sampleEverything(s *stage) {
	s.sample("everything-v1beta1.yaml")
	s.LabelNode(s.Nodes[0], nodeType, "canary")
	s.run()
	before := s.uids()
	s.apply(withImage(two))
	s.held(1)
	s.wantNodes(two, s.Nodes[0])
	s.samePods(before)
}

// waitPrepared waits until the pod waits for its hook.
func (s *stage) waitPrepared(pod *corev1.Pod, more ...harness.Condition) {
	s.t.Helper()
	s.Wait("pod "+pod.Name+" is prepared to be deleted", append([]harness.Condition{func(v harness.View) error {
		now := podNamed(v, pod)
		if now == nil || now.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s is deleted", pod.Name)
		}
		if state := now.Labels[kruise.LifecycleState]; state != kruise.LifecyclePreparingDelete {
			return fmt.Errorf("the state of pod %s is %q", pod.Name, state)
		}
		if _, err := time.Parse(time.RFC3339, now.Annotations[kruise.LifecycleTimestamp]); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		return nil
	}}, more...)...)
}

// podNamed is the pod as it is now, nil once it is gone.
func podNamed(v harness.View, pod *corev1.Pod) *corev1.Pod {
	for _, now := range v.AllPods() {
		if now.UID == pod.UID {
			return now
		}
	}
	return nil
}

// release takes off what the pod waits for: the label, and the finalizer.
func (s *stage) release(pod *corev1.Pod) {
	s.t.Helper()
	s.patchPod(pod, `{"metadata":{"labels":{"example.io/block-deleting":null},"finalizers":null}}`)
}

// removeFinalizers lets everything of the stage go when it is over.
func (s *stage) removeFinalizers() {
	for _, pod := range s.View().AllPods() {
		if len(pod.Finalizers) > 0 {
			s.release(pod)
		}
	}
}

// notReadyForHook is met when the hook keeps the pod not ready, and says so in the words of OpenKruise.
func notReadyForHook(pod *corev1.Pod) harness.Condition {
	const message = `[{"userAgent":"Lifecycle","key":"preDeleteHook"}]`
	return func(v harness.View) error {
		now := podNamed(v, pod)
		if now == nil || harness.Ready(now) {
			return fmt.Errorf("pod %s is still ready", pod.Name)
		}
		for _, c := range now.Status.Conditions {
			if c.Type == kruise.KruisePodReady && c.Status == corev1.ConditionFalse && c.Message == message {
				return nil
			}
		}
		return fmt.Errorf("pod %s has no condition %s with message %s: %+v", pod.Name, kruise.KruisePodReady, message, now.Status.Conditions)
	}
}
