// SPDX-License-Identifier: Apache-2.0

package component

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/internal/proc"
	"everynode.dev/everynode/localplane/internal/realnode"
)

// Names of the additional components for real nodes. The components of a node have the name of the node and of the
// program: real-1, real-1-containerd, real-1-kubelet, real-1-kube-proxy.
const (
	Network  = "network"
	Gateway  = "gateway"
	Registry = "registry"
	// NodeInit is the name of the first process of a node for component-run.
	NodeInit = "node-init"

	containerd = "containerd"
	kubelet    = "kubelet"
	kubeProxy  = "kube-proxy"
)

// Ports of the health checks of a node, on its own loopback address.
const (
	kubeletHealth   = 10248
	kubeProxyHealth = 10256
)

// Real are the inputs of real nodes.
type Real struct {
	Count int
	// Node is the program localplane-node, Agent is everynode-agent, Images is the directory of the other programs for
	// images.
	Node, Agent, Images string
	// AgentTag is the tag of the agent's image.
	AgentTag string
	// Programs are programs of the machine.
	Programs realnode.Programs
	// Latency is the delay of the registry for each blob.
	Latency time.Duration
}

func nodePart(node, part string) string { return node + "-" + part }

// Kubelet returns the component name of a node's kubelet.
func Kubelet(node string) string { return nodePart(node, kubelet) }

// Containerd returns the component name of a node's containerd.
func Containerd(node string) string { return nodePart(node, containerd) }

// KubeProxy returns the component name of a node's kube-proxy.
func KubeProxy(node string) string { return nodePart(node, kubeProxy) }

// Cgroups returns the cgroups of the plane's real nodes.
func (in Inputs) Cgroups() realnode.Cgroups {
	sum := sha256.Sum256([]byte(in.Home.Dir()))
	return realnode.Cgroups{ID: hex.EncodeToString(sum[:4])}
}

// realNodes returns the components of the real nodes, and of what they share.
func realNodes(in Inputs) []Component {
	if in.Real.Count == 0 {
		return nil
	}
	list := []Component{network(in), gateway(in), registry(in)}
	for n := 1; n <= in.Real.Count; n++ {
		list = append(list, nodeInit(in, n), nodeContainerd(in, n), nodeKubelet(in, n), nodeKubeProxy(in, n))
	}
	return oneLinkAtATime(list)
}

// oneLinkAtATime serializes links: a network and a node that start at the same time must not both create the link
// between them.
func oneLinkAtATime(list []Component) []Component {
	var mu sync.Mutex
	for i := range list {
		link := list[i].Linked
		if link == nil {
			continue
		}
		list[i].Linked = func(pid int, of func(string) int) error {
			mu.Lock()
			defer mu.Unlock()
			return link(pid, of)
		}
	}
	return list
}

func network(in Inputs) Component {
	ready := in.Home.ReadyFile(Network)
	c := kubernetes(in, Network, TierStore, []string{"--ready-file=" + ready})
	c.Ready = Probe{File: ready}
	c.Unshare = syscall.CLONE_NEWNET
	c.StopGrace = killAtOnce
	c.Linked = func(pid int, of func(string) int) error {
		for n := 1; n <= in.Real.Count; n++ {
			node := of(realnode.Name(n))
			// A node that ends at this moment is connected when it starts again.
			if err := plug(in, pid, node, n); err != nil && alive(node) {
				return err
			}
		}
		return nil
	}
	return c
}

func alive(pid int) bool {
	id, err := proc.Identify(pid)
	return err == nil && id.Alive()
}

// killAtOnce is the grace period of processes without state.
const killAtOnce = 100 * time.Millisecond

// plug connects a node to the network, if both run. A node that was cut off stays cut off.
func plug(in Inputs, network, node, n int) error {
	if network == 0 || node == 0 {
		return nil
	}
	links := realnode.Links{Network: network}
	if err := links.Plug(node, n); err != nil {
		return err
	}
	return FollowMark(in.Home, realnode.Name(n), func(up bool) error { return links.Set(n, up) })
}

// FollowMark sets the link of a node according to its mark: down if it is cut off. Another process may change the mark
// at the same time and do the same, so the mark is read again afterwards: the last one sets the link as the mark
// requires.
func FollowMark(h home.Home, node string, set func(up bool) error) error {
	for {
		cut := h.IsCut(node)
		if err := set(!cut); err != nil {
			return err
		}
		if cut == h.IsCut(node) {
			return nil
		}
	}
}

func gateway(in Inputs) Component {
	ready := in.Home.ReadyFile(Gateway)
	c := kubernetes(in, Gateway, TierStore, []string{
		fmt.Sprintf("--listen=%s:%d", realnode.GatewayAddress, in.Ports[APIServer]),
		fmt.Sprintf("--api-server=%s:%d", Loopback, in.Ports[APIServer]),
		"--egress-socket=" + in.Home.EgressSocket(),
		fmt.Sprintf("--registry-listen=%s:%d", Loopback, in.Ports[Registry]),
		"--registry=" + registryAddress(),
		"--ready-file=" + ready,
	})
	c.Ready = Probe{File: ready}
	c.Inside, c.After = Network, []string{Network}
	c.StopGrace = killAtOnce
	return c
}

