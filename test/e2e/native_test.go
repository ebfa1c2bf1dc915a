// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/localplane/testapp"
	"everynode.dev/everynode/test/harness"
)

// TestNative is what DaemonSets of apps/v1 do on real nodes.
func TestNative(t *testing.T) {
	t.Run("RollAndBack", rollAndBack)
	t.Run("BrokenImage", brokenImage)
	t.Run("Surge", surge)
	t.Run("OnDelete", leftToTheOwner)
	t.Run("Drain", drain)
	t.Run("PowerLoss", powerLoss)
	t.Run("PowerLossInMidRoll", powerLossInMidRoll)
}

// rollAndBack: a set is created, rolled, and rolled back; on no node did two run at a time.
func rollAndBack(t *testing.T) {
	s := newStage(t, nativeRoll())
	s.run()
	recorder := s.Observe(set)
	s.ran(set, "v1")
	s.roll(two)
	s.ran(set, "v1", "v2")
	s.Kubectl("rollout", "undo", "daemonset/"+set)
	if out := s.Kubectl("rollout", "status", "daemonset/"+set, "--timeout=2m"); !strings.Contains(out, "successfully rolled out") {
		t.Errorf("kubectl rollout status says %s", out)
	}
	s.rolled(3, one)
	s.ran(set, "v1", "v2", "v1")
	s.Judge(recorder)
	for node, pod := range s.pods() {
		if body, err := s.fromOutside(pod.Status.PodIP, port, "/"); err != nil || body != "v1 "+pod.Name+" "+node {
			t.Errorf("the pod of node %s answers %q (%v)", node, body, err)
		}
	}
}

// brokenImage: a roll that cannot go on stops at the first node, and is undone; the other nodes notice nothing.
func brokenImage(t *testing.T) {
	s := newStage(t, nativeRoll())
	s.run()
	before := harness.UIDs(s.View().Pods(set))
	s.order(broken)
	s.Wait("a container cannot be started", waits(broken, "CreateContainerError", "RunContainerError", "CrashLoopBackOff"))
	s.Kubectl("rollout", "undo", "daemonset/"+set)
	s.rolled(3, one)
	kept := 0
	for node, uid := range harness.UIDs(s.View().Pods(set)) {
		if before[node] == uid {
			kept++
			s.ranOn(node, set, "v1")
		} else {
			s.ranOn(node, set, "v1", "v1")
		}
	}
	if kept != count-1 {
		t.Errorf("%d nodes have kept their pod, want %d", kept, count-1)
	}
}

// waits is met when a container with that image waits for one of these reasons.
func waits(image string, reasons ...string) harness.Condition {
	return func(v harness.View) error {
		var seen []string
		for _, pod := range v.Pods(set) {
			if !runs(image)(pod) {
				continue
			}
			for _, status := range pod.Status.ContainerStatuses {
				if status.State.Waiting == nil {
					continue
				}
				seen = append(seen, status.State.Waiting.Reason)
				for _, reason := range reasons {
					if status.State.Waiting.Reason == reason {
						return nil
					}
				}
			}
		}
		return fmt.Errorf("no container with image %s waits for %v, but for %v", image, reasons, seen)
	}
}

// surge: the new pod is there before the old one goes, so that each node answers all the time.
func surge(t *testing.T) {
	s := newStage(t, nativeSurge())
	s.run(withoutLock, stopsAfter(3*time.Second))
	clients := s.probes(s.service(corev1.ServiceInternalTrafficPolicyLocal))
	s.roll(two)
	for _, client := range clients {
		s.answers(client, "v2")
		client.noGap()
	}
	s.ran(set, "v1", "v2")
}

// answers waits until a client is answered by that version.
func (s *stage) answers(client *asking, version string) {
	s.t.Helper()
	s.Poll("the client in "+client.node+" is answered by "+version, func() error {
		if last := client.last(); last == nil || !strings.HasPrefix(last.Body, version+" ") {
			return fmt.Errorf("it was answered %+v", last)
		}
		return nil
	})
}

// leftToTheOwner: with OnDelete a pod is replaced when somebody deletes it, and only then.
func leftToTheOwner(t *testing.T) {
	k := nativeRoll()
	k.strategy = onDelete
	s := newStage(t, k)
	s.run()
	before := s.pods()
	generation := s.order(two)
	s.Wait("the roll is known, and nothing is done", harness.Observed(set, generation),
		harness.StatusIs(set, "none updated", func(status appsv1.DaemonSetStatus) bool { return status.UpdatedNumberScheduled == 0 }))
	chosen := s.Nodes[1]
	s.DeletePod(nil, before[chosen])
	s.Wait("the pod that was deleted has a successor", harness.RunsOn(set, s.Nodes...), func(v harness.View) error {
		if pod := v.PodOn(set, chosen); pod == nil || !runs(two)(pod) {
			return fmt.Errorf("node %s does not run %s", chosen, two)
		}
		return nil
	})
	for _, node := range s.Nodes {
		if node == chosen {
			s.ranOn(node, set, "v1", "v2")
			continue
		}
		s.ranOn(node, set, "v1")
		if now := s.pods()[node]; now.UID != before[node].UID || restarts(now, set) != 0 {
			t.Errorf("the pod of node %s was touched", node)
		}
	}
}

// kubectls is a directory with a directory for each version, such as 1.34.4/kubectl.
var kubectls = flag.String("kubectls", "", "a directory with a kubectl of each version of Kubernetes (make build-kubectls)")

