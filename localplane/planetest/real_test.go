// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/internal/realnode"
)

// needRealNodes skips a test loudly where there can be none.
func needRealNodes(t *testing.T) {
	t.Helper()
	bin := filepath.Dir(program(t))
	_, err := realnode.Check(realnode.CheckOptions{
		Home: t.TempDir(), Node: filepath.Join(bin, "localplane-node"), Nodes: 2,
		Built: []string{filepath.Join(bin, "everynode-agent"), filepath.Join(bin, "images", "pause"), filepath.Join(bin, "images", "testapp")},
	})
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
}

// realFixture is one plane with two real nodes beside two simulated ones that the subtests use one after the other.
type realFixture struct {
	fixture
	traces traces
}

func TestRealNodes(t *testing.T) {
	t.Parallel()
	needRealNodes(t)
	before := lookAtMachine(t)
	o := options(t)
	o.Nodes, o.RealNodes, o.NativeController = 2, 2, true
	f := &realFixture{}
	f.plane, f.client = start(t, o)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"pods run", f.podsRun},
		{"status shows them", f.statusShowsThem},
		{"nothing is reached from outside", f.outside},
		{"nothing outside is reached", f.fromWithin},
		{"a kubelet may write its own node alone", f.restricted},
		{"cut, power loss, and back", f.cutAndPower},
		{"components are killed and started", f.components},
		{"a node that ends by itself comes back", f.crash},
		{"the machine is as it was while they run", before.expectSame},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	f.traces = follow(t, f.plane)
	if err := f.plane.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.traces.gone(t)
	before.expectSame(t)
}

const realApp = "real"

func realDaemonSet() *appsv1.DaemonSet {
	set := daemonSet(realApp, "registry.local/app:v1")
	none := int64(0)
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = &none
	set.Spec.Template.Spec.NodeSelector = map[string]string{nodes.RealLabel: "true"}
	return set
}

