// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/gateway"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/proc"
	"everynode.dev/everynode/localplane/internal/realnode"
)

// MissingError lists everything that real nodes need and this machine does not have, with remedies.
type MissingError = realnode.MissingError

// RegistryHost is the host name of the plane's registry in image references on real nodes.
const RegistryHost = realnode.RegistryHost

// NodeDir returns the directory of a real node. Its subdirectory disk contains the node's /srv, /var/log and so on.
func (p *Plane) NodeDir(name string) string { return p.home.RealNode(name) }

// RegistryLog returns the log of the plane's registry, one JSON object per request.
func (p *Plane) RegistryLog() string { return p.home.RegistryLog() }

// RegistryAddress returns the address of the plane's registry on this machine, for pushes; real nodes use RegistryHost.
func (p *Plane) RegistryAddress() (string, error) {
	address, err := p.registryAddress()
	if err == nil && address == "" {
		err = errors.New("this plane has no registry: it comes with real nodes (`localplane up --real-nodes 3`)")
	}
	return address, err
}

// registryAddress is empty when there is no registry.
func (p *Plane) registryAddress() (string, error) {
	state, err := p.home.LoadState()
	if err != nil || state.Ports[component.Registry] == 0 {
		return "", err
	}
	return fmt.Sprintf("%s:%d", component.Loopback, state.Ports[component.Registry]), nil
}

