// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/test/harness"
)

const apiServer = "kube-apiserver"

// fault is something that dies in the middle of a roll, at the node that is being updated.
type fault struct {
	name   string
	strike func(s *stage, node string)
	// after is what has to work again when the roll is over, if it is more than the roll.
	after func(s *stage)
}

func faults() []fault {
	return []fault{
		{name: "kubelet", strike: func(s *stage, node string) { s.restart(node + "-kubelet") }},
		{name: "containerd", strike: func(s *stage, node string) { s.restart(node + "-containerd") }},
		{name: "agent", strike: killAgents},
		{name: "api-server", strike: func(s *stage, _ string) { s.restart(apiServer) }},
	}
}

// networkFault ends the network of the nodes, and with it what runs inside: the gateway to the API server, and the registry. All nodes
// are plugged in again. It has nothing to do with the kind of roll, so that one kind is enough.
func networkFault() fault {
	return fault{name: "network", strike: func(s *stage, _ string) { s.restart("network") }, after: connected}
}

// TestFaults has each thing that a roll depends on die in the middle of each kind of roll. The roll comes to its end, each version was
// started once on each node, and none beside another.
func TestFaults(t *testing.T) {
	for _, k := range []kind{nativeRoll(), advancedRecreate(), advancedInPlace(), openYurt()} {
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
	s.run(readyAfter(2 * time.Second))
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

// restart kills a component and starts it again.
func (s *stage) restart(component string) {
	s.t.Helper()
	s.Cluster.Kill(s.t, component)
	s.Cluster.StartComponent(s.t, component)
}

// killAgents ends the agent of the node, and deletes the pods of the others; all come back.
func killAgents(s *stage, node string) {
	s.t.Helper()
	s.killAgent(node)
	pods := s.Cluster.Client.CoreV1().Pods(agents)
	list, err := pods.List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + agent})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pod := range list.Items {
		if pod.Spec.NodeName == node {
			continue
		}
		if err := pods.Delete(s.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Poll("an agent runs on each node", func() error { return agentsReady(s) })
}