func (f *realFixture) podsRun(t *testing.T) {
	if _, err := f.client.AppsV1().DaemonSets(namespace).Create(t.Context(), realDaemonSet(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	podsReady(t, f.client, realApp, 2, "registry.local/app:v1")
	for n := 1; n <= 2; n++ {
		pod := podOn(t, f.client, realApp, realnode.Name(n))
		if pod.Status.HostIP != realnode.Address(n) || !strings.HasPrefix(pod.Status.PodIP, fmt.Sprintf("10.78.%d.", n)) {
			t.Errorf("%s: the pod is on %s and has the address %s", realnode.Name(n), pod.Status.HostIP, pod.Status.PodIP)
		}
		f.reach(t, net.JoinHostPort(pod.Status.PodIP, "8080"))
	}
	f.traces = follow(t, f.plane)
}

// reach connects to an address in the network of the plane.
func (f *realFixture) reach(t *testing.T, address string) {
	t.Helper()
	eventually(t, 20*time.Second, address+" answers", func() error { return f.dial(t.Context(), address) })
}

func (f *realFixture) dial(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := f.plane.DialNetwork(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func kubelet(n int) string { return net.JoinHostPort(realnode.Address(n), "10250") }

func (f *realFixture) statusShowsThem(t *testing.T) {
	status, err := f.plane.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Nodes == nil || *status.Nodes != (localplane.NodeCount{Ready: 4}) {
		t.Errorf("nodes %+v", status.Nodes)
	}
	for _, name := range []string{"network", "gateway", "registry", "real-1", "real-1-containerd", "real-1-kubelet", "real-1-kube-proxy", "real-2", "real-2-kubelet"} {
		if !slices.ContainsFunc(status.Components, func(c localplane.ComponentStatus) bool {
			return c.Name == name && c.State == localplane.ComponentReady && c.PID != 0
		}) {
			t.Errorf("%s is not shown as ready: %+v", name, status.Components)
		}
	}
}

// outside tries to reach from the machine what the plane's own network has. A machine's uplink may answer for any address.
func (f *realFixture) outside(t *testing.T) {
	pod := podOn(t, f.client, realApp, "real-1").Status.PodIP
	var direct net.Dialer
	for _, address := range []string{
		net.JoinHostPort(realnode.GatewayAddress, "5000"), kubelet(1), net.JoinHostPort(pod, "8080"),
	} {
		there := answer(t.Context(), f.plane.DialNetwork, address)
		if !strings.HasPrefix(there, "HTTP/1.") {
			t.Errorf("%s answers in the plane: %q", address, there)
		}
		if here := answer(t.Context(), direct.DialContext, address); here == there {
			t.Errorf("%s is reached from the machine: %q", address, here)
		}
	}
	registry, err := f.plane.RegistryAddress()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", registry)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// answer is what a server answers to a question that it may not understand.
func answer(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), address string) string {
	const patience = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	raw, _ := io.ReadAll(conn)
	head, _, _ := strings.Cut(string(raw), "\r\nDate: ")
	return head
}

// fromWithin tries to reach the machine, and what is beyond it, from a node.
func (f *realFixture) fromWithin(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	outside := []string{net.JoinHostPort("192.0.2.1", "80")}
	for _, address := range own {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil {
			outside = append(outside, net.JoinHostPort(ip.IP.String(), port))
		}
	}
	if answer := f.ask(t, net.JoinHostPort(realnode.GatewayAddress, "5000")); !strings.Contains(answer, `"ok":true`) {
		t.Errorf("the registry does not answer a node: %s", answer)
	}
	for _, address := range outside {
		if answer := f.ask(t, address); !strings.Contains(answer, `"ok":false`) || !strings.Contains(answer, "dial tcp") {
			t.Errorf("a node asks %s: %s", address, answer)
		}
	}
}

// ask asks one question from within a node.
func (f *realFixture) ask(t *testing.T, address string) string {
	t.Helper()
	client := filepath.Join(filepath.Dir(program(t)), "images", "testapp")
	var out bytes.Buffer
	err := f.plane.NodeExec(t.Context(), "real-1", []string{client, "probe", "http://" + address + "/v2/pause/manifests/1", "-every", "1s", "-duration", "100ms", "-timeout", "300ms"},
		localplane.Streams{Out: &out, Err: &out})
	if err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return out.String()
}

// restricted has the kubelet of a node, as the API server knows it, write nodes.
func (f *realFixture) restricted(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(f.plane.NodeDir("real-1"), "etc", "kubelet.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.Host = f.plane.RESTConfig().Host
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	patch := func(node, label string) error {
		body := fmt.Sprintf(`{"metadata":{"labels":{%q:"x"}}}`, label)
		_, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	if err := patch("real-1", "example.com/own"); err != nil {
		t.Errorf("its own node: %v", err)
	}
	if err := patch("real-1", "node-restriction.kubernetes.io/x"); !apierrors.IsForbidden(err) {
		t.Errorf("a label of its own node that is not its business: %v", err)
	}
	for _, other := range []string{"real-2", "node-0001"} {
		if err := patch(other, "example.com/own"); !apierrors.IsForbidden(err) {
			t.Errorf("node %s: %v", other, err)
		}
	}
}

func (f *realFixture) awaitNode(t *testing.T, name string, want v1.ConditionStatus) {
	t.Helper()
	eventually(t, grace+30*time.Second, name+" is "+string(want), func() error {
		if got := nodeReady(t, f.client, name); got != want {
			return fmt.Errorf("Ready is %s", got)
		}
		return nil
	})
}

// cutAndPower cuts one node, and turns both off and on: the cut one stays cut, and the pods are the same afterwards.
func (f *realFixture) cutAndPower(t *testing.T) {
	before := map[string]types.UID{}
	for _, name := range []string{"real-1", "real-2"} {
		before[name] = podOn(t, f.client, realApp, name).UID
	}
	ctx := t.Context()
	if err := errors.Join(f.plane.CutNode(ctx, "real-1"), f.plane.KillNode(ctx, "real-2")); err != nil {
		t.Fatal(err)
	}
	components, err := f.plane.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range components.Components {
		if of := strings.HasPrefix(c.Name, "real-2"); of != (c.State == localplane.ComponentKilled) {
			t.Errorf("after the power loss of real-2: %+v", c)
		}
	}
	f.awaitNode(t, "real-1", v1.ConditionUnknown)
	f.awaitNode(t, "real-2", v1.ConditionUnknown)
	if err := f.plane.KillNode(ctx, "real-1"); err != nil {
		t.Fatal(err)
	}
	// All processes of both nodes, and none of the others.
	eventually(t, 10*time.Second, "the processes of the nodes gone", func() error {
		left := 0
		for _, id := range f.traces.processes {
			if id.Alive() {
				left++
			}
		}
		if left != 3 { // network, gateway and registry
			return fmt.Errorf("%d processes of the plane are in namespaces of their own", left)
		}
		return nil
	})
	if err := errors.Join(f.plane.StartNode(ctx, "real-1"), f.plane.StartNode(ctx, "real-2")); err != nil {
		t.Fatal(err)
	}
	f.awaitNode(t, "real-2", v1.ConditionTrue)
	if err := f.dial(ctx, kubelet(1)); err == nil {
		t.Error("the cut node is reached after it was off")
	}
	status, err := f.plane.Status(ctx)
	if err != nil || status.Nodes == nil || *status.Nodes != (localplane.NodeCount{Ready: 3, Cut: 1}) {
		t.Errorf("nodes %+v, error %v", status.Nodes, err)
	}
	if err := f.plane.HealNode(ctx, "real-1"); err != nil {
		t.Fatal(err)
	}
	f.awaitNode(t, "real-1", v1.ConditionTrue)
	for name, uid := range before {
		f.sameAgain(t, name, uid)
	}
}

// sameAgain waits until a node's pod is Ready with its container started again, and expects it to be the same pod.
func (f *realFixture) sameAgain(t *testing.T, node string, uid types.UID) {
	t.Helper()
	eventually(t, 30*time.Second, "the pod of "+node+" back", func() error {
		pod := podOn(t, f.client, realApp, node)
		if pod.UID != uid {
			t.Fatalf("%s has another pod", node)
		}
		if !podReady(pod) || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Errorf("%+v", pod.Status.ContainerStatuses)
		}
		return nil
	})
	f.reach(t, net.JoinHostPort(podOn(t, f.client, realApp, node).Status.PodIP, "8080"))
}

func (f *realFixture) components(t *testing.T) {
	for _, name := range []string{"real-1-kubelet", "real-1-containerd", "real-1-kube-proxy", "gateway", "registry", "network", "kube-apiserver"} {
		if err := f.plane.KillComponent(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := f.plane.StartComponent(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	// A new network has a link to each node.
	f.reach(t, kubelet(1))
	f.reach(t, kubelet(2))
	f.setImage(t, realApp, "registry.local/app:v2")
	podsReady(t, f.client, realApp, 2, "registry.local/app:v2")
	f.awaitNode(t, "real-1", v1.ConditionTrue)
	f.awaitNode(t, "real-2", v1.ConditionTrue)
}

// crash ends the first process of a node behind the supervisor's back.
func (f *realFixture) crash(t *testing.T) {
	find := func(name string) localplane.ComponentStatus {
		status, err := f.plane.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(status.Components, func(c localplane.ComponentStatus) bool { return c.Name == name })
		return status.Components[i]
	}
	if err := syscall.Kill(find("real-2").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"real-2", "real-2-containerd", "real-2-kube-proxy", "real-2-kubelet"} {
		eventually(t, 30*time.Second, name+" back", func() error {
			if c := find(name); c.State != localplane.ComponentReady || c.Restarts == 0 {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
	}
	f.reach(t, kubelet(2))
}