func registryAddress() string {
	return fmt.Sprintf("%s:%d", realnode.GatewayAddress, realnode.RegistryPort)
}

func registry(in Inputs) Component {
	ready := in.Home.ReadyFile(Registry)
	c := kubernetes(in, Registry, TierStore, []string{
		"--listen=" + registryAddress(),
		"--dir=" + in.Home.Registry(),
		"--images=" + in.Real.Images,
		"--password-file=" + in.Home.RegistryPassword(),
		"--agent=" + in.Real.Agent,
		"--agent-tag=" + in.Real.AgentTag,
		"--log=" + in.Home.RegistryLog(),
		"--latency=" + in.Real.Latency.String(),
		"--ready-file=" + ready,
	})
	c.Ready = Probe{File: ready}
	c.Inside, c.After = Network, []string{Network}
	return c
}

func nodeInit(in Inputs, n int) Component {
	name := realnode.Name(n)
	ready := in.Home.ReadyFile(name)
	args := []string{
		"--name=" + name,
		"--root=" + in.Home.RealNode(name),
		"--ready-file=" + ready,
	}
	// What the node's programs read, and the directories of the programs.
	for _, dir := range append(in.Real.Programs.Dirs(), in.Home.Dir()) {
		args = append(args, "--keep="+dir)
	}
	c := kubernetes(in, NodeInit, TierStore, args)
	c.Name = name
	c.Ready = Probe{File: ready}
	c.Unshare = realnode.NodeNamespaces
	c.After = []string{Network}
	c.StopGrace = killAtOnce
	c.Linked = func(pid int, of func(string) int) error {
		if err := in.Cgroups().Create(n); err != nil {
			return err
		}
		// A network that starts later connects all nodes itself.
		if err := plug(in, of(Network), pid, n); !realnode.IsUnplugged(err) {
			return err
		}
		return nil
	}
	return c
}

// temporary is the environment of programs that would otherwise leave files in the machine's /tmp when the node is
// powered off.
const temporary = "TMPDIR=/run"

func nodeContainerd(in Inputs, n int) Component {
	name := realnode.Name(n)
	program := in.Real.Programs.Containerd
	return Component{
		Name:   Containerd(name),
		Tier:   TierStore,
		Path:   program,
		Args:   []string{"--config", in.nodeFile(name, containerdFile)},
		Inside: name,
		After:  []string{name},
		// It looks for its shims in its own directory.
		Env:       []string{"PATH=" + filepath.Dir(program) + string(os.PathListSeparator) + os.Getenv("PATH"), temporary},
		Ready:     Probe{Runtime: containerdSocket},
		StopGrace: stopGrace,
	}
}

func nodeKubelet(in Inputs, n int) Component {
	name := realnode.Name(n)
	return Component{
		Name: Kubelet(name),
		Tier: TierKubernetes,
		Path: in.Real.Node,
		Args: []string{
			kubelet,
			"--config=" + in.nodeFile(name, kubeletFile),
			"--kubeconfig=" + in.nodeFile(name, kubeletKubeconfig),
			"--hostname-override=" + name,
			"--node-ip=" + realnode.Address(n),
			"--node-labels=" + strings.Join([]string{
				nodes.RealLabel + "=true", "topology.kubernetes.io/region=local", "node.kubernetes.io/instance-type=real",
				fmt.Sprintf("topology.kubernetes.io/zone=zone-%d", (n-1)%3+1),
			}, ","),
			"--v=2",
		},
		Env:       []string{temporary},
		Inside:    name,
		After:     []string{name, Containerd(name)},
		Ready:     Probe{URL: fmt.Sprintf("http://%s:%d/healthz", Loopback, kubeletHealth)},
		StopGrace: stopGrace,
	}
}

func nodeKubeProxy(in Inputs, n int) Component {
	name := realnode.Name(n)
	return Component{
		Name:   KubeProxy(name),
		Tier:   TierKubernetes,
		Path:   in.Real.Node,
		Args:   []string{kubeProxy, "--config=" + in.nodeFile(name, kubeProxyFile)},
		Inside: name,
		After:  []string{name},
		// On a node that is cut off, it does not respond before it has reached the API server.
		Ready:     Probe{URL: fmt.Sprintf("http://%s:%d/livez", Loopback, kubeProxyHealth), Excuse: in.Home.CutFile(name)},
		StopGrace: stopGrace,
	}
}

// realNodeFlags returns the flags for the connections between the API server and real nodes.
func (in Inputs) realNodeFlags() []string {
	return []string{
		// Pods reach it by its Service, which leads to the gateway; the gateway listens on the port with the same number.
		"--advertise-address=" + realnode.GatewayAddress,
		"--egress-selector-config-file=" + in.egressFile(),
		// Webhooks are behind Services, whose addresses exist only on nodes: the API server calls one of the pods
		// instead.
		"--enable-aggregator-routing=true",
		"--kubelet-client-certificate=" + in.cert(KubeletClient),
		"--kubelet-client-key=" + in.key(KubeletClient),
		"--kubelet-certificate-authority=" + in.cert(ClusterAuthority),
		// The name of simulated nodes leads nowhere from there.
		"--kubelet-preferred-address-types=InternalDNS,InternalIP",
	}
}
