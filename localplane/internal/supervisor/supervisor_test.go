// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
)

// fixture is a supervisor of shell scripts.
type fixture struct {
	*Supervisor
	home home.Home
	mu   sync.Mutex
	said []string
}

// script is a component that is ready when it has written its pid.
func script(h home.Home, name string, tier component.Tier, body string) component.Component {
	ready := h.ReadyFile(name)
	return component.Component{
		Name: name, Tier: tier, Path: "/bin/sh",
		Args:      []string{"-c", strings.ReplaceAll(body, "READY", "echo $$ > "+ready)},
		Ready:     component.Probe{File: ready},
		StopGrace: 300 * time.Millisecond,
	}
}

func newFixture(t *testing.T, components func(home.Home) []component.Component) *fixture {
	t.Helper()
	h, err := home.At(filepath.Join(t.TempDir(), "plane"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	f := &fixture{home: h}
	f.Supervisor = New(h, home.State{}, components(h), func(format string, args ...any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, fmt.Sprintf(format, args...))
	})
	t.Cleanup(func() { _ = f.Stop() })
	return f
}

func (f *fixture) status(name string) Status {
	for _, st := range f.Status() {
		if st.Name == name {
			return st
		}
	}
	return Status{}
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

const sleeper = "READY; exec sleep 60"

func TestTiersStartAndStopInOrder(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		order := filepath.Join(h.Dir(), "order")
		body := func(name string) string {
			return fmt.Sprintf("trap 'echo %s >> %s; exit' TERM; READY; while :; do sleep 0.05; done", name, order)
		}
		return []component.Component{
			script(h, "etcd", component.TierStore, body("etcd")),
			script(h, "kube-apiserver", component.TierServer, body("kube-apiserver")),
			script(h, "manager", component.TierEverynode, body("manager")),
		}
	})
	for tier := component.TierStore; tier <= component.TierEverynode; tier++ {
		if err := f.StartTier(t.Context(), tier); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Stop(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(f.home.Dir(), "order"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Fields(string(raw)), []string{"manager", "kube-apiserver", "etcd"}; strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("stopped in the order %v, want %v", got, want)
	}
	state, err := f.home.LoadState()
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Processes) != 0 {
		t.Errorf("after the stop these are still written down: %v", state.Processes)
	}
}

func TestKilledStaysDownUntilStarted(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		return []component.Component{script(h, "kwok", component.TierKubernetes, sleeper)}
	})
	if err := f.StartTier(t.Context(), component.TierKubernetes); err != nil {
		t.Fatal(err)
	}
	first := f.status("kwok").PID
	if err := f.Kill("kwok"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "no process", func() bool { return f.status("kwok").PID == 0 })
	if st := f.status("kwok"); st.Wanted || st.Restarts != 0 {
		t.Errorf("a component that was killed on purpose: %+v", st)
	}
	if err := f.Kill("kwok"); err == nil || !strings.Contains(err.Error(), "component start") {
		t.Errorf("killing what does not run: %v", err)
	}
	if err := f.Start(t.Context(), "kwok"); err != nil {
		t.Fatal(err)
	}
	if again := f.status("kwok").PID; again == 0 || again == first {
		t.Errorf("pid %d after the start, %d before", again, first)
	}
	// Killed and started at once, a hundred milliseconds are not needed in between.
	for range 3 {
		if err := f.Kill("kwok"); err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context(), "kwok"); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Kill("scheduler"); err == nil || !strings.Contains(err.Error(), "kwok") {
		t.Errorf("an unknown component: %v", err)
	}
}

func TestCrashedIsStartedAgain(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		return []component.Component{script(h, "etcd", component.TierStore, sleeper)}
	})
	if err := f.StartTier(t.Context(), component.TierStore); err != nil {
		t.Fatal(err)
	}
	before := f.status("etcd")
	crash(t, f, "etcd")
	waitFor(t, "another process", func() bool {
		st := f.status("etcd")
		return st.Ready && st.PID != before.PID && st.Restarts == 1
	})
}

// What cannot be ready for a known reason, as kube-proxy on a node that is cut, does not keep a start waiting.
func TestAnExcuseEndsTheWait(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		c := script(h, "proxy", component.TierEverynode, "exec sleep 60")
		c.Ready.Excuse = filepath.Join(h.Dir(), "cut")
		return []component.Component{c}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := f.StartTier(ctx, component.TierEverynode); err == nil {
		t.Fatal("it counts as ready without being ready, and without an excuse")
	}
	if err := home.WriteFile(filepath.Join(f.home.Dir(), "cut"), nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), "proxy"); err != nil {
		t.Fatal(err)
	}
	if st := f.status("proxy"); !st.Ready {
		t.Errorf("with an excuse: %+v", st)
	}
}

