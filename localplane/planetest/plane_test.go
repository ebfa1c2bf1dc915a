// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/localplane"
)

// fixture is one plane with upstream's controller that the subtests use one after the other.
type fixture struct {
	plane  *localplane.Plane
	client kubernetes.Interface
}

func TestPlane(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Nodes, o.NativeController = 3, true
	f := &fixture{}
	f.plane, f.client = start(t, o)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"daemon set is created and rolled", f.createAndRoll},
		{"nodes come and go", f.nodesComeAndGo},
		{"broken image holds up the roll", f.brokenImage},
		{"image patched in place", f.inPlace},
		{"images are reported", f.imagesReported},
		{"node is cut and healed", f.cutAndHeal},
		{"nodes serve their API", f.nodeAPI},
		{"components are killed and started", f.killAndStart},
		{"mistakes are told", f.mistakes},
		{"second start is refused", func(t *testing.T) { f.secondStart(t, o) }},
		{"nothing listens beyond loopback", f.loopbackOnly},
		{"anonymous requests are refused", f.anonymous},
		{"pods of gone nodes go", f.podsOfGoneNodes},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	f.restart(t, o)
}

func (f *fixture) setImage(t *testing.T, app, image string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image)
	_, err := f.client.AppsV1().DaemonSets(namespace).Patch(t.Context(), app, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) createAndRoll(t *testing.T) {
	a := daemonSet("a", "app:v1")
	a.Spec.Template.Spec.Affinity = onNodes(v1.NodeSelectorOpNotIn)
	if _, err := f.client.AppsV1().DaemonSets(namespace).Create(t.Context(), a, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	podsReady(t, f.client, "a", 3, "app:v1")
	ips := map[string]bool{}
	for _, pod := range pods(t, f.client, "a") {
		ips[pod.Status.PodIP] = true
	}
	if len(ips) != 3 || ips[""] {
		t.Errorf("pod addresses %v", ips)
	}
	f.setImage(t, "a", "app:v2")
	podsReady(t, f.client, "a", 3, "app:v2")
}

func (f *fixture) brokenImage(t *testing.T) {
	before := pods(t, f.client, "a")
	f.setImage(t, "a", "foo:non-existent")
	eventually(t, 30*time.Second, "a pod in ImagePullBackOff", func() error {
		for _, pod := range pods(t, f.client, "a") {
			if st := pod.Status.ContainerStatuses; len(st) == 1 && st[0].State.Waiting != nil && st[0].State.Waiting.Reason == "ImagePullBackOff" {
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
	f.setImage(t, "a", "app:v2")
	podsReady(t, f.client, "a", 3, "app:v2")
	kept := 0
	for _, pod := range pods(t, f.client, "a") {
		if slices.ContainsFunc(before, func(old v1.Pod) bool { return old.UID == pod.UID }) {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("%d of the pods from before are left, want 2", kept)
	}
}

func (f *fixture) inPlace(t *testing.T) {
	before := podOn(t, f.client, "a", "node-0001")
	old := before.Status.ContainerStatuses[0]
	patch := `{"spec":{"containers":[{"name":"main","image":"app:v3"}]}}`
	_, err := f.client.CoreV1().Pods(namespace).Patch(t.Context(), before.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the container restarted", func() error {
		pod, err := f.client.CoreV1().Pods(namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		st := pod.Status.ContainerStatuses[0]
		if !podReady(pod) || st.RestartCount != 1 || st.Image != "app:v3" || st.ImageID == old.ImageID || st.ContainerID == old.ContainerID {
			return fmt.Errorf("ready %v, %+v", podReady(pod), st)
		}
		if pod.UID != before.UID || pod.Status.ObservedGeneration != pod.Generation {
			return fmt.Errorf("uid %s, generation %d observed %d", pod.UID, pod.Generation, pod.Status.ObservedGeneration)
		}
		return nil
	})
}

func (f *fixture) imagesReported(t *testing.T) {
	eventually(t, 20*time.Second, "three images on node-0001", func() error {
		node, err := f.client.CoreV1().Nodes().Get(t.Context(), "node-0001", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var names []string
		for _, image := range node.Status.Images {
			names = append(names, image.Names...)
		}
		if !slices.Equal(names, []string{"app:v1", "app:v2", "app:v3"}) {
			return fmt.Errorf("images %v", names)
		}
		return nil
	})
}

func (f *fixture) cutAndHeal(t *testing.T) {
	const name = "node-0002"
	if err := f.plane.CutNode(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	pod := podOn(t, f.client, "a", name)
	eventually(t, grace+20*time.Second, "node and pod unready", func() error {
		node, err := f.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tainted := slices.ContainsFunc(node.Spec.Taints, func(taint v1.Taint) bool { return taint.Key == v1.TaintNodeUnreachable })
		ready := podReady(podOn(t, f.client, "a", name))
		if status := nodeReady(t, f.client, name); status != v1.ConditionUnknown || !tainted || ready {
			return fmt.Errorf("node Ready is %s, unreachable taint %v, pod ready %v", status, tainted, ready)
		}
		return nil
	})
	status, err := f.plane.Status(t.Context())
	if err != nil || *status.Nodes != (localplane.NodeCount{Ready: 2, Cut: 1}) {
		t.Errorf("status %+v, error %v", status, err)
	}
	if err := f.client.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The other nodes' pods end within a fraction of this.
	time.Sleep(time.Second)
	if _, err := f.client.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the deleted pod of a cut node: %v", err)
	}
	if err := f.plane.HealNode(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the deleted pod gone", func() error {
		_, err := f.client.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
	eventually(t, 20*time.Second, "its successor ready", func() error {
		for _, pod := range pods(t, f.client, "a") {
			if pod.Spec.NodeName == name && podReady(&pod) && nodeReady(t, f.client, name) == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
}

// comers are the nodes that come and go; the daemon set b is theirs, a is the others'.
func comers() []string { return []string{"node-0004", "node-0005"} }

func (f *fixture) nodesComeAndGo(t *testing.T) {
	b := daemonSet("b", "app:v1")
	b.Spec.Template.Spec.Affinity = onNodes(v1.NodeSelectorOpIn)
	if _, err := f.client.AppsV1().DaemonSets(namespace).Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	names, err := f.plane.AddNodes(t.Context(), 2)
	if err != nil || !slices.Equal(names, comers()) {
		t.Fatalf("added %v, error %v", names, err)
	}
	podsReady(t, f.client, "b", 2, "app:v1")
	for _, name := range names {
		if err := f.plane.RemoveNode(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// podsOfGoneNodes waits for the pod garbage collector, which takes its time, and so does this come last.
func (f *fixture) podsOfGoneNodes(t *testing.T) {
	eventually(t, 90*time.Second, "no pods of b", func() error {
		if n := len(pods(t, f.client, "b")); n != 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

func onNodes(op v1.NodeSelectorOperator) *v1.Affinity {
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelHostname, Operator: op, Values: comers()},
		}}},
	}}}
}

func (f *fixture) killAndStart(t *testing.T) {
	status, err := f.plane.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Components {
		if err := f.plane.KillComponent(t.Context(), c.Name); err != nil {
			t.Fatal(err)
		}
	}
	status, err = f.plane.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Components {
		if c.State != localplane.ComponentKilled {
			t.Errorf("%s is %s after its kill", c.Name, c.State)
		}
	}
	missing := "etcd does not run: `component start etcd`"
	if status.Nodes != nil || !strings.Contains(status.NodesError, missing) {
		t.Errorf("nodes %+v without an API server, error %q", status.Nodes, status.NodesError)
	}
	if err := f.plane.StartComponent(t.Context(), "kube-apiserver"); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("starting the API server without etcd: %v, want %q in it", err, missing)
	}
	for _, c := range status.Components {
		if c.Name == "kube-apiserver" {
			missing = "kube-apiserver does not run: `component start kube-apiserver`"
			if err := f.plane.CutNode(t.Context(), "node-0001"); err == nil || !strings.Contains(err.Error(), missing) {
				t.Errorf("cutting a node without an API server: %v, want %q in it", err, missing)
			}
		}
		if err := f.plane.StartComponent(t.Context(), c.Name); err != nil {
			t.Fatal(err)
		}
	}
	f.setImage(t, "a", "app:v4")
	podsReady(t, f.client, "a", 3, "app:v4")
}

func (f *fixture) mistakes(t *testing.T) {
	for what, err := range map[string]error{
		"node-9999": f.plane.CutNode(t.Context(), "node-9999"),
		"node-8888": f.plane.RemoveNode(t.Context(), "node-8888"),
		"gpu":       f.plane.KillComponent(t.Context(), "gpu"),
		"-1 nodes":  func() error { _, err := f.plane.AddNodes(t.Context(), -1); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v does not name %s", err, what)
		}
	}
}

func (f *fixture) secondStart(t *testing.T, o localplane.Options) {
	_, err := localplane.Start(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), f.plane.Dir()) || !strings.Contains(err.Error(), "localplane down") {
		t.Errorf("error %v names neither the directory nor the remedy", err)
	}
	attached, err := localplane.Attach(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	status, err := attached.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Components) != 6 || status.Nodes == nil {
		t.Errorf("status of the attached plane: %+v", status)
	}
	for _, c := range status.Components {
		if c.State != localplane.ComponentReady || c.PID == 0 || c.RSSBytes < 1<<20 {
			t.Errorf("component %+v", c)
		}
	}
}

// restart stops the plane and starts it again: the pods are still there and nothing of them was restarted.
func (f *fixture) restart(t *testing.T, o localplane.Options) {
	before := map[types.UID]int32{}
	for _, pod := range pods(t, f.client, "a") {
		before[pod.UID] = pod.Status.ContainerStatuses[0].RestartCount
	}
	began := time.Now()
	if err := f.plane.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	nothingRuns(t, o.Dir)
	_, client := start(t, o)
	podsReady(t, client, "a", 3, "app:v4")
	for _, pod := range pods(t, client, "a") {
		restarts, known := before[pod.UID]
		if !known || pod.Status.ContainerStatuses[0].RestartCount != restarts {
			t.Errorf("pod %s: known %v, %d restarts before, %d after", pod.Name, known, restarts, pod.Status.ContainerStatuses[0].RestartCount)
		}
	}
}
