// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/rbac"
	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

// plane is the API server of all tests.
var plane *world

// world is a plane with clients of it.
type world struct {
	*localplane.Plane
	client  kubernetes.Interface
	dynamic dynamic.Interface
	nodes   atomic.Int32
}

const agentProgram = "everynode-agent"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if _, err := os.Stat(filepath.Join(harness.BinDir(), agentProgram)); err != nil {
		fmt.Fprintf(os.Stderr, "%v: run make build\n", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "everynode-agent-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 1
	if plane, err = start(filepath.Join(dir, "plane")); err == nil {
		code = m.Run()
		err = plane.checkRights(code == 0)
	}
	if plane != nil {
		err = errors.Join(err, plane.Stop(context.Background()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code != 0 {
		showLog(filepath.Join(dir, "plane", "logs"))
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// showLog shows what the API server has said last, and where the rest is; agents show their own logs.
func showLog(dir string) {
	const length = 10_000
	data, err := os.ReadFile(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		data = []byte(err.Error())
	}
	fmt.Fprintf(os.Stderr, "the logs of the plane are kept in %s; the end of that of its API server:\n%s\n", dir, data[max(0, len(data)-length):])
}

// checkRights compares what the agents of all tests have asked with the role that they have. Whether they have used all of it shows only when all
// tests were played to their ends.
func (w *world) checkRights(passed bool) error {
	asked, err := harness.AskedBy(w.AuditLog(), rbac.User(rbac.Agent))
	if err != nil {
		return err
	}
	chosen := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String()
	return harness.CheckRights(rbac.Agent, asked, passed && chosen == "")
}

func start(dir string) (*world, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p, err := localplane.Start(ctx, localplane.Options{
		Dir: dir, Dialects: []string{localplane.NoDialects}, KeepNodes: true,
		Kubernetes: localplane.Kubernetes{Audit: []string{rbac.User(rbac.Agent)}},
		Programs:   localplane.Programs{Localplane: filepath.Join(harness.BinDir(), "localplane")},
	})
	if err != nil {
		return nil, fmt.Errorf("starting a plane: %w", err)
	}
	w := &world{Plane: p}
	if w.client, err = kubernetes.NewForConfig(p.RESTConfig()); err == nil {
		w.dynamic, err = dynamic.NewForConfig(p.RESTConfig())
	}
	if err == nil {
		err = w.define(ctx)
	}
	if err == nil {
		err = w.install(ctx)
	}
	if err == nil {
		err = w.awaitPolicy(ctx)
	}
	return w, err
}

// define makes the API server know NodeImages. Nobody converts between their versions here, and only one of them is used.
func (w *world) define(ctx context.Context) error {
	data, err := config.Kruise.ReadFile("kruise/00-crd-nodeimages.apps.kruise.io.yaml")
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		return fmt.Errorf("reading the definition: %w", err)
	}
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	data, err = json.Marshal(crd)
	if err != nil {
		return err
	}
	crds := w.dynamic.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	force := true
	if _, err = crds.Patch(ctx, crd.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "test", Force: &force}); err != nil {
		return fmt.Errorf("applying the definition: %w", err)
	}
	for {
		if _, err = w.images().List(ctx, metav1.ListOptions{}); err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting for the definition to be served: %w", err)
		}
	}
}

func (w *world) images() dynamic.ResourceInterface {
	return w.dynamic.Resource(v1beta1.GroupVersion().WithResource(kruise.ResourceNodeImage))
}

// node is one node: its NodeImage, its runtime and its agent, which has the rights of its pod and no others.
type node struct {
	t      *testing.T
	name   string
	socket string
	args   []string
	// program is that of the agent, and kubeconfig its own.
	program, kubeconfig string
	log                 string
	agent               *exec.Cmd
}

// newNode makes the NodeImage of a node of its own for the test.
func newNode(t *testing.T, images map[string]v1beta1.ImageSpec, args ...string) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{
		t: t, name: fmt.Sprintf("node-%d", plane.nodes.Add(1)), socket: filepath.Join(dir, "cri.sock"), args: args,
		program: filepath.Join(harness.BinDir(), agentProgram), log: filepath.Join(dir, "agent.log"),
	}
	object := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: n.name}, Spec: v1beta1.NodeImageSpec{Images: images}}
	object.APIVersion, object.Kind = v1beta1.GroupVersion().String(), kruise.KindNodeImage
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(raw, "status")
	if _, err := plane.images().Create(t.Context(), &unstructured.Unstructured{Object: raw}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.kubeconfig = kubeconfig(t, tokenFor(t, n.name))
	return n
}

// begin starts the agent of the node.
func (n *node) begin() {
	n.t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{
		"--kubeconfig", n.kubeconfig, "--node-name", n.name, "--cri-socket", "unix://" + n.socket, "--metrics-bind-address", "0",
		"--image-fs-limit", "0", "--listen", "0",
	}, n.args...)
	agent := exec.Command(n.program, args...)
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.agent = agent
	n.t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait() // it may have ended in the test already
		if data, err := os.ReadFile(n.log); n.t.Failed() && err == nil {
			n.t.Logf("the log of the agent:\n%s", data)
		}
	})
}

