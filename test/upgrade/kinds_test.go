// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// set is the name of every set.
const set = "ds"

// kind is a kind of set with a budget of one node.
type kind struct {
	name, resource string
	// inPlace is whether a roll changes the pods instead of making others.
	inPlace bool
	run     func(s *harness.Space)
	observe func(s *harness.Space) *observe.Recorder
}

func observeNative(s *harness.Space) *observe.Recorder   { return s.Observe(set) }
func observeAdvanced(s *harness.Space) *observe.Recorder { return s.ObserveAdvanced(set) }

// native is a DaemonSet of apps/v1.
func native() kind {
	return kind{"Native", "daemonsets.apps", false, func(s *harness.Space) { s.Run(set, harness.WithBudget("1", "0")) }, observeNative}
}

// yurt is a DaemonSet of apps/v1 that is updated by the annotation of OpenYurt.
func yurt() kind {
	return kind{"OpenYurt", "daemonsets.apps", false, func(s *harness.Space) {
		s.Run(set, harness.WithOnDelete, harness.WithAnnotation("apps.openyurt.io/update-strategy", "AdvancedRollingUpdate"),
			harness.WithAnnotation("apps.openyurt.io/max-unavailable", "1"))
	}, observeNative}
}

// advanced is an Advanced DaemonSet that is updated in place.
func advanced() kind {
	return kind{"Advanced", "daemonsets.apps.kruise.io", true, func(s *harness.Space) {
		apply(s, fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: %s}
spec:
  selector: {matchLabels: {app: ds}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: ds}}
    spec:
      nodeSelector: {%s: %s}
      terminationGracePeriodSeconds: 1
      containers: [{name: daemon, image: %q}]
`, set, harness.PoolLabel, s.Name, harness.Image))
		s.Wait("the set runs on every node", harness.RolledOut(set, 1, allNodes))
	}, observeAdvanced}
}

// apply applies a manifest as soon as somebody answers the webhooks of what is in it.
func apply(s *harness.Space, manifest string) {
	s.Poll("it can be applied", func() error {
		if out, err := s.KubectlWith(manifest, "apply", "-f", "-"); err != nil {
			return fmt.Errorf("%w: %s\n%s", err, out, manifest)
		}
		return nil
	})
}

// patch changes the set as soon as somebody answers its webhooks, and returns the generation of it.
func (k kind) patch(s *harness.Space, path, value string) int64 {
	var generation int64
	s.Poll("the set can be changed", func() error {
		out, err := s.KubectlWith("", "patch", k.resource, set, "--type=json", "--output=jsonpath={.metadata.generation}",
			"--patch", fmt.Sprintf(`[{"op": "add", "path": %q, "value": %s}]`, path, value))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		generation, err = strconv.ParseInt(strings.TrimSpace(out), 10, 64)
		return err
	})
	return generation
}

// begin has a roll to an image begin, and waits until the first nodes are updated, but not all.
func (k kind) begin(t *testing.T, s *harness.Space, image string) (generation int64) {
	t.Helper()
	generation = k.patch(s, "/spec/template/spec/containers/0/image", strconv.Quote(image))
	s.Wait("the roll is under way", func(v harness.View) error {
		if done := updated(v, image); done < 2 {
			return fmt.Errorf("%d nodes are updated", done)
		}
		return nil
	})
	return generation
}

// updated is how many ready pods have the image.
func updated(v harness.View, image string) int {
	count := 0
	for _, pod := range v.Pods(set) {
		if pod.Spec.Containers[0].Image == image && pod.DeletionTimestamp == nil && harness.Ready(pod) {
			count++
		}
	}
	return count
}

// midRoll fails the test where the roll has come to its end: what is to be tested has not happened then.
func midRoll(t *testing.T, s *harness.Space, image string) {
	t.Helper()
	if done := updated(s.View(), image); done >= allNodes-1 {
		t.Fatalf("%d of %d nodes have been updated already", done, allNodes)
	}
}

// end waits until the roll has ended, and judges it: each node was updated once.
func (k kind) end(t *testing.T, s *harness.Space, recorder *observe.Recorder, generation int64, image string) {
	t.Helper()
	s.Wait("the roll ends", harness.RolledOut(set, generation, allNodes), harness.EachPod(set, "on image "+image, func(pod *corev1.Pod) bool {
		return pod.Spec.Containers[0].Image == image
	}))
	report := s.Judge(recorder)
	if err := recorder.JudgeEdge(observe.EdgeRules{Limit: 1, Blame: time.Minute}).Err(); err != nil { // of the budget of sets that have it in an annotation
		t.Fatalf("observed from outside: %v", err)
	}
	made, restarted := allNodes, 0
	if k.inPlace {
		made, restarted = 0, allNodes
	}
	if len(report.Created) != made || len(report.Deleted) != made || len(report.Restarted) != restarted || report.MostUnavailable > 1 {
		t.Errorf("each of %d nodes is to be updated once: %s", allNodes, report.Summary())
	}
}

// history is what must not change of the revisions. The earlier version writes none in the form of OpenKruise, so this one adds it.
func history(v harness.View) string {
	var text strings.Builder
	for _, revision := range v.Originals() {
		fmt.Fprintf(&text, "%s %s number %d\n", revision.Name, revision.UID, revision.Revision)
	}
	return text.String()
}

// look has the manager look at the set, in which nothing is to be done: it is touched, and its status has to follow. Nothing may have happened since
// the recorder began.
func (k kind) look(t *testing.T, s *harness.Space, recorder *observe.Recorder, limit int, before string) {
	t.Helper()
	generation := k.patch(s, "/spec/revisionHistoryLimit", strconv.Itoa(limit))
	s.Wait("the manager has looked at the set", harness.RolledOut(set, generation, allNodes))
	report := s.Judge(recorder)
	if n := len(report.Created) + len(report.Deleted) + len(report.Restarted); n != 0 {
		t.Errorf("pods were created %v, deleted %v, restarted %v", report.Created, report.Deleted, report.Restarted)
	}
	if now := history(s.View()); now != before {
		t.Errorf("the revisions were\n%s, and are\n%s", before, now)
	}
}
