// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/internal/proc"
	"everynode.dev/everynode/localplane/internal/supervisor"
)

type fakePlane struct {
	list  []supervisor.Status
	asked []string
	err   error
}

func (f *fakePlane) Components(context.Context) ([]supervisor.Status, error) { return f.list, f.err }
func (f *fakePlane) KillComponent(_ context.Context, name string) error {
	f.asked = append(f.asked, "kill "+name)
	return f.err
}
func (f *fakePlane) StartComponent(_ context.Context, name string) error {
	f.asked = append(f.asked, "start "+name)
	return f.err
}
func (f *fakePlane) Down(context.Context) error {
	f.asked = append(f.asked, "down")
	return f.err
}

func TestClientAndServer(t *testing.T) {
	// Much longer than the address of a Unix socket may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "control.sock")
	// A socket file that a killed supervisor left.
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	plane := &fakePlane{list: []supervisor.Status{{
		Name: "etcd", PID: 7, Ready: true, Wanted: true, Since: time.Unix(1700000000, 0).UTC(), Restarts: 2,
		Usage: proc.Usage{CPU: time.Second, RSS: 4096},
	}}}
	server, err := Listen(socket, plane)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(socket)
	got, err := client.Components(t.Context())
	if err != nil || !reflect.DeepEqual(got, plane.list) {
		t.Errorf("components %+v, error %v", got, err)
	}
	err = errors.Join(client.KillComponent(t.Context(), "etcd"), client.StartComponent(t.Context(), "manager-2"), client.Down(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"kill etcd", "start manager-2", "down"}; !reflect.DeepEqual(plane.asked, want) {
		t.Errorf("asked %v, want %v", plane.asked, want)
	}
	plane.err = errors.New("no such component")
	if err := client.KillComponent(t.Context(), "x"); err == nil || err.Error() != "no such component" {
		t.Errorf("error %v, want the plane's own words", err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Down(t.Context()); err == nil {
		t.Error("a closed server answered")
	}
}
