// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/proc"
)

// TestStopsAlthoughAProcessLingers has a command run inside of a node whose parent, on the machine, takes no notice of its end, as when
// somebody has stopped it: the kernel keeps the node's first process until it does.
func TestStopsAlthoughAProcessLingers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: making namespaces needs root; run the tests as root")
	}
	f := newFixture(t, func(h home.Home) []component.Component {
		node := script(h, "node", component.TierStore, sleeper)
		node.Unshare = syscall.CLONE_NEWPID
		return []component.Component{node}
	})
	f.spawner.KillTimeout = 50 * time.Millisecond
	if err := f.StartTier(t.Context(), component.TierStore); err != nil {
		t.Skipf("SKIPPED: this machine makes no namespaces (%v); in a container, start it with --privileged", err)
	}
	command := exec.Command("/bin/sleep", "60")
	if err := proc.Within(f.status("node").PID, command.Start); err != nil {
		t.Fatal(err)
	}
	tells := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "localplane node exec") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	tells("kill", f.Kill("node"))
	tells("start", f.Start(t.Context(), "node"))
	tells("stop", f.Stop())
	id, err := proc.Identify(f.status("node").PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the command in the node was not killed")
	}
	waitFor(t, "the end of the node", func() bool { return !id.Alive() })
}
