// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
)

// whenThere is a script that waits for a file before it goes on.
func whenThere(file, body string) string {
	return "while ! test -e " + file + "; do sleep 0.05; done; " + body
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// machine are a node and what runs in it. The node does not start while there is a file of the name broken.
func machine(t *testing.T) (f *fixture, broken string) {
	t.Helper()
	f = newFixture(t, func(h home.Home) []component.Component {
		broken = filepath.Join(h.Dir(), "broken")
		node := script(h, "node", component.TierStore, "test ! -e "+broken+" || exit 3; "+sleeper)
		runtime := script(h, "runtime", component.TierStore, sleeper)
		runtime.Inside, runtime.After = "node", []string{"node"}
		kubelet := script(h, "kubelet", component.TierKubernetes, sleeper)
		kubelet.Inside, kubelet.After = "node", []string{"node", "runtime"}
		return []component.Component{runtime, node, kubelet}
	})
	for _, tier := range []component.Tier{component.TierStore, component.TierKubernetes} {
		if err := f.StartTier(t.Context(), tier); err != nil {
			t.Fatal(err)
		}
	}
	return f, broken
}

func TestStartsAfterWhatHasToBeThere(t *testing.T) {
	var goOn string
	f := newFixture(t, func(h home.Home) []component.Component {
		goOn = filepath.Join(h.Dir(), "go")
		first := script(h, "first", component.TierStore, whenThere(goOn, sleeper))
		second := script(h, "second", component.TierStore, "test -e "+h.ReadyFile("first")+" || exit 3; "+sleeper)
		second.After = []string{"first"}
		return []component.Component{second, first}
	})
	result := make(chan error, 1)
	go func() { result <- f.StartTier(t.Context(), component.TierStore) }()
	waitFor(t, "the first one's process", func() bool { return f.status("first").PID != 0 })
	if pid := f.status("second").PID; pid != 0 {
		t.Errorf("the second one runs (%d) before the first one is ready", pid)
	}
	touch(t, goOn)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if !f.status("second").Ready {
		t.Error("the second one is not ready")
	}
}

func TestRunsInsideAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: making namespaces needs root; run the tests as root")
	}
	f := newFixture(t, func(h home.Home) []component.Component {
		node := script(h, "node", component.TierStore, sleeper)
		node.Unshare = syscall.CLONE_NEWUTS
		kubelet := script(h, "kubelet", component.TierStore, sleeper)
		kubelet.Inside, kubelet.After = "node", []string{"node"}
		return []component.Component{node, kubelet}
	})
	if err := f.StartTier(t.Context(), component.TierStore); err != nil {
		t.Skipf("SKIPPED: this machine makes no namespaces (%v); in a container, start it with --privileged", err)
	}
	names := func(pid int) string {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/uts", pid))
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	node, kubelet, own := names(f.status("node").PID), names(f.status("kubelet").PID), names(os.Getpid())
	if node != kubelet || node == own {
		t.Errorf("the node is in %s, what runs inside in %s, this test in %s", node, kubelet, own)
	}
	again := f.status("node").PID
	if err := f.Kill("node"); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	if f.status("node").PID == again || names(f.status("node").PID) != names(f.status("kubelet").PID) {
		t.Error("after the node was started again, what runs inside is elsewhere")
	}
}

func TestKilledAndStartedWithThoseInside(t *testing.T) {
	f, _ := machine(t)
	if err := f.Kill("node"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "runtime", "kubelet"} {
		if st := f.status(name); st.Wanted {
			t.Errorf("%s is still wanted: %+v", name, st)
		}
		waitFor(t, "the end of "+name, func() bool { return f.status(name).PID == 0 })
	}
	// Never on the machine itself.
	for _, u := range f.units {
		if u.component.Name != "runtime" {
			continue
		}
		u.component.After = nil
		if err := f.Start(t.Context(), "runtime"); err == nil || !strings.Contains(err.Error(), "`component start node` first") {
			t.Errorf("starting what runs inside of a node that is off: %v", err)
		}
	}
	if err := f.Start(t.Context(), "node"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "runtime", "kubelet"} {
		if st := f.status(name); !st.Ready || st.Restarts != 0 {
			t.Errorf("after the start: %+v", st)
		}
	}
}