func TestEarlyEndTellsTheLog(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		return []component.Component{script(h, "manager", component.TierEverynode, "echo unknown dialect; exit 3")}
	})
	err := f.StartTier(t.Context(), component.TierEverynode)
	if err == nil || !strings.Contains(err.Error(), "unknown dialect") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v tells neither the reason nor the log", err)
	}
	if st := f.status("manager"); st.Restarts != 0 {
		t.Errorf("it was started again %d times", st.Restarts)
	}
}

// A component that worked, was killed, and cannot be started any more: nobody starts it again and again, and the status
// says so, although it has been started again by itself before.
func TestStartThatFailsIsLeftSo(t *testing.T) {
	var broken string
	f := newFixture(t, func(h home.Home) []component.Component {
		broken = filepath.Join(h.Dir(), "broken")
		return []component.Component{script(h, "kwok", component.TierKubernetes, "test ! -e "+broken+" || exit 3; "+sleeper)}
	})
	if err := f.StartTier(t.Context(), component.TierKubernetes); err != nil {
		t.Fatal(err)
	}
	crash(t, f, "kwok")
	waitFor(t, "another process", func() bool { return f.status("kwok").Ready && f.status("kwok").Restarts == 1 })
	if err := f.Kill("kwok"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), "kwok"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the start: %v", err)
	}
	waitFor(t, "the end to be noted", func() bool { return f.status("kwok").PID == 0 })
	if st := f.status("kwok"); !st.Failed || !st.Wanted || st.Restarts != 1 {
		t.Errorf("status %+v, want failed after one restart", st)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context(), "kwok"); err != nil {
		t.Fatal(err)
	}
	if st := f.status("kwok"); st.Failed || !st.Ready {
		t.Errorf("status %+v after it was mended", st)
	}
}

// A component that worked goes on being started again, also when one of these starts fails.
func TestRestartThatFailsIsTriedAgain(t *testing.T) {
	var broken string
	f := newFixture(t, func(h home.Home) []component.Component {
		broken = filepath.Join(h.Dir(), "broken")
		return []component.Component{script(h, "kwok", component.TierKubernetes, "test ! -e "+broken+" || exit 3; "+sleeper)}
	})
	if err := f.StartTier(t.Context(), component.TierKubernetes); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	crash(t, f, "kwok")
	waitFor(t, "a second restart", func() bool { return f.status("kwok").Restarts == 2 })
	if st := f.status("kwok"); st.Failed {
		t.Errorf("status %+v of one that is started again", st)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a process", func() bool { return f.status("kwok").Ready })
}

// crash ends the processes of components, which run, behind the supervisor's back. One may end by the end of another.
func crash(t *testing.T, f *fixture, names ...string) {
	t.Helper()
	var pids []int
	for _, name := range names {
		pid := f.status(name).PID
		if pid == 0 {
			t.Fatalf("%s does not run", name)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

func TestStopWhileStarting(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		return []component.Component{script(h, "etcd", component.TierStore, "exec sleep 60")}
	})
	result := make(chan error, 1)
	go func() { result <- f.StartTier(context.Background(), component.TierStore) }()
	waitFor(t, "a process", func() bool { return f.status("etcd").PID != 0 })
	if err := f.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err == nil {
		t.Error("the start succeeded")
	}
	if err := f.Start(t.Context(), "etcd"); err == nil {
		t.Error("a start after the stop succeeded")
	}
}

func TestCancelledStartReturns(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		return []component.Component{script(h, "etcd", component.TierStore, "exec sleep 60")}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := f.StartTier(ctx, component.TierStore); err == nil {
		t.Error("the start succeeded")
	}
}

func TestLeftoversAreEnded(t *testing.T) {
	f := newFixture(t, func(h home.Home) []component.Component {
		return []component.Component{script(h, "etcd", component.TierStore, sleeper)}
	})
	if err := f.StartTier(t.Context(), component.TierStore); err != nil {
		t.Fatal(err)
	}
	state, err := f.home.LoadState()
	if err != nil {
		t.Fatal(err)
	}
	// This very process wears an old pid's number: it must not be ended for it.
	stranger := state.Processes["etcd"]
	stranger.PID = os.Getpid()
	state.Processes["stranger"] = stranger
	ended, err := EndLeftovers(state)
	if err != nil {
		t.Fatal(err)
	}
	if len(ended) != 1 || ended[0] != "etcd" {
		t.Errorf("ended %v, want etcd alone", ended)
	}
}
