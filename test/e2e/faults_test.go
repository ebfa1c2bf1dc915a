// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

const apiServer = "kube-apiserver"

// agentContainer is the container of an agent.
const agentContainer = "agent"

// fault is something that dies in the middle of a roll, at the node that is being updated.
type fault struct {
	name   string
	strike func(s *stage, node string)
	// after is what has to work again when the roll is over, if it is more than the roll.
	after func(s *stage)
}

func faults() []fault {
	return []fault{
		{name: "kubelet", strike: func(s *stage, node string) { s.restart(node+"-kubelet", node) }},
		{name: "containerd", strike: func(s *stage, node string) { s.restart(node+"-containerd", node) }},
		{name: "agent", strike: killAgents},
		{name: "api-server", strike: func(s *stage, node string) { s.restart(apiServer, node) }},
	}
}

// networkFault ends the network of the nodes, and with it what runs inside: the gateway to the API server, and the registry. All nodes
// are plugged in again. It has nothing to do with the kind of roll, so that one kind is enough.
func networkFault() fault {
	return fault{name: "network", strike: func(s *stage, node string) { s.restart("network", node) }, after: connected}
}

// TestFaults has each thing that a roll depends on die in the middle of each kind of roll. The roll comes to its end, each version was
// started once on each node, and none beside another but where that is the kind of the roll.
func TestFaults(t *testing.T) {
	for _, k := range []kind{nativeRoll(), nativeSurge(), advancedRecreate(), advancedInPlace(), openYurt()} {
		t.Run(k.name, func(t *testing.T) {
			for _, f := range faults() {
				t.Run(f.name, func(t *testing.T) { rollThrough(t, k, f) })
			}
			if k.name == nativeRoll().name {
				t.Run(networkFault().name, func(t *testing.T) { rollThrough(t, k, networkFault()) })
			}
		})
	}
}

func rollThrough(t *testing.T, k kind, f fault) {
	k.annotations = maps.Clone(k.annotations)
	if k.annotations == nil {
		k.annotations = map[string]string{}
	}
	k.annotations[everynode.WaitForImage] = "true" // so that the agents have a part in it
	s := newStage(t, k)
	edits := []harness.Edit{readyAfter(2 * time.Second)}
	if k.name == nativeSurge().name {
		edits = append(edits, withoutLock)
	}
	s.run(edits...)
	version := f.name + "-" + s.Name
	image := s.push(version)
	s.slowRegistry(time.Second)
	generation := s.order(image)
	f.strike(s, s.inMidRoll(image))
	s.rolled(generation, image)
	s.ran(set, "v1", version)
	want := int32(0)
	if k.inPlace {
		want = 1
	}
	for node, pod := range s.pods() {
		if got := restarts(pod, set); got != want {
			t.Errorf("the pod of %s was restarted %d times, want %d", node, got, want)
		}
	}
	if f.after != nil {
		f.after(s)
	}
}

// connected fails unless each node reaches the API server, as its kubelet does, and the registry, with an image that none has yet.
func connected(s *stage) {
	s.t.Helper()
	for _, node := range s.Nodes {
		kubeconfig := filepath.Join(s.Cluster.Plane.NodeDir(node), "etc", "kubelet.kubeconfig")
		out, err := s.inside(node, filepath.Join(harness.BinDir(), "localplane"), "kubectl", "--dir", s.Cluster.Plane.Dir(),
			"--kubeconfig", kubeconfig, "get", "--raw", "/api/v1/nodes/"+node, "--request-timeout", "20s")
		if err != nil || !strings.Contains(out, `"name":"`+node+`"`) {
			s.t.Errorf("on %s the API server answers %.300q (%v)", node, out, err)
		}
	}
	image := s.push("after-" + s.Name)
	asked := len(s.requests())
	s.pullAhead(image)
	s.fetched(s.requests()[asked:])
}