// Not every namespace takes its processes with it: what runs in the network alone would stay in one that nobody is in any more.
func TestEndsWithWhatItIsInsideOf(t *testing.T) {
	f, _ := machine(t)
	before := map[string]int{}
	for _, name := range []string{"node", "runtime", "kubelet"} {
		before[name] = f.status(name).PID
	}
	crash(t, f, "node")
	for _, name := range []string{"node", "runtime", "kubelet"} {
		waitFor(t, "another "+name, func() bool { st := f.status(name); return st.Ready && st.PID != before[name] && st.Restarts == 1 })
	}
}

// Who cannot be written down is not left running: nobody would have connected it, and the next run would not know of it.
func TestWhatCannotBeRememberedDoesNotRun(t *testing.T) {
	linked := 0
	f := newFixture(t, func(h home.Home) []component.Component {
		node := script(h, "node", component.TierStore, sleeper)
		node.Linked = func(int, func(string) int) error { linked++; return nil }
		return []component.Component{node}
	})
	state := filepath.Join(f.home.Dir(), "state.json")
	if err := os.MkdirAll(filepath.Join(state, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), "node"); err == nil || !strings.Contains(err.Error(), state) {
		t.Fatalf("the start of what cannot be written down: %v", err)
	}
	waitFor(t, "the end of what cannot be written down", func() bool { return f.status("node").PID == 0 })
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), "node"); err != nil || linked != 1 {
		t.Errorf("the next start: %v, connected %d times", err, linked)
	}
}

// What runs inside of a node ends with it, and comes back only when the node is back, however long that takes.
func TestComesBackAfterItsNode(t *testing.T) {
	f, broken := machine(t)
	touch(t, broken)
	crash(t, f, "node", "runtime", "kubelet")
	waitFor(t, "two starts of the node that fail", func() bool { return f.status("node").Restarts >= 2 })
	for _, name := range []string{"runtime", "kubelet"} {
		if st := f.status(name); st.PID != 0 || st.Failed {
			t.Errorf("while its node is away: %+v", st)
		}
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "runtime", "kubelet"} {
		waitFor(t, name+" back", func() bool { return f.status(name).Ready })
	}
	if st := f.status("kubelet"); st.Restarts != 1 {
		t.Errorf("the kubelet was started again %d times, want once", st.Restarts)
	}
}

func TestKilledWhileItWaitsForItsNode(t *testing.T) {
	f, broken := machine(t)
	touch(t, broken)
	crash(t, f, "node", "kubelet")
	waitFor(t, "a start of the node that fails", func() bool { return f.status("node").Restarts >= 1 && f.status("kubelet").Restarts == 1 })
	// It does not run, and so cannot be killed; but it is not wanted any more.
	if err := f.Kill("kubelet"); err == nil {
		t.Error("what does not run was killed")
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the node back", func() bool { return f.status("node").Ready })
	unit, err := f.unit("kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unit.run(t.Context(), unasked); !errors.Is(err, errUnwanted) {
		t.Errorf("a start that nobody asked for of what was killed: %v", err)
	}
	if st := f.status("kubelet"); st.PID != 0 {
		t.Errorf("it came back although it was killed: %+v", st)
	}
}

func TestLinked(t *testing.T) {
	var mu sync.Mutex
	var linked []int
	refuse := false
	f := newFixture(t, func(h home.Home) []component.Component {
		network := script(h, "network", component.TierStore, sleeper)
		node := script(h, "node", component.TierStore, sleeper)
		node.After = []string{"network"}
		node.Linked = func(pid int, of func(string) int) error {
			mu.Lock()
			defer mu.Unlock()
			linked = []int{pid, of("network"), of("nobody")}
			if refuse {
				return errors.New("the cable is too short")
			}
			return nil
		}
		return []component.Component{network, node}
	})
	if err := f.StartTier(t.Context(), component.TierStore); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint([]int{f.status("node").PID, f.status("network").PID, 0}); fmt.Sprint(linked) != want {
		t.Errorf("linked with the pids %v, want %s", linked, want)
	}
	// Not for one that runs.
	mu.Lock()
	linked = nil
	mu.Unlock()
	if err := f.Start(t.Context(), "node"); err != nil || linked != nil {
		t.Errorf("starting what runs: %v, linked %v", err, linked)
	}
	if err := f.Kill("node"); err != nil {
		t.Fatal(err)
	}
	refuse = true
	if err := f.Start(t.Context(), "node"); err == nil || !strings.Contains(err.Error(), "connecting node: the cable is too short") {
		t.Errorf("the start of what cannot be linked: %v", err)
	}
	waitFor(t, "the end of what is not linked", func() bool { return f.status("node").PID == 0 })
}

// A network has nothing to connect nodes to before it is ready, and nothing starts after it before they are connected.
func TestLinkedBetweenReadyAndReady(t *testing.T) {
	var goOn string
	var linked atomic.Int32
	var f *fixture
	f = newFixture(t, func(h home.Home) []component.Component {
		goOn = filepath.Join(h.Dir(), "go")
		network := script(h, "network", component.TierStore, whenThere(goOn, sleeper))
		network.Linked = func(int, func(string) int) error {
			if _, err := os.Stat(h.ReadyFile("network")); err != nil || f.status("network").Ready {
				t.Errorf("connected when it had not said that it is ready (%v), or counted as that: %+v", err, f.status("network"))
			}
			linked.Add(1)
			return nil
		}
		return []component.Component{network}
	})
	// Whoever starts it first goes away before it is ready.
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- f.Start(ctx, "network") }()
	waitFor(t, "a process", func() bool { return f.status("network").PID != 0 })
	cancel()
	if err := <-result; err == nil {
		t.Error("a start that was given up has no error")
	}
	touch(t, goOn)
	for range 2 {
		if err := f.Start(t.Context(), "network"); err != nil || linked.Load() != 1 || !f.status("network").Ready {
			t.Fatalf("the next start: %v, connected %d times, %+v", err, linked.Load(), f.status("network"))
		}
	}
}

