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

// Tier is when a component starts; it stops in the opposite order.
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
	// StopGrace is how long it may take to end after SIGTERM before it gets SIGKILL.
	StopGrace time.Duration

	// Env is what the environment has beside that of the supervisor.
	Env []string
	// Unshare are the CLONE_NEW… flags of the namespaces that the process gets for itself.
	Unshare uintptr
	// Inside names the component in whose namespaces it runs, and with which it is killed and started; After are those
	// that have to be ready before it starts.
	Inside string
	After  []string
	// Linked is called with the pid of a new process that has said that it is ready, and before it counts as that. It finds the pids of other components by their
	// names, 0 for one that does not run.
	Linked func(pid int, of func(name string) int) error
}

// Probe tells whether a component is ready: a URL that answers 200, a socket that takes connections, or else a file that
// is there: it is removed before each start. URL and Socket are looked for in the namespaces of the component that it runs inside.
type Probe struct {
	// URL may be https, then Authority is the file of the authority that signed the server's certificate and Client
	// names the pair of files (without .crt and .key) to authenticate with, if any.
	URL, Authority, Client string
	// Socket is the path of a Unix socket.
	Socket string
	// File is made by the process when it is ready.
	File string
	// Excuse is a file of the machine: while it is there, what runs is ready whatever it answers.
	Excuse string
}

// Inputs is what the command lines depend on.
type Inputs struct {
	Home  home.Home
	Ports map[string]int
	// Self is this program, which is started again for each component; ManagerBinary is Everynode's manager.
	Self, ManagerBinary string
	// Kubernetes is the directory of the programs KubernetesPrograms of another version of Kubernetes; empty means that Self is these as well.
	Kubernetes string
	// Audit are the users of whose requests the API server keeps a log.
	Audit []string
	// Clients limits the requests per second of each of Kubernetes' own components and of the managers.
	Clients ClientLimits
	// Nodes are the timings of the node lifecycle.
	Nodes NodeTiming
	// SimArgs are the flags of the simulated kubelets.
	SimArgs []string
	// NativeController runs upstream's DaemonSet controller in a process of its own.
	NativeController bool
	Managers         Managers
	Real             Real
	// AuditWrites has that log tell of all who write sets and pods.
	AuditWrites bool
}

// ClientLimits are the limits of a client of the API server.
type ClientLimits struct {
	// QPS is in requests per second; Burst is in requests.
	QPS, Burst int
}

// NodeTiming says when a silent node becomes NotReady.
type NodeTiming struct {
	// Grace is how long a node may be silent.
	Grace time.Duration
	// Lease is the duration of a node's lease, which is renewed about four times within it.
	Lease time.Duration
}

// Managers are Everynode's manager processes.
type Managers struct {
	Count    int
	Dialects []string
	// Args come after the flags that the plane sets itself.
	Args []string
}

// All lists the components in the order in which they start.
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

// ManagerName is the name of the i-th manager, counted from zero.
func ManagerName(i int) string {
	if i == 0 {
		return Manager
	}
	return fmt.Sprintf("%s-%d", Manager, i+1)
}

// KubernetesPrograms are the programs that a plane can take from another version of Kubernetes.
func KubernetesPrograms() []string { return []string{APIServer, ControllerManager, Scheduler} }

// kubernetes is a component that this program runs itself when it is started again.
func kubernetes(in Inputs, name string, tier Tier, args []string) Component {
	return Component{
		Name:      name,
		Tier:      tier,
		Path:      in.Self,
		Args:      append([]string{RunVerb, name}, args...),
		StopGrace: stopGrace,
	}
}

// versioned has a component be that program of another version of Kubernetes, if the plane has one.
func (c Component) versioned(in Inputs, program string) Component {
	if in.Kubernetes != "" {
		c.Path, c.Args = filepath.Join(in.Kubernetes, program), c.Args[2:] // without RunVerb and the name
	}
	return c
}

// stopGrace is enough for everything but the API server. Four tiers, one after the other, stay below ten seconds.
const stopGrace = 2 * time.Second

// RunVerb is the first argument of this program when it is to be a component.
const RunVerb = "component-run"
