// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// containerdConfig is the least that works as in a plane: version 2 is read by containerd 1 and 2 alike.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"] # it makes /opt/containerd on the machine
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "/var/lib/cni/none"
`

func TestContainerdRunsContainersInANode(t *testing.T) {
	tools := map[string]string{}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		missing := &MissingError{}
		tools[name] = find(name, "apt-get install containerd runc", missing)
		if tools[name] == "" {
			t.Skipf("SKIPPED: %v", missing)
		}
	}
	before := lookAtMachine(t)
	p := newPlane(t)
	cgroups := testCgroups(t)
	if err := cgroups.Create(1); err != nil {
		t.Fatal(err)
	}
	node := p.startNode(1)
	config := p.path("containerd.toml")
	if err := os.WriteFile(config, []byte(containerdConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	containerd := p.startProgram(tools["containerd"], "-c", config)
	p.await(containerd, "containerd", func() bool {
		out, err := p.run(node.PID, tools["ctr"], "version")
		return err == nil && strings.Contains(out, "Server:")
	})

	// A container whose file system is this test binary alone.
	rootFS := p.path("rootfs")
	if err := os.Mkdir(rootFS, 0o755); err != nil {
		t.Fatal(err)
	}
	copyProgram(t, filepath.Join(rootFS, "test"))
	// In the background, so that the node loses power over a running container.
	_, err := p.run(node.PID, tools["ctr"], "run", "--detach", "--rootfs", "--cgroup", cgroups.Path(1)+"/box",
		"--env", roleVariable+"=box", rootFS, "box", "/test")
	if err != nil {
		t.Fatalf("running a container: %v", err)
	}
	if out, err := p.run(node.PID, tools["ctr"], "task", "ls"); err != nil || !strings.Contains(out, "RUNNING") {
		t.Fatalf("the container's task: %q, %v", out, err)
	}
	if out, err := p.run(node.PID, tools["ctr"], "task", "exec", "--exec-id", "x", "box", "/test", "hello"); err != nil || out != "hello" {
		t.Fatalf("running a program in the container: %q, %v", out, err)
	}
	if got := runningIn(t, cgroups); got == 0 {
		t.Error("the container does not run in the node's cgroup")
	}

	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	p.await(nil, "containerd's end", containerd.Ended)
	p.await(nil, "the container's end", func() bool { return runningIn(t, cgroups) == 0 })
	if err := cgroups.Remove(); err != nil {
		t.Fatal(err)
	}
	if left := cgroups.directories(t); len(left) != 0 {
		t.Errorf("cgroups left behind: %v", left)
	}
	before.expectSame(t)
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	if out, err := exec.Command("ldd", os.Args[0]).CombinedOutput(); err == nil {
		t.Skipf("SKIPPED: the test binary needs libraries (%s), which the container does not have; set CGO_ENABLED=0", out)
	}
	raw, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o700); err != nil {
		t.Fatal(err)
	}
}
