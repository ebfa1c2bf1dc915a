// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/internal/controller/endpoint"
)

// mount is a directory as the kubelet mounts a Secret: file is a link into a directory that a link names, which is replaced.
type mount struct {
	t       *testing.T
	dir     string
	version int
}

func (m *mount) put(files map[string]string) {
	m.t.Helper()
	m.version++
	name := "..version-" + strings.Repeat("x", m.version)
	if err := os.Mkdir(filepath.Join(m.dir, name), 0o700); err != nil {
		m.t.Fatal(err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(m.dir, name, file), []byte(content), 0o600); err != nil {
			m.t.Fatal(err)
		}
		_ = os.Symlink(filepath.Join("..data", file), filepath.Join(m.dir, file))
	}
	if err := os.Symlink(name, filepath.Join(m.dir, "..new")); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(m.dir, "..new"), filepath.Join(m.dir, "..data")); err != nil {
		m.t.Fatal(err)
	}
}

// A file is read again when its link leads elsewhere, or when a file that it names changes; not when nothing has changed. A content with a mistake is not used, and
// reported until the file is corrected.
func TestFollow(t *testing.T) {
	m := &mount{t: t, dir: t.TempDir()}
	ca := filepath.Join(m.dir, "ca.crt")
	m.put(map[string]string{"file": "one " + ca, "ca.crt": "a"})
	fake := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	var mu sync.Mutex
	var used, current []string
	f := &endpoint.Follower{
		Flag: "targets", File: filepath.Join(m.dir, "file"), Clock: fake,
		Names: func(content []byte) []string { return strings.Fields(string(content))[1:] },
		Use: func(content []byte) error {
			mu.Lock()
			defer mu.Unlock()
			word := strings.Fields(string(content))[0]
			if word == "wrong" {
				return errors.New("it is wrong")
			}
			used = append(used, word)
			return nil
		},
		Current: func(flag string, is bool) {
			mu.Lock()
			defer mu.Unlock()
			current = append(current, map[bool]string{true: "+", false: "-"}[is])
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	want := func(wantUsed, wantCurrent string) {
		t.Helper()
		var got string
		_ = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			got = strings.Join(used, " ") + " " + strings.Join(current, "")
			return got == wantUsed+" "+wantCurrent, nil
		})
		if got != wantUsed+" "+wantCurrent {
			t.Fatalf("got %q, want %q", got, wantUsed+" "+wantCurrent)
		}
	}
	later := func() {
		t.Helper()
		for range 2 { // the second tick shows that nothing else happens
			if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return fake.HasWaiters(), nil }); err != nil {
				t.Fatal(err)
			}
			fake.Step(10 * time.Second)
		}
	}
	want("one", "+")
	later()
	want("one", "+")
	m.put(map[string]string{"file": "two " + ca, "ca.crt": "a"})
	later()
	want("one two", "++")
	m.put(map[string]string{"file": "two " + ca, "ca.crt": "b"})
	later()
	want("one two two", "+++")
	m.put(map[string]string{"file": "wrong " + ca, "ca.crt": "b"})
	later()
	want("one two two", "+++-")
	if err := os.Remove(filepath.Join(m.dir, "file")); err != nil {
		t.Fatal(err)
	}
	later()
	want("one two two", "+++--")
	m.put(map[string]string{"file": "three " + ca, "ca.crt": "b"})
	later()
	want("one two two three", "+++--+")
}