// kill ends the agent as kill -9 does.
func (n *node) kill() {
	n.t.Helper()
	if err := n.agent.Process.Kill(); err != nil {
		n.t.Fatal(err)
	}
	_ = n.agent.Wait() // it says that it was killed
}

// terminate asks the agent to end, which it has to do well.
func (n *node) terminate() {
	n.t.Helper()
	if err := n.agent.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	if err := n.agent.Wait(); err != nil {
		n.t.Fatalf("the agent ends badly: %v", err)
	}
}

// status is what the API server says of the node.
func (n *node) status() (v1beta1.NodeImageStatus, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 5*time.Second)
	defer cancel()
	raw, err := plane.images().Get(ctx, n.name, metav1.GetOptions{})
	object := &v1beta1.NodeImage{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, object)
	}
	return object.Status, err
}

// patience is how long a condition may take; the machine may be busy.
const patience = 60 * time.Second

// until waits until the status is as it should be.
func (n *node) until(what string, good func(v1beta1.NodeImageStatus) bool) {
	n.t.Helper()
	var last v1beta1.NodeImageStatus
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if last, err = n.status(); err == nil && good(last) {
			return
		}
	}
	n.t.Fatalf("%s: it does not come to that: %v %+v", what, err, last)
}

// await waits until a tag is in a phase with a message that contains a text.
func (n *node) await(image, tag string, phase v1beta1.ImagePullPhase, message string) v1beta1.ImageTagStatus {
	n.t.Helper()
	var found v1beta1.ImageTagStatus
	n.until(fmt.Sprintf("%s:%s is %s with %q", image, tag, phase, message), func(status v1beta1.NodeImageStatus) bool {
		for _, found = range status.ImageStatuses[image].Tags {
			if found.Tag == tag && found.Phase == phase && strings.Contains(found.Message, message) {
				return true
			}
		}
		return false
	})
	return found
}

// edit changes the specification.
func (n *node) edit(patch string) {
	n.t.Helper()
	if _, err := plane.images().Patch(n.t.Context(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

// event waits for an event about the node with a reason, and returns its message.
func (n *node) event(reason string) string {
	n.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		all, err := plane.client.CoreV1().Events(corev1.NamespaceDefault).List(n.t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + n.name + ",reason=" + reason,
		})
		if err == nil && len(all.Items) > 0 {
			return all.Items[0].Message
		}
	}
	n.t.Fatalf("there is no event %s", reason)
	return ""
}

// logged is whether the agent has printed a text.
func (n *node) logged(text string) bool {
	data, err := os.ReadFile(n.log)
	return err == nil && bytes.Contains(data, []byte(text))
}
