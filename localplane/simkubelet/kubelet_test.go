// SPDX-License-Identifier: Apache-2.0

package simkubelet

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
)

// cluster is a kubelet that runs against an API server that is a map.
type cluster struct {
	t      *testing.T
	client kubernetes.Interface
	stop   func()
}

func runKubelet(t *testing.T, client kubernetes.Interface) *cluster {
	t.Helper()
	profile := Fast()
	profile.ImageReport = 0
	k, err := New(Options{Client: client, Profile: profile, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler), Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- k.Run(ctx, func() { close(ready) }) }()
	<-ready
	c := &cluster{t: t, client: client}
	c.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return c
}

func testNode(name string, connected, ready bool) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if connected {
		node.Labels[ConnectedLabel] = "true"
	}
	status := v1.ConditionFalse
	if ready {
		status = v1.ConditionTrue
	}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "198.18.0.1"}}
	return node
}

func testPod(name, node, image string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: image}}},
	}
}

func (c *cluster) pod(name string) (*v1.Pod, error) {
	return c.client.CoreV1().Pods("default").Get(c.t.Context(), name, metav1.GetOptions{})
}

func (c *cluster) eventually(what string, ask func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func (c *cluster) ready(name string) bool {
	pod, err := c.pod(name)
	if err != nil {
		return false
	}
	cond := findCondition(pod.Status.Conditions, v1.PodReady)
	return cond != nil && cond.Status == v1.ConditionTrue
}

func (c *cluster) delete(name string) {
	c.t.Helper()
	pod, err := c.pod(name)
	if err != nil {
		c.t.Fatal(err)
	}
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, new(int64(30))
	// The map knows no grace period, so that a deletion under way is an update.
	if _, err := c.client.CoreV1().Pods("default").Update(c.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) gone(name string) bool {
	_, err := c.pod(name)
	return apierrors.IsNotFound(err)
}

func (c *cluster) update(node *v1.Node) {
	c.t.Helper()
	if _, err := c.client.CoreV1().Nodes().Update(c.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func TestKubeletRunsPodsOfConnectedNodesOnly(t *testing.T) {
	client := fake.NewClientset(
		testNode("here", true, true), testNode("cut", false, true),
		testPod("runs", "here", "app:v1"), testPod("silent", "cut", "app:v1"),
		testPod("unbound", "", "app:v1"), testPod("lost", "gone", "app:v1"),
	)
	c := runKubelet(t, client)
	defer c.stop()
	c.eventually("a ready pod", func() bool { return c.ready("runs") })
	c.delete("silent")
	c.delete("runs")
	c.eventually("the end of the connected node's pod", func() bool { return c.gone("runs") })
	for _, name := range []string{"silent", "unbound", "lost"} {
		pod, err := c.pod(name)
		if err != nil || len(pod.Status.Conditions) > 0 {
			t.Errorf("pod %s was touched: %v, %+v", name, err, pod.Status)
		}
	}

	c.update(testNode("cut", true, true))
	c.eventually("the end of the healed node's pod", func() bool { return c.gone("silent") })
}

func TestKubeletWaitsForTheNodeToBeReady(t *testing.T) {
	client := fake.NewClientset(testNode("n", true, false), testPod("p", "n", "app:v1"))
	c := runKubelet(t, client)
	defer c.stop()
	c.eventually("a running pod", func() bool {
		pod, err := c.pod("p")
		return err == nil && pod.Status.Phase == v1.PodRunning
	})
	if c.ready("p") {
		t.Error("a pod is ready on a node that is not")
	}
	c.update(testNode("n", true, true))
	c.eventually("a ready pod", func() bool { return c.ready("p") })
}

func TestKubeletGivesEveryPodAnAddress(t *testing.T) {
	const count = 50
	objects := []runtime.Object{testNode("n", true, true)}
	// Some run already and keep what they have.
	old := testPod("old", "n", "app:v1")
	old.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.128.0.1", PodIPs: []v1.PodIP{{IP: "10.128.0.1"}}}
	objects = append(objects, old)
	for i := range count {
		objects = append(objects, testPod(fmt.Sprint("p", i), "n", "app:v1"))
	}
	c := runKubelet(t, fake.NewClientset(objects...))
	defer c.stop()
	seen := map[string]string{}
	for i := range count + 1 {
		name := fmt.Sprint("p", i)
		if i == count {
			name = "old"
		}
		c.eventually("pod "+name+" ready", func() bool { return c.ready(name) })
		pod, err := c.pod(name)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[pod.Status.PodIP]; taken || pod.Status.PodIP == "" {
			t.Errorf("pods %s and %s have the address %q", name, other, pod.Status.PodIP)
		}
		seen[pod.Status.PodIP] = name
	}
	if seen["10.128.0.1"] != "old" {
		t.Error("a running pod lost its address")
	}
}

func TestSuccessorOfTheSameName(t *testing.T) {
	client := fake.NewClientset(testNode("n", true, true), testPod("p", "n", "app:v1"))
	c := runKubelet(t, client)
	defer c.stop()
	c.eventually("a ready pod", func() bool { return c.ready("p") })
	c.delete("p")
	c.eventually("its end", func() bool { return c.gone("p") })
	successor := testPod("p", "n", "app:v2")
	successor.UID = "another"
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), successor, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually("a ready successor", func() bool { return c.ready("p") })
	pod, err := c.pod("p")
	if err != nil || pod.Status.ContainerStatuses[0].RestartCount != 0 || pod.Status.ContainerStatuses[0].Image != "app:v2" {
		t.Errorf("%v, %+v", err, pod.Status.ContainerStatuses)
	}
}

func TestImagesAreReportedAndRemembered(t *testing.T) {
	client := fake.NewClientset(testNode("n", true, true), testPod("p", "n", "app:v1"))
	c := runKubelet(t, client)
	images := func() string {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil || len(node.Status.Images) != 1 {
			return ""
		}
		return node.Status.Images[0].Names[0]
	}
	c.eventually("the image in the node's status", func() bool { return images() == "app:v1" })
	c.stop()

	// Another kubelet finds the image there: a pod that may not pull runs.
	c = runKubelet(t, client)
	defer c.stop()
	never := testPod("never", "n", "app:v1")
	never.Spec.Containers[0].ImagePullPolicy = v1.PullNever
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), never, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually("a ready pod", func() bool { return c.ready("never") })
}
