// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/agent/cri/fake"
	"everynode.dev/everynode/internal/imageref"
)

// begin starts a runtime and returns a client for it, and its socket.
func begin(t *testing.T, runtime *fake.Runtime) (*Client, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	if err := runtime.Start(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	client := New("unix://" + socket)
	t.Cleanup(func() { _ = client.Close(context.WithoutCancel(t.Context())) })
	return client, socket
}

func mustParse(t *testing.T, image, tag string) imageref.Full {
	t.Helper()
	ref, err := imageref.Complete(image, tag)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestPullThenPresent(t *testing.T) {
	runtime := fake.New()
	client, _ := begin(t, runtime)
	ref := mustParse(t, "r.io/app", "v1")
	if id, err := client.Image(t.Context(), ref); id != "" || err != nil {
		t.Fatalf("an image that is not there: %q %v", id, err)
	}
	pulled, err := client.Pull(t.Context(), Pull{Ref: ref, By: "me", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := client.Image(t.Context(), ref); id != pulled || err != nil {
		t.Errorf("pulled %q, found %q %v", pulled, id, err)
	}
	sandbox := runtime.Pulls()[0].GetSandboxConfig()
	if sandbox.Labels["a"] != "b" || sandbox.Annotations["c"] != "d" || sandbox.Annotations[pulledBy] != "me" || runtime.Pulls()[0].GetAuth() != nil {
		t.Errorf("the runtime was asked %v", runtime.Pulls()[0])
	}
}

func TestCredentialsAreTriedInOrder(t *testing.T) {
	runtime := fake.New()
	runtime.Answer = func(_ context.Context, r *runtimeapi.PullImageRequest) error {
		if r.GetAuth().GetUsername() != "right" {
			return errors.New("401 Unauthorized for " + r.GetAuth().GetUsername())
		}
		return nil
	}
	client, _ := begin(t, runtime)
	users := func(names ...string) []credentials.Credential {
		all := []credentials.Credential{}
		for _, name := range names {
			all = append(all, credentials.Credential{Username: name, Password: "hunter2"})
		}
		return all
	}
	ref := mustParse(t, "r.io/app", "v1")
	if _, err := client.Pull(t.Context(), Pull{Ref: ref, Credentials: users("wrong", "right", "never")}); err != nil {
		t.Error(err)
	}
	if n := len(runtime.Pulls()); n != 2 {
		t.Errorf("%d pulls, not 2", n)
	}
	_, err := client.Pull(t.Context(), Pull{Ref: ref, Credentials: users("wrong", "bad")})
	if err == nil || !strings.Contains(err.Error(), "for wrong") || !strings.Contains(err.Error(), "for bad") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheRegistryAreSaidOnce(t *testing.T) {
	err := onlyOnce([]error{errors.New("not found"), errors.New("not found")})
	if err.Error() != "not found" {
		t.Errorf("got %q", err)
	}
}

func TestCancelledPullEnds(t *testing.T) {
	runtime := fake.New()
	released := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	runtime.Answer = func(ctx context.Context, _ *runtimeapi.PullImageRequest) error {
		cancel() // the pull is under way
		<-ctx.Done()
		close(released)
		return ctx.Err()
	}
	client, _ := begin(t, runtime)
	if _, err := client.Pull(ctx, Pull{Ref: mustParse(t, "r.io/app", "v1")}); err == nil || IsAway(err) {
		t.Errorf("got %v", err)
	}
	select {
	case <-released:
	case <-time.After(time.Minute):
		t.Error("the runtime still pulls")
	}
}

func TestRuntimeRestarts(t *testing.T) {
	entered := make(chan bool)
	first := fake.New()
	first.Answer = func(ctx context.Context, _ *runtimeapi.PullImageRequest) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	client, socket := begin(t, first)
	ref := mustParse(t, "r.io/app", "v1")
	result := make(chan error, 1)
	go func() {
		_, err := client.Pull(t.Context(), Pull{Ref: ref})
		result <- err
	}()
	<-entered
	first.Stop()
	if err := <-result; !IsAway(err) {
		t.Errorf("a runtime that died in mid-pull: %v", err)
	}
	if _, err := client.Image(t.Context(), ref); !IsAway(err) {
		t.Errorf("a runtime that is down: %v", err)
	}
	second := fake.New()
	if err := second.Start(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Stop)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-again.C {
		_, err := client.Pull(t.Context(), Pull{Ref: ref})
		if err == nil {
			break
		}
		if !IsAway(err) || time.Now().After(deadline) {
			t.Fatalf("the runtime is back, but: %v", err)
		}
	}
}

func TestRuntimeThatComesLater(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cri.sock")
	client := New("unix://" + socket)
	if _, err := client.Fill(t.Context()); !IsAway(err) || !strings.Contains(err.Error(), socket) {
		t.Errorf("got %v", err)
	}
	runtime := fake.New()
	if err := runtime.Start(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	if _, err := client.Fill(t.Context()); err != nil {
		t.Errorf("the runtime is there, but: %v", err)
	}
}

func TestRegistryThatIsAwayIsNoRuntimeThatIsAway(t *testing.T) {
	runtime := fake.New()
	runtime.Answer = func(context.Context, *runtimeapi.PullImageRequest) error {
		return status.Error(codes.Unknown, "dial tcp 127.0.0.1:5000: connect: connection refused")
	}
	client, _ := begin(t, runtime)
	_, err := client.Pull(t.Context(), Pull{Ref: mustParse(t, "r.io/app", "v1")})
	if err == nil || IsAway(err) {
		t.Errorf("got %v", err)
	}
}

func TestFill(t *testing.T) {
	runtime := fake.New()
	runtime.Mountpoint = t.TempDir()
	client, _ := begin(t, runtime)
	if percent, err := client.Fill(t.Context()); err != nil || percent < 0 || percent > 100 {
		t.Errorf("%d%% %v", percent, err)
	}
	client.measure = func(path string) (int, error) {
		if path != runtime.Mountpoint {
			t.Errorf("measured %s", path)
		}
		return 91, nil
	}
	if percent, err := client.Fill(t.Context()); percent != 91 || err != nil {
		t.Errorf("%d%% %v", percent, err)
	}
	if _, err := fillOf(filepath.Join(runtime.Mountpoint, "nowhere")); err == nil || !strings.Contains(err.Error(), "mounted at the same path") {
		t.Errorf("a directory that is not there: %v", err)
	}
}
