// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"everynode.dev/everynode/internal/agent/cri/fake"
	"everynode.dev/everynode/internal/agent/store"
	"everynode.dev/everynode/test/harness"
)

// TestUpgradeWithoutAConnection: an agent of one version keeps pods, and a decision of the owner. That of the other version, which is an earlier one or
// the next, begins without a connection, knows both, and carries the decision out when there is a connection again. See hack/earlier.
func TestUpgradeWithoutAConnection(t *testing.T) {
	this, earlier := filepath.Join(harness.BinDir(), agentProgram), filepath.Join(harness.BinDir(), "earlier", agentProgram)
	if _, err := os.Stat(earlier); err != nil {
		t.Skipf("SKIPPED: there is no earlier version (%v): run make test SUITE=upgrade, in a clone with its history (git fetch --unshallow)", err)
	}
	t.Run("ToTheNext", func(t *testing.T) { takesOver(t, earlier, this) })
	t.Run("ToTheOneBefore", func(t *testing.T) { takesOver(t, this, earlier) })
}

func takesOver(t *testing.T, from, to string) {
	n := newAPINode(t)
	n.serve(fake.New())
	set := newSet(t, "r.io/app:v2")
	pod, other := newPod(t, set, n.name), newPod(t, set, n.name)
	n.program = from
	n.begin()
	path := "/v2/pods/default/" + pod.Name
	n.untilAnswer(http.MethodGet, "/pods", 200, other.Name)
	n.untilAnswer(http.MethodGet, "/pods", 200, pod.Name)
	n.terminate() // so that the pods are on the disk
	n.line.set(true)
	n.begin()
	n.untilAnswer(http.MethodGet, "/pods", 200, pod.Name)
	if code, body := n.ask(http.MethodPost, path+"/upgrade?when=connected", `{"uid":"`+string(pod.UID)+`"}`, ""); code != 202 {
		t.Fatalf("a decision is answered %d %s", code, body)
	}
	n.kill()
	kept := string(mustRead(t, filepath.Join(n.dir, "token")))

	n.program = to
	n.begin()
	n.untilAnswer(http.MethodGet, path+"/upgrade", 200, `"revision":"r2","state":"Pending"`)
	n.untilAnswer(http.MethodGet, "/pods", 200, pod.Name)
	n.untilAnswer(http.MethodGet, "/pods", 200, other.Name)
	if podOf(t, pod) == nil {
		t.Fatal("the pod is gone, and nobody was connected")
	}
	n.line.set(false)
	n.untilAnswer(http.MethodGet, path+"/upgrade", 404, "there is no decision")
	if podOf(t, pod) != nil {
		t.Error("the decision is gone, and the pod is still there")
	}
	if podOf(t, other) == nil {
		t.Error("another pod is gone")
	}
	if _, err := os.Stat(filepath.Join(n.dir, store.FileName+".aside")); err == nil {
		t.Error("the file was set aside")
	}
	if now := string(mustRead(t, filepath.Join(n.dir, "token"))); now != kept {
		t.Error("the token of the owner is another one")
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
