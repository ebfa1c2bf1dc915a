// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/realnode"
	"everynode.dev/everynode/localplane/internal/supervisor"
)

// fakeControl is a plane whose components have no processes, and that notes what it is asked for.
type fakeControl struct{ asked []string }

func (f *fakeControl) Components(context.Context) ([]supervisor.Status, error) {
	return []supervisor.Status{{Name: component.Network}, {Name: "real-1"}, {Name: "real-2"}}, nil
}

func (f *fakeControl) KillComponent(_ context.Context, name string) error {
	f.asked = append(f.asked, "kill "+name)
	return nil
}

func (f *fakeControl) StartComponent(_ context.Context, name string) error {
	f.asked = append(f.asked, "start "+name)
	return nil
}

func (f *fakeControl) Down(context.Context) error { return nil }

// planeWith is a plane that is said to have real nodes.
func planeWith(t *testing.T, realNodes int) (*Plane, *fakeControl) {
	t.Helper()
	h, err := home.At(filepath.Join(t.TempDir(), "plane"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	state := home.State{RealNodes: realNodes}
	if realNodes > 0 {
		state.Ports = map[string]int{component.Registry: 25000}
		if err := os.MkdirAll(filepath.Dir(h.RealNode("real-1")), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.SaveState(state); err != nil {
		t.Fatal(err)
	}
	control := &fakeControl{}
	return &Plane{home: h, control: control}, control
}

func TestWhatIsForRealNodesOnly(t *testing.T) {
	ctx := t.Context()
	plane, control := planeWith(t, 2)
	for _, name := range []string{"node-0001", "real-3", "real-01", "real-2-kubelet", ""} {
		for verb, err := range map[string]error{
			"killing":              plane.KillNode(ctx, name),
			"starting":             plane.StartNode(ctx, name),
			"running a command on": plane.NodeExec(ctx, name, []string{"true"}, Streams{}),
		} {
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Errorf("%s %q: error %v is not one of usage", verb, name, err)
				continue
			}
			for _, want := range []string{verb + " node " + name, "--real-nodes 3", "real-1, real-2"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s %q: %q is not in %q", verb, name, want, err)
				}
			}
		}
	}
	if len(control.asked) != 0 {
		t.Errorf("it was done all the same: %v", control.asked)
	}
	if err := errors.Join(plane.KillNode(ctx, "real-2"), plane.StartNode(ctx, "real-1")); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(control.asked); got != "[kill real-2 start real-1]" {
		t.Errorf("asked for %s", got)
	}
}

func TestWhatIsNotForRealNodes(t *testing.T) {
	ctx := t.Context()
	plane, _ := planeWith(t, 2)
	_, serve := plane.ServeNodeAPI(ctx, "real-1", "127.0.0.1:0")
	for want, err := range map[string]error{
		"`node kill real-1`":                                    plane.RemoveNode(ctx, "real-1"),
		"`node exec real-1 -- curl 127.0.0.1:10267/pods`":       serve,
		"running a command on node real-1: say which":           plane.NodeExec(ctx, "real-1", nil, Streams{}),
		"running a command on node real-1: it is off: `node st": plane.NodeExec(ctx, "real-1", []string{"true"}, Streams{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the error %v", want, err)
		}
	}
}

func TestRegistryOfAPlaneWithoutRealNodes(t *testing.T) {
	plane, _ := planeWith(t, 0)
	if address, err := plane.RegistryAddress(); err == nil || !strings.Contains(err.Error(), "--real-nodes") {
		t.Errorf("address %q, error %v", address, err)
	}
	plane, _ = planeWith(t, 1)
	if address, err := plane.RegistryAddress(); err != nil || address != "127.0.0.1:25000" {
		t.Errorf("address %q, error %v", address, err)
	}
}

// A cut is remembered, so a node that is off is cut when it comes back.
func TestCutOfANodeThatIsOffIsRemembered(t *testing.T) {
	plane, _ := planeWith(t, 1)
	for _, cut := range []bool{true, true, false, false} {
		do := plane.HealNode
		if cut {
			do = plane.CutNode
		}
		if err := do(t.Context(), "real-1"); err != nil {
			t.Fatal(err)
		}
		if got := plane.home.IsCut("real-1"); got != cut {
			t.Errorf("cut is %v, want %v", got, cut)
		}
	}
}

func TestRealNodesAreCheckedBeforeAnythingIsWiped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	h, err := home.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	if err := h.SaveState(home.State{RealNodes: 1}); err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, RealNodes: 1, Fresh: true, Programs: Programs{Node: "/nowhere/localplane-node", Agent: "/nowhere/everynode-agent", Images: "/nowhere/images"}}
	o.Real.Containerd = "/nowhere/containerd"
	_, err = takeHome(o.withDefaults())
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("error %v is none about what is missing", err)
	}
	for _, want := range []string{
		"/nowhere/localplane-node: make build-real", "/nowhere/everynode-agent: make build-real", "/nowhere/images/pause: make build-real",
		"/nowhere/images/testapp: make build-real", "containerd at /nowhere/containerd: name a program with --containerd PATH",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in the list:\n%v", want, err)
		}
	}
	if state, err := h.LoadState(); err != nil || state.RealNodes != 1 {
		t.Errorf("the state was changed: %+v, %v", state, err)
	}
	if lock, err := h.Lock(); err != nil {
		t.Errorf("the home is still locked: %v", err)
	} else if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestDirectoryThatIsTooLongForASocket(t *testing.T) {
	h, err := home.At(filepath.Join("/tmp", strings.Repeat("long", 30)))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{RealNodes: 1}.withDefaults()
	_, err = o.realNodes(h, home.State{})
	var usage *UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "--dir") || !strings.Contains(err.Error(), h.EgressSocket()) {
		t.Errorf("error %v", err)
	}
	// Without real nodes it does not matter.
	if _, err := (Options{}).withDefaults().realNodes(h, home.State{}); err != nil {
		t.Error(err)
	}
}

func TestNextRunKnowsTheRealNodes(t *testing.T) {
	o := Options{}.withDefaults()
	chosen := component.Real{Count: 3, Programs: realnode.Programs{Containerd: "/opt/containerd"}}
	if got := o.remembered(chosen, home.State{RealNodes: 2, Containerd: "/old"}); got.RealNodes != 3 || got.Containerd != "/old" {
		t.Errorf("without --containerd: %+v", got)
	}
	o.Real.Containerd = "containerd"
	if got := o.remembered(chosen, home.State{}); got.Containerd != "/opt/containerd" {
		t.Errorf("with --containerd: %+v", got)
	}
}
