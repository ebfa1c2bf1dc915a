// SPDX-License-Identifier: Apache-2.0

package home

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"everynode.dev/everynode/localplane/internal/proc"
)

func newHome(t *testing.T) Home {
	t.Helper()
	h, err := At(filepath.Join(t.TempDir(), "plane"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCreateIsPrivateAndRepeatable(t *testing.T) {
	h := newHome(t)
	for range 2 {
		if err := h.Create(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{h.Dir(), h.PKI(), filepath.Dir(h.Socket())} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if perm := info.Mode().Perm(); perm != 0o700 {
			t.Errorf("%s has mode %o", dir, perm)
		}
	}
}

func TestALinkLeadsToTheSameHome(t *testing.T) {
	dir := t.TempDir()
	at := func(path ...string) string {
		t.Helper()
		h, err := At(filepath.Join(append([]string{dir}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return h.Dir()
	}
	if err := os.Mkdir(filepath.Join(dir, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "there", "loose": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, elem := range []string{"", "plane", "new/plane"} {
		if got, want := at("link", elem), at("there", elem); got != want {
			t.Errorf("by the link the home is %s, want %s", got, want)
		}
	}
	if got, want := at("loose", "plane"), at("loose")+"/plane"; got != want || filepath.Base(at("loose")) != "loose" {
		t.Errorf("behind a link that leads nowhere: %s, want %s", got, want)
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	h := newHome(t)
	if err := os.MkdirAll(h.Etcd(), 0o755); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(h.Etcd(), "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for verb, do := range map[string]func() error{"create": h.Create, "wipe": h.Wipe} {
		if err := do(); err == nil || !strings.Contains(err.Error(), h.Dir()) {
			t.Errorf("%s: error %v does not name the directory", verb, err)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("a foreign file is gone: %v", err)
	}
}

func TestWipeRemovesStateOnly(t *testing.T) {
	h := newHome(t)
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(h.Dir(), "notes.txt")
	for _, path := range []string{h.Kubeconfig(), h.Log("etcd"), foreign} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.MarkPopulated(); err != nil || !h.Populated() {
		t.Fatalf("marked as populated: %v, error %v", h.Populated(), err)
	}
	if err := h.Wipe(); err != nil {
		t.Fatal(err)
	}
	if h.Populated() {
		t.Error("a wiped plane counts as populated")
	}
	for path, want := range map[string]bool{h.Kubeconfig(): false, h.Log("etcd"): false, foreign: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there after wiping: %v, want %v", path, err == nil, want)
		}
	}
}

func TestUnusableDirectoryIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := At(filepath.Join(file, "plane"))
	if err != nil {
		t.Fatal(err)
	}
	err = h.Create()
	if err == nil || !strings.Contains(err.Error(), h.Dir()) || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("error %v names neither the directory nor the remedy", err)
	}
}

func TestLockHasOneHolder(t *testing.T) {
	h := newHome(t)
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	if pid, held := h.Holder(); held {
		t.Fatalf("nobody locked it, but %d holds it", pid)
	}
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Lock()
	var held *HeldError
	if !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Fatalf("second lock: %v", err)
	}
	if pid, ok := h.Holder(); !ok || pid != os.Getpid() {
		t.Errorf("holder %d %v", pid, ok)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestLockOutlastsALook shows that somebody who asks who the holder is does not pass for one.
func TestLockOutlastsALook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	look, lock := open(), open()
	if err := syscall.Flock(int(look.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	pauses := 0
	if err := flock(lock, func() { pauses++; look.Close() }); err != nil || pauses != 1 {
		t.Errorf("a look that ends during the pause: %v after %d pauses", err, pauses)
	}
	third := open()
	if err := flock(third, func() {}); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a lock that stays: %v", err)
	}
}

func TestStateSurvives(t *testing.T) {
	h := newHome(t)
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	if s, err := h.LoadState(); err != nil || len(s.Ports) != 0 {
		t.Fatalf("state of a new home: %+v, %v", s, err)
	}
	want := State{Ports: map[string]int{"etcd": 7}, Processes: map[string]proc.Identity{"etcd": {PID: 3, StartTicks: 4, BootID: "b"}}}
	if err := h.SaveState(want); err != nil {
		t.Fatal(err)
	}
	got, err := h.LoadState()
	if err != nil {
		t.Fatal(err)
	}
	if got.Ports["etcd"] != 7 || got.Processes["etcd"] != want.Processes["etcd"] {
		t.Errorf("state %+v, want %+v", got, want)
	}
	if err := os.WriteFile(h.stateFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.LoadState(); err == nil || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("a broken state: %v", err)
	}
}

// TestRunningNextToIt: of the directories next to a home, and of those that are named, the ones in which a plane runs.
func TestRunningNextToIt(t *testing.T) {
	dir := t.TempDir()
	at := func(path ...string) Home {
		t.Helper()
		h, err := At(filepath.Join(append([]string{dir}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, path := range [][]string{{"planes", "runs"}, {"planes", "stopped"}, {"elsewhere", "runs"}, {"elsewhere", "other"}} {
		h := at(path...)
		if err := h.Create(); err != nil {
			t.Fatal(err)
		}
		lock, err := h.Lock()
		if err != nil {
			t.Fatal(err)
		}
		if path[1] == "stopped" {
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Cleanup(func() { _ = lock.Unlock() })
	}
	if err := os.Mkdir(filepath.Join(dir, "planes", "nothing"), 0o700); err != nil {
		t.Fatal(err)
	}
	here, there := at("planes", "runs").Dir(), at("elsewhere", "runs").Dir()
	if got := at("planes", "default").Running(there, here, dir); !slices.Equal(got, []string{there, here}) {
		t.Errorf("planes run in %q, want %q", got, []string{there, here})
	}
	if got := at("planes", "runs").Running(); len(got) > 0 {
		t.Errorf("next to the only plane %q run", got)
	}
	if got := at("gone", "default").Running(); len(got) > 0 {
		t.Errorf("in a directory that does not exist %q run", got)
	}
}
