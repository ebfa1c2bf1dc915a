// SPDX-License-Identifier: Apache-2.0

package planetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/localplane"
)

// TestAnotherKubernetes: a plane with the programs of another version of Kubernetes is of that version in all its parts.
func TestAnotherKubernetes(t *testing.T) {
	dir := os.Getenv(localplane.EnvKubernetes)
	if dir == "" {
		t.Skip("SKIPPED: there is no other version of Kubernetes: `make test SUITE=minor KUBE_MINOR=1.36` builds one and runs this test")
	}
	o := options(t)
	o.Nodes, o.NativeController = 2, true
	plane, client := start(t, o)

	info, err := client.Discovery().ServerVersionWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	version := info.GitVersion
	t.Logf("this is Kubernetes %s", version)
	if version == localplane.KubernetesVersion || !strings.HasPrefix(version, "v1.") {
		t.Errorf("the API server is of version %s", version)
	}
	status, err := plane.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for _, c := range status.Components {
		pids[c.Name] = c.PID
	}
	for component, program := range map[string]string{
		"kube-apiserver": "kube-apiserver", "kube-controller-manager": "kube-controller-manager", "native-controller": "kube-controller-manager",
		"kube-scheduler": "kube-scheduler",
	} {
		if err := runsProgram(pids[component], filepath.Join(dir, program)); err != nil {
			t.Errorf("%s: %v", component, err)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, program), "--version").Output()
		if got, want := string(out), "Kubernetes "+version+"\n"; err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", program, got, err, want)
		}
	}
	if _, err := plane.AddNodes(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 3 {
		t.Fatalf("%d nodes, error %v", len(nodes.Items), err)
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Status.NodeInfo.KubeletVersion != version {
			t.Errorf("node %s is of version %s", n.Name, n.Status.NodeInfo.KubeletVersion)
		}
	}
}

// runsProgram tells what a process runs, if that is not the program at path.
func runsProgram(pid int, path string) error {
	running, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return err
	}
	want, err := os.Stat(path)
	if err == nil && !os.SameFile(running, want) {
		err = fmt.Errorf("process %d does not run %s", pid, path)
	}
	return err
}