// RegistryPassword returns the password with which RegistryUser may push and change the latency of the registry.
func (p *Plane) RegistryPassword() (string, error) {
	raw, err := os.ReadFile(p.home.RegistryPassword())
	if err != nil {
		return "", fmt.Errorf("reading the password of the registry: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// RegistryUser is the user for pushes to the plane's registry.
const RegistryUser = realnode.RegistryUser

// DialNetwork connects to an address in the network of the real nodes, such as that of a pod.
func (p *Plane) DialNetwork(ctx context.Context, _, address string) (net.Conn, error) {
	return gateway.Dial(ctx, p.home.EgressSocket(), address)
}

// KillNode powers a real node off: all its processes end immediately, and its disk persists.
func (p *Plane) KillNode(ctx context.Context, name string) error {
	if err := p.checkReal("killing", name); err != nil {
		return err
	}
	return p.control.KillComponent(ctx, name)
}

// StartNode starts a real node that was killed.
func (p *Plane) StartNode(ctx context.Context, name string) error {
	if err := p.checkReal("starting", name); err != nil {
		return err
	}
	return p.control.StartComponent(ctx, name)
}

// checkReal returns an error unless the plane has a real node with this name.
func (p *Plane) checkReal(verb, name string) error {
	if !p.isReal(name) {
		return usage("%s node %s: that is for the real nodes of a plane (`localplane up --real-nodes 3`), which are called %s, %s and so on; a simulated node can be cut",
			verb, name, realnode.Name(1), realnode.Name(2))
	}
	return nil
}

func (p *Plane) isReal(name string) bool {
	n, ok := realnode.Number(name)
	if !ok {
		return false
	}
	state, err := p.home.LoadState()
	return err == nil && n <= state.RealNodes
}

// setLink cuts a real node off the network, or reconnects it. The mark is written first, because a node that starts in
// the meantime follows the mark.
func (p *Plane) setLink(ctx context.Context, name string, up bool) error {
	mark := p.home.CutFile(name)
	if up {
		if err := os.Remove(mark); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("healing node %s: %w", name, err)
		}
	} else if err := home.WriteFile(mark, nil); err != nil {
		return fmt.Errorf("cutting node %s: %w", name, err)
	}
	pids, err := p.pids(ctx)
	if err != nil || pids[component.Network] == 0 || pids[name] == 0 {
		return err
	}
	links := realnode.Links{Network: pids[component.Network]}
	n, _ := realnode.Number(name)
	err = component.FollowMark(p.home, name, func(up bool) error { return links.Set(n, up) })
	if realnode.IsUnplugged(err) { // the node is still starting, and follows the mark
		return nil
	}
	return err
}

// pids returns the pids of the components, 0 for one that does not run.
func (p *Plane) pids(ctx context.Context) (map[string]int, error) {
	list, err := p.control.Components(ctx)
	if err != nil {
		return nil, err
	}
	pids := make(map[string]int, len(list))
	for _, c := range list {
		pids[c.Name] = c.PID
	}
	return pids, nil
}

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// NodeExec runs a command of this machine in all namespaces of a real node, and waits for it. An *exec.ExitError is an
// error of the command.
func (p *Plane) NodeExec(ctx context.Context, name string, argv []string, streams Streams) error {
	if err := p.checkReal("running a command on", name); err != nil {
		return err
	}
	if len(argv) == 0 {
		return usage("running a command on node %s: say which", name)
	}
	pids, err := p.pids(ctx)
	if err != nil {
		return err
	}
	if pids[name] == 0 {
		return fmt.Errorf("running a command on node %s: it is off: `node start %s` first", name, name)
	}
	return proc.RunWithin(ctx, pids[name], proc.Interactive{Argv: argv, In: streams.In, Out: streams.Out, Err: streams.Err})
}

// removeCgroups removes the cgroups of real nodes: everything else ends with their processes.
func removeCgroups(h home.Home, realNodes int) error {
	if realNodes == 0 {
		return nil
	}
	return component.Inputs{Home: h}.Cgroups().Remove()
}

// longestSocket is the maximum length of the path of a Unix socket.
const longestSocket = 107

// awkward are characters with a special meaning in overlay mount options, YAML or TOML.
const awkward = ",:#{}[]\"\\\n"

// refuseForNone returns an error for options of real nodes on a plane that has none.
func (o Options) refuseForNone() error {
	const remedy = "it is for the real nodes of a plane, and this one has none: add --real-nodes 3, or leave it out"
	if o.Real.Containerd != "" {
		return usage("--containerd is %s: %s", o.Real.Containerd, remedy)
	}
	if o.Real.RegistryLatency != 0 {
		return usage("--registry-latency is %s: %s", o.Real.RegistryLatency, remedy)
	}
	return nil
}

// realNodes returns the inputs of real nodes, or an error if they are not possible.
func (o Options) realNodes(h home.Home, state home.State) (component.Real, error) {
	r := component.Real{
		Count: max(o.RealNodes, state.RealNodes), Node: o.Programs.Node, Images: o.Programs.Images, Agent: o.Programs.Agent, Latency: o.Real.RegistryLatency,
	}
	if r.Count == 0 {
		return r, o.refuseForNone()
	}
	if o.Programs.Kubernetes != "" {
		return r, usage("--real-nodes: their kubelets are of Kubernetes %s, and a kubelet may not be newer than its API server, which is to be the one in %s: unset $%s, or have simulated nodes alone",
			KubernetesVersion, o.Programs.Kubernetes, EnvKubernetes)
	}
	if covered, is := realnode.Covers(h.Dir()); is {
		return r, usage("--dir: %s is below %s, of which real nodes have one of their own: name another directory", h.Dir(), covered)
	}
	if at := strings.IndexAny(h.Dir(), awkward); at >= 0 {
		return r, usage("--dir: %s has a %q, which cannot be in all the files that real nodes are configured with: name another directory", h.Dir(), h.Dir()[at])
	}
	if socket := h.EgressSocket(); len(socket) > longestSocket {
		return r, usage("--dir: real nodes need a socket at %s, and such a path has %d characters at most: name a shorter directory", socket, longestSocket)
	}
	programs, err := realnode.Check(realnode.CheckOptions{
		Home: h.Dir(), Containerd: cmp.Or(o.Real.Containerd, state.Containerd), Nodes: r.Count,
		Node: r.Node, Built: []string{r.Agent, filepath.Join(r.Images, "pause"), filepath.Join(r.Images, "testapp")},
	})
	if err != nil {
		return r, err
	}
	r.Programs = programs
	r.AgentTag, err = realnode.Tag(r.Agent)
	return r, err
}

// remembered returns the state of the real nodes for the next run.
func (o Options) remembered(r component.Real, state home.State) home.State {
	state.RealNodes = r.Count
	if o.Real.Containerd != "" {
		// Another containerd may not be able to read the data of this one.
		state.Containerd = r.Programs.Containerd
	}
	return state
}