// drain: unchanged kubectl drains a node with a native and, in a namespace that asks for that, an Advanced set: the pods of both stay, and the native one answers all the time. With
// -kubectls, the kubectl of each supported version drains it, too.
func drain(t *testing.T) {
	const kept = "kept"
	s := newStage(t, nativeRoll())
	s.run()
	s.Kubectl("label", "namespace", s.Name, everynode.KeepDaemonPods+"=true")
	manifest := fmt.Sprintf(`{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": %q}, "spec": {"selector": {"matchLabels": {"app": %q}},
		"template": {"metadata": {"labels": {"app": %q}}, "spec": {"containers": [{"name": "app", "image": %q}]}}}}`, kept, kept, kept, one)
	if out, err := s.KubectlWith(manifest, "apply", "-f", "-"); err != nil {
		t.Fatalf("creating an Advanced DaemonSet: %v\n%s", err, out)
	}
	s.Wait("the Advanced set runs on all nodes", harness.RolledOut(kept, 1, count))
	node := s.Nodes[0]
	before := map[string]*corev1.Pod{set: s.View().PodOn(set, node), kept: s.View().PodOn(kept, node)}
	s.atEnd("uncordoning", func(ctx context.Context) error {
		out, err := s.Cluster.Kubectl(ctx, "uncordon", node)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	client := s.probe(node, s.service(corev1.ServiceInternalTrafficPolicyLocal))
	programs := []string{""}
	if *kubectls != "" {
		others, err := filepath.Glob(filepath.Join(*kubectls, "1.*", "kubectl"))
		if err != nil || len(others) < 4 {
			t.Fatalf("%s has %v (%v), want at least 4 versions: run make build-kubectls", *kubectls, others, err)
		}
		programs = append(programs, others...)
	}
	for _, program := range programs {
		s.drainedBy(program, node)
	}
	client.noGap()
	for name, was := range before {
		if now := s.View().PodOn(name, node); now == nil || now.UID != was.UID || restarts(now, set) != 0 || now.DeletionTimestamp != nil {
			t.Errorf("the pod of %s on the drained node was touched: %+v", name, now)
		}
	}
	s.ran(set, "v1")
}

// drainedBy drains a node with another pod with that kubectl, or with that of the plane.
func (s *stage) drainedBy(program, node string) {
	s.t.Helper()
	s.Kubectl("run", "other", "--image="+one, "--restart=Never", fmt.Sprintf(`--overrides={"spec": {"nodeName": %q}}`, node))
	s.Wait("another pod runs", podIs("other", corev1.PodRunning))
	arguments := []string{"drain", node, "--ignore-daemonsets", "--force", "--timeout=90s"}
	var out string
	if program == "" {
		out = s.Kubectl(arguments...)
	} else {
		command := exec.CommandContext(s.Context(), program, arguments...)
		command.Env = append(os.Environ(), "KUBECONFIG="+s.Cluster.Plane.Kubeconfig())
		data, err := command.CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s drain: %v\n%s", program, err, data)
		}
		out = string(data)
	}
	if !strings.Contains(out, "evicting pod "+s.Name+"/other") || !strings.Contains(out, "drained") {
		s.t.Errorf("kubectl drain (%s) says\n%s", program, out)
	}
	s.t.Logf("drained by %s", cmp.Or(program, "the kubectl of the plane"))
	s.Kubectl("uncordon", node)
}

// podIs is met when the pod of that name is in that phase.
func podIs(name string, phase corev1.PodPhase) harness.Condition {
	return func(v harness.View) error {
		for _, pod := range v.AllPods() {
			if pod.Name == name && pod.Status.Phase == phase {
				return nil
			}
		}
		return fmt.Errorf("pod %s is not %s", name, phase)
	}
}

// powerLoss: a node that was without power has the same pods again, with new containers.
func powerLoss(t *testing.T) {
	s := newStage(t, nativeRoll())
	s.run()
	before, node := s.pods(), s.Nodes[2]
	s.powerOff(node)
	s.powerOn(node)
	s.Wait("its pod runs again", harness.RunsOn(set, s.Nodes...), harness.EachPod(set, "the one from before, with as many restarts as expected", func(pod *corev1.Pod) bool {
		expected := int32(0)
		if pod.Spec.NodeName == node {
			expected = 1
		}
		return pod.UID == before[pod.Spec.NodeName].UID && restarts(pod, set) == expected
	}))
	for _, other := range s.Nodes {
		if other == node {
			s.judge(node, history{container: set, versions: []string{"v1", "v1"}, pods: 1})
			continue
		}
		s.ranOn(other, set, "v1")
	}
	if body, err := s.fromOutside(s.pods()[node].Status.PodIP, port, "/"); err != nil || !strings.HasPrefix(body, "v1 ") {
		t.Errorf("the pod of the node answers %q (%v)", body, err)
	}
}

// powerLossInMidRoll: a roll that has met a node without power goes on when it is back. The new version is started there once more, and
// in the pod that it had.
func powerLossInMidRoll(t *testing.T) {
	s := newStage(t, nativeRoll())
	s.run(readyAfter(2 * time.Second))
	generation := s.order(two)
	node := s.inMidRoll(two)
	s.powerOff(node)
	versions := []string{"v1", "v2"}
	if started(s.journal(node), "v2") {
		versions = append(versions, "v2")
	}
	s.powerOn(node)
	s.rolled(generation, two)
	s.judge(node, history{container: set, versions: versions, pods: 2})
	for _, other := range s.Nodes {
		if other != node {
			s.ranOn(other, set, "v1", "v2")
		}
	}
}

// started is whether a version has run.
func started(events []testapp.Event, version string) bool {
	return slices.ContainsFunc(events, func(e testapp.Event) bool { return e.Event == testapp.Started && e.Version == version })
}