// runtime is a container runtime whose CRI service is initialized after its socket accepts connections, as containerd's.
type runtime struct {
	cri.UnimplementedRuntimeServiceServer
	asked       chan struct{}
	initialized atomic.Bool
}

func (r *runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	if !r.initialized.Load() {
		select {
		case r.asked <- struct{}{}:
		default:
		}
		return nil, errors.New("server is not initialized yet")
	}
	return &cri.VersionResponse{}, nil
}

// A kubelet that starts between the socket and the CRI service of its container runtime ends with an error.
func TestReadyWhenItsRuntimeAnswers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	f := newFixture(t, func(h home.Home) []component.Component {
		node := script(h, "node", component.TierStore, sleeper)
		containerd := script(h, "containerd", component.TierStore, "exec sleep 60")
		containerd.Inside, containerd.After, containerd.Ready = "node", []string{"node"}, component.Probe{Runtime: socket}
		return []component.Component{node, containerd}
	})
	// A file at which no process listens is no runtime.
	touch(t, socket)
	result := make(chan error, 1)
	go func() { result <- f.StartTier(t.Context(), component.TierStore) }()
	waitFor(t, "a process", func() bool { return f.status("containerd").PID != 0 })
	if f.status("containerd").Ready {
		t.Error("ready without a socket")
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	r, server := &runtime{asked: make(chan struct{})}, grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, r)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	for range 2 { // the second question comes after the answer to the first one was read
		<-r.asked
	}
	if f.status("containerd").Ready {
		t.Error("ready with a socket, and before the runtime is initialized")
	}
	r.initialized.Store(true)
	if err := <-result; err != nil || !f.status("containerd").Ready {
		t.Errorf("with a runtime that answers: %v, %+v", err, f.status("containerd"))
	}
}

// The file that says that a process is ready says nothing about the next one.
func TestReadyFileOfTheLastProcessCountsNoMore(t *testing.T) {
	var goOn string
	f := newFixture(t, func(h home.Home) []component.Component {
		goOn = filepath.Join(h.Dir(), "go")
		return []component.Component{script(h, "network", component.TierStore, whenThere(goOn, sleeper))}
	})
	touch(t, goOn)
	if err := f.StartTier(t.Context(), component.TierStore); err != nil {
		t.Fatal(err)
	}
	if err := f.Kill("network"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(goOn); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.home.ReadyFile("network")); err != nil {
		t.Fatalf("the test needs the file of the killed process: %v", err)
	}
	result := make(chan error, 1)
	go func() { result <- f.Start(t.Context(), "network") }()
	waitFor(t, "a process", func() bool { return f.status("network").PID != 0 })
	if _, err := os.Stat(f.home.ReadyFile("network")); err == nil || f.status("network").Ready {
		t.Error("the new process is ready by the file of the last one")
	}
	touch(t, goOn)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}
