// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
)

// containerdConfig is a containerd of the test's own, which pulls images and runs nothing.
const containerdConfig = `version = 2
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing"]
[grpc]
  address = %[3]q
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
`

// containerd starts a containerd for the node; it returns a function that ends it as a power cut does.
func (n *node) containerd() func() {
	n.t.Helper()
	dir := filepath.Dir(n.socket)
	file := filepath.Join(dir, "containerd.toml")
	text := fmt.Sprintf(containerdConfig, filepath.Join(dir, "root"), filepath.Join(dir, "state"), n.socket)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	daemon := exec.Command("containerd", "--config", file)
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		n.t.Fatal(err)
	}
	end := func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait() // it may have ended in the test already
	}
	n.t.Cleanup(func() {
		end()
		if data, err := os.ReadFile(log.Name()); n.t.Failed() && err == nil {
			n.t.Logf("the log of containerd:\n%s", data[max(0, len(data)-10000):])
		}
	})
	return end
}

// needContainerd skips a test where it cannot run.
func needContainerd(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: containerd needs root; run the tests as root")
	}
	for _, program := range []string{"containerd", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %s is not installed; install it (Debian: apt-get install containerd runc)", program)
		}
	}
}

// secret stores a pull secret where agents look for it.
func secret(t *testing.T, name, host, user, password string) v1beta1.ReferenceObject {
	t.Helper()
	_, err := plane.client.CoreV1().Secrets(kruise.PullSecretNamespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, host, user, password)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v1beta1.ReferenceObject{Namespace: kruise.PullSecretNamespace, Name: name}
}

const megabyte = 1 << 20

func TestContainerdPulls(t *testing.T) {
	needContainerd(t)
	r := newRegistry(t)
	app := r.push(t, "team/app", "v1", megabyte)
	n := newNode(t, map[string]v1beta1.ImageSpec{app: {Tags: []v1beta1.ImageTagSpec{
		{Tag: "v1"}, {Tag: "v9", PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: ptr.To(int32(1))}},
	}}})
	n.containerd()
	n.begin()
	good := n.await(app, "v1", v1beta1.ImagePhaseSucceeded, "")
	if !strings.HasPrefix(good.ImageID, app+"@sha256:") {
		t.Errorf("the image ID is %s", good.ImageID)
	}
	n.await(app, "v9", v1beta1.ImagePhaseFailed, "not found")
	if message := n.event(kruise.ReasonPullFailed); !strings.Contains(message, "v9") {
		t.Errorf("the event says %q", message)
	}
	if r.layers("team/app") != 1 {
		t.Errorf("the layer was downloaded %d times", r.layers("team/app"))
	}
}

func TestContainerdShowsTheRegistrySecrets(t *testing.T) {
	needContainerd(t)
	r := newRegistry(t)
	app := r.push(t, "private/app", "v1", megabyte)
	r.login = [2]string{"ann", "right"}
	wrong, right := secret(t, "wrong", r.host, "ann", "wrong"), secret(t, "right", r.host, "ann", "right")
	n := newNode(t, map[string]v1beta1.ImageSpec{app: {Tags: []v1beta1.ImageTagSpec{
		{Tag: "v1", PullSecrets: []v1beta1.ReferenceObject{wrong}, PullPolicy: &v1beta1.ImageTagPullPolicy{BackoffLimit: ptr.To(int32(0))}},
	}}})
	n.containerd()
	n.begin()
	n.await(app, "v1", v1beta1.ImagePhaseFailed, "401")
	n.edit(fmt.Sprintf(`{"spec":{"images":{%q:{"tags":[{"tag":"v1","version":1,"pullSecrets":[`+
		`{"namespace":%[2]q,"name":%[3]q},{"namespace":%[2]q,"name":%[4]q}]}]}}}}`, app, right.Namespace, wrong.Name, right.Name))
	n.await(app, "v1", v1beta1.ImagePhaseSucceeded, "")
}

func TestContainerdDoesNotFillTheDisk(t *testing.T) {
	needContainerd(t)
	r := newRegistry(t)
	app := r.push(t, "team/app", "v1", megabyte)
	n := newNode(t, map[string]v1beta1.ImageSpec{app: limited("v1", 0)}, "--image-fs-limit", "1")
	n.containerd()
	n.begin()
	n.await(app, "v1", v1beta1.ImagePhaseFailed, "full, and nothing is pulled from 1% on")
	if r.layers("team/app") != 0 {
		t.Error("it was pulled nevertheless")
	}
}

func TestContainerdAndARegistryThatBreaksOff(t *testing.T) {
	needContainerd(t)
	r := newRegistry(t)
	app := r.push(t, "team/app", "v1", 8*megabyte)
	r.hold = make(chan struct{})
	n := newNode(t, map[string]v1beta1.ImageSpec{app: limited("v1", 20)})
	n.containerd()
	n.begin()
	<-r.begun
	r.stop() // in the middle of the layer
	n.await(app, "v1", v1beta1.ImagePhasePulling, "failed: ")
	r.set(func() { r.hold, r.cut = nil, 1 })
	r.start(t)
	n.await(app, "v1", v1beta1.ImagePhaseSucceeded, "")
}

// A pull that takes too long, and one that nobody wants any more, is not only forgotten: the download ends.
func TestContainerdBreaksPullsOff(t *testing.T) {
	needContainerd(t)
	r := newRegistry(t)
	app := r.push(t, "team/app", "v1", 8*megabyte)
	r.hold = make(chan struct{})
	n := newNode(t, map[string]v1beta1.ImageSpec{app: {Tags: []v1beta1.ImageTagSpec{{Tag: "v1", PullPolicy: &v1beta1.ImageTagPullPolicy{
		TimeoutSeconds: ptr.To(int32(1)), BackoffLimit: ptr.To(int32(0)),
	}}}}})
	n.containerd()
	n.begin()
	<-r.begun
	n.await(app, "v1", v1beta1.ImagePhaseFailed, "pulling took longer than the timeout of 1s")
	r.awaitDrop(t)
	n.edit(fmt.Sprintf(`{"spec":{"images":{%q:{"tags":[{"tag":"v1","version":1}]}}}}`, app))
	<-r.begun
	n.edit(`{"spec":{"images":null}}`)
	n.until("nothing is wanted", func(s v1beta1.NodeImageStatus) bool { return s.Desired == 0 && len(s.ImageStatuses) == 0 })
	r.awaitDrop(t)
}

func TestContainerdAndAgentDieInMidPull(t *testing.T) {
	needContainerd(t)
	r := newRegistry(t)
	app := r.push(t, "team/app", "v1", 8*megabyte)
	hold := make(chan struct{})
	r.hold = hold
	n := newNode(t, map[string]v1beta1.ImageSpec{app: limited("v1", 0)})
	end := n.containerd()
	n.begin()
	<-r.begun
	n.kill()
	n.begin()
	n.await(app, "v1", v1beta1.ImagePhasePulling, "")
	end()
	n.await(app, "v1", v1beta1.ImagePhasePulling, "the container runtime")
	r.set(func() { r.hold = nil })
	close(hold)
	n.containerd()
	began := time.Now()
	n.await(app, "v1", v1beta1.ImagePhaseSucceeded, "")
	t.Logf("it was there %v after containerd was back", time.Since(began).Round(time.Millisecond))
}
