// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"everynode.dev/everynode/localplane/internal/home"
)

// Names of the components. Managers after the first are called manager-2, manager-3, and so on.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	NativeController  = "native-controller"
	Manager           = "manager"
)

// Tier defines when a component starts; components stop in the opposite order.
type Tier int

// The tiers in their order.
const (
	TierStore Tier = iota
	TierServer
	TierKubernetes
	TierEverynode
)

// Component is one process of a plane.
type Component struct {
	Name  string
	Tier  Tier
	Path  string
	Args  []string
	Ready Probe
	// StopGrace is the time between SIGTERM and SIGKILL.
	StopGrace time.Duration

	// Env are environment variables in addition to those of the supervisor.
	Env []string
	// Unshare are the CLONE_NEW… flags of the process's own namespaces.
	Unshare uintptr
	// Inside is the component in whose namespaces it runs, and with which it is killed and started; After are the
	// components that must be ready before it starts.
	Inside string
	After  []string
	// Linked is called with the pid of a new process that is ready, before the component counts as ready. It gets the
	// pids of other components by name, 0 if they do not run.
	Linked func(pid int, of func(name string) int) error
}

// Probe defines when a component is ready: a URL that responds with 200, a container runtime that answers, or
// otherwise a file that exists; the file is removed before each start. URL and Runtime are in the namespaces of the
// component of Inside.
type Probe struct {
	// For a https URL, Authority is the file with the authority of the server's certificate, and Client is the client
	// certificate (without .crt and .key), if any.
	URL, Authority, Client string
	// Runtime is the path of the Unix socket of a container runtime. Its socket accepts connections before its CRI service is
	// initialized, and a kubelet that starts in between ends with an error.
	Runtime string
	// File is created by the process when it is ready.
	File string
	// Excuse is a file of the machine: while it exists, a running component counts as ready.
	Excuse string
}

// Inputs are the inputs of the command lines.
type Inputs struct {
	Home  home.Home
	Ports map[string]int
	// Self is this program, which is started for each component; ManagerBinary is Everynode's manager.
	Self, ManagerBinary string
	// Kubernetes is the directory of the KubernetesPrograms of another version of Kubernetes; if empty, Self is used.
	Kubernetes string
	// Audit are the users whose requests the API server logs.
	Audit []string
	// Clients is the rate limit of each component of Kubernetes and of the managers.
	Clients ClientLimits
	// Nodes are the timings of the node lifecycle.
	Nodes NodeTiming
	// SimArgs are the flags of the simulated kubelets.
	SimArgs []string
	// NativeController runs upstream's DaemonSet controller in its own process.
	NativeController bool
	Managers         Managers
	Real             Real
	// AuditWrites adds all writes of sets and pods to the log.
	AuditWrites bool
}

// ClientLimits are the rate limits of a client of the API server.
type ClientLimits struct {
	// QPS is in requests per second; Burst is in requests.
	QPS, Burst int
}

// NodeTiming defines when a node without heartbeats becomes NotReady.
type NodeTiming struct {
	// Grace is the grace period.
	Grace time.Duration
	// Lease is the duration of a node's lease, which is renewed about four times in this time.
	Lease time.Duration
}

// Managers are Everynode's manager processes.
type Managers struct {
	Count    int
	Dialects []string
	// Args follow the flags that the plane sets.
	Args []string
}

// All returns the components in the order in which they start.
func All(in Inputs) []Component {
	list := []Component{etcd(in), apiServer(in), controllerManager(in), scheduler(in), kwok(in)}
	if in.NativeController {
		list = append(list, nativeController(in))
	}
	for i := range in.Managers.Count {
		list = append(list, manager(in, ManagerName(i)))
	}
	list = append(list, realNodes(in)...)
	slices.SortStableFunc(list, func(a, b Component) int { return int(a.Tier - b.Tier) })
	return list
}

// ManagerName returns the name of the i-th manager, counted from zero.
func ManagerName(i int) string {
	if i == 0 {
		return Manager
	}
	return fmt.Sprintf("%s-%d", Manager, i+1)
}

// KubernetesPrograms returns the programs that a plane can use from another version of Kubernetes.
func KubernetesPrograms() []string { return []string{APIServer, ControllerManager, Scheduler} }

// kubernetes returns a component that this program runs itself.
func kubernetes(in Inputs, name string, tier Tier, args []string) Component {
	return Component{
		Name:      name,
		Tier:      tier,
		Path:      in.Self,
		Args:      append([]string{RunVerb, name}, args...),
		StopGrace: stopGrace,
	}
}

// versioned makes a component use the program of another version of Kubernetes, if the plane has one.
func (c Component) versioned(in Inputs, program string) Component {
	if in.Kubernetes != "" {
		c.Path, c.Args = filepath.Join(in.Kubernetes, program), c.Args[2:] // without RunVerb and the name
	}
	return c
}

// stopGrace is sufficient for everything but the API server. The four tiers together stay below ten seconds.
const stopGrace = 2 * time.Second

// RunVerb is the first argument of this program for a component.
const RunVerb = "component-run"