// inMidRoll waits until the first node is being updated, and returns it. The others are not: one goes at a time, and takes two seconds
// to be ready.
func (s *stage) inMidRoll(image string) string {
	s.t.Helper()
	var node string
	s.Wait("the first node is being updated", func(v harness.View) error {
		for _, pod := range v.Pods(set) {
			if runs(image)(pod) && pod.Spec.NodeName != "" {
				node = pod.Spec.NodeName
				return nil
			}
		}
		return fmt.Errorf("no node has a pod with image %s", image)
	})
	return node
}

// restart kills a component, and starts it again when it is missed. The node that is being updated cannot have come to an end before.
func (s *stage) restart(component, node string) {
	s.t.Helper()
	s.Poll("all answer that are between here and the pods of "+node, func() error { return s.askPods(node) })
	s.Cluster.Kill(s.t, component)
	if err := s.unfinished(node); err != nil {
		s.t.Errorf("%s was killed too late: %v", component, err)
	}
	s.Poll("nobody can ask "+node+" for its pods without "+component, func() error {
		if s.askPods(node) == nil {
			return errors.New("it answers all the same")
		}
		return s.killed(component)
	})
	s.Cluster.StartComponent(s.t, component)
}

// askPods asks which pods run on a node. For an answer the API server, the network, the kubelet and containerd are needed.
func (s *stage) askPods(node string) error {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	return s.Cluster.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", node, "proxy", "runningpods/").Do(ctx).Error()
}

// killed tells how a component is that should be without a process.
func (s *stage) killed(component string) error {
	status, err := s.Cluster.Plane.Status(s.Context())
	if err != nil {
		return err
	}
	for _, c := range status.Components {
		if c.Name == component && c.State == localplane.ComponentKilled {
			return nil
		}
	}
	return fmt.Errorf("%s is not among the killed: %+v", component, status.Components)
}

// unfinished tells which pod of a node is new and ready already.
func (s *stage) unfinished(node string) error {
	for _, pod := range s.View().Pods(set) {
		updated := restarts(pod, set) > 0
		if !s.kind.inPlace {
			updated = !runs(one)(pod)
		}
		if pod.Spec.NodeName == node && updated && harness.Ready(pod) {
			return fmt.Errorf("node %s was updated already, pod %s is ready", node, pod.Name)
		}
	}
	return nil
}

// killAgents ends the agent of the node, and deletes the pods of the others; all come back. Then the one of the node is deleted as well,
// for a kubelet lets a container wait longer each time before it starts it again.
func killAgents(s *stage, node string) {
	s.t.Helper()
	s.Poll("an agent runs on each node", func() error { return agentsReady(s) })
	before := s.agents()
	s.killAgent(node)
	for other := range before {
		if other != node {
			s.deleteAgent(before[other])
		}
	}
	s.Poll("the agent of "+node+" was started again", func() error {
		now := s.agents()[node]
		if now == nil || now.UID != before[node].UID || restarts(now, agentContainer) <= restarts(before[node], agentContainer) || !harness.Ready(now) {
			return errors.New("it is not that pod with one more restart, and ready")
		}
		return nil
	})
	s.deleteAgent(before[node])
	s.Poll("each node has another agent", func() error {
		for on, now := range s.agents() {
			if now.UID == before[on].UID {
				return fmt.Errorf("that of %s is still there", on)
			}
		}
		return agentsReady(s)
	})
}

func (s *stage) deleteAgent(pod *corev1.Pod) {
	s.t.Helper()
	if err := s.Cluster.Client.CoreV1().Pods(agents).Delete(s.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// agents are the pods of the agents by node, without those that have to go or have no node yet.
func (s *stage) agents() map[string]*corev1.Pod {
	s.t.Helper()
	list, err := s.Cluster.Client.CoreV1().Pods(agents).List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + agent})
	if err != nil {
		s.t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
			pods[pod.Spec.NodeName] = pod
		}
	}
	return pods
}
