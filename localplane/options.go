// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/internal/realnode"
	"everynode.dev/everynode/localplane/simkubelet"
)

const (
	// DefaultDir is the default directory of a plane.
	DefaultDir = ".localplane/default"
	// DefaultNodes is the default number of nodes of `up`.
	DefaultNodes = 10
	// KubernetesVersion is the version of the Kubernetes components of a plane, unless Programs.Kubernetes has another
	// version.
	KubernetesVersion = "v1.37.1"
	// NoDialects means that no manager runs.
	NoDialects = "none"

	defaultQPS = 2000
)

// Dialects returns the dialects that the manager can serve.
func Dialects() []string { return dialects.Names() }

// DefaultDialects returns the default dialects of the manager.
func DefaultDialects() []string { return dialects.Defaults() }

// UsageError is a mistake in the options, as opposed to an error during the start.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// Options are the options of a plane. The zero value is a plane without nodes in DefaultDir.
type Options struct {
	// Dir is the plane's directory; the default is DefaultDir.
	Dir string
	// Fresh wipes the state of an earlier run.
	Fresh bool
	// Nodes is the minimum number of simulated nodes, including those of an earlier run.
	Nodes int
	// RealNodes is the minimum number of nodes with their own kubelet and containerd, including those of an earlier run.
	RealNodes int
	Real      RealNodes
	// KeepNodes adds no nodes to a plane that has already had its first nodes: Nodes is only for a new plane.
	KeepNodes bool
	// Dialects are the dialects of the manager; nil means DefaultDialects, an empty list or NoDialects means no manager.
	Dialects []string
	// NativeController runs upstream's DaemonSet controller; it excludes the native dialect.
	NativeController bool
	// APIPort is the port of the API server; 0 means the last one, or any.
	APIPort int

	Kubernetes Kubernetes
	Manager    Manager
	// Sim has the delays of the simulated nodes; nil means simkubelet.Realistic.
	Sim      *simkubelet.Profile
	Programs Programs
	// Manifests are the manifests of Everynode; nil means those of this version, and an empty list a cluster without Everynode and its agents.
	Manifests []fs.FS
	// Progress receives a line for each step; nil means none.
	Progress io.Writer
}

// RealNodes are the options of real nodes.
type RealNodes struct {
	// Containerd is the program of containerd, with its shim in the same directory; empty means the last one, or that in
	// $PATH.
	Containerd string
	// RegistryLatency is the delay of the plane's registry before it sends a blob.
	RegistryLatency time.Duration
}

// Kubernetes are the options of the Kubernetes components.
type Kubernetes struct {
	// QPS and Burst are the client rate limits of each component; 0 means 2000, and for Burst the value of QPS.
	QPS, Burst int
	// Audit are the users whose requests the API server logs in Plane.AuditLog; if empty, there is no log.
	Audit []string
	// AuditWrites adds writes of sets, revisions and pods to that log, except those of kubelets and the scheduler, and
	// the bodies of deletes and patches.
	AuditWrites bool
	// NodeMonitorGracePeriod is the time without heartbeats after which a node is NotReady; 0 means 16 s, and longer on
	// a plane with more than 125 nodes, whose leases would otherwise cause most of the load.
	NodeMonitorGracePeriod time.Duration
}

// Manager are the options of Everynode's manager.
type Manager struct {
	// Count is the number of processes, one of which is the leader; 0 means 1.
	Count int
	// Args are additional arguments after the plane's own flags.
	Args []string
}

// Programs are the paths of the programs.
type Programs struct {
	// Localplane is the program localplane; empty means this program if it is that, else $EVERYNODE_LOCALPLANE, else
	// bin/localplane of the repository around the working directory.
	Localplane string
	// Manager is the program everynode-manager; empty means the one in the directory of Localplane.
	Manager string
	// Node is the program localplane-node, which contains the kubelet and the kube-proxy of real nodes, Agent the
	// program everynode-agent, and Images the directory of the other programs for images; empty means the directory of
	// Localplane.
	Node, Agent, Images string
	// Kubernetes is the directory of kube-apiserver, kube-controller-manager and kube-scheduler of another version of
	// Kubernetes, for a plane with only simulated nodes; empty means $EVERYNODE_KUBERNETES, and if that is empty too,
	// Localplane is used.
	Kubernetes string
}

// withDefaults sets defaults.
func (o Options) withDefaults() Options {
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if o.Dialects == nil {
		o.Dialects = DefaultDialects()
	}
	if slices.Equal(o.Dialects, []string{NoDialects}) {
		o.Dialects = []string{}
	}
	if o.Kubernetes.QPS == 0 {
		o.Kubernetes.QPS = defaultQPS
	}
	if o.Kubernetes.Burst == 0 {
		o.Kubernetes.Burst = o.Kubernetes.QPS
	}
	if o.Kubernetes.NodeMonitorGracePeriod == 0 {
		o.Kubernetes.NodeMonitorGracePeriod = gracePeriod(o.Nodes)
	}
	if o.Manager.Count == 0 {
		o.Manager.Count = 1
	}
	if len(o.Dialects) == 0 {
		o.Manager.Count = 0
	}
	if o.Manifests == nil {
		o.Manifests = Shipped()
	}
	if o.Sim == nil {
		o.Sim = new(simkubelet.Realistic())
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// gracePeriod grows with the number of nodes, so that there are at most about 50 lease writes a second: a lease lasts
// 5/8 of the grace period and is renewed four times in this time, so 1,000 nodes have a grace period of 128 s and renew
// every 20 s. Twice as many writes cost the API server a quarter of a core.
func gracePeriod(nodes int) time.Duration {
	const least, perNode = 16 * time.Second, 128 * time.Millisecond
	return max(least, time.Duration(nodes)*perNode)
}

// leaseFor returns the lease duration for a grace period.
func leaseFor(grace time.Duration) time.Duration {
	return max((grace * 5 / 8).Round(time.Second), time.Second)
}

// validate validates the options. Defaults must be set before.
func (o Options) validate() error {
	if o.Nodes < 0 || o.Nodes > nodes.Max {
		return usage("--nodes is %d: a plane has 0 to %d nodes", o.Nodes, nodes.Max)
	}
	if o.RealNodes < 0 || o.RealNodes > realnode.Max {
		return usage("--real-nodes is %d: a plane has 0 to %d real nodes", o.RealNodes, realnode.Max)
	}
	if o.Real.RegistryLatency < 0 {
		return usage("--registry-latency is %s: it is 0 or more", o.Real.RegistryLatency)
	}
	if o.APIPort < 0 || o.APIPort > 65535 {
		return usage("--api-port is %d: a port is 1 to 65535, or 0 for any", o.APIPort)
	}
	if err := o.validateDialects(); err != nil {
		return err
	}
	if o.Kubernetes.QPS < 0 || o.Kubernetes.Burst < 0 {
		return usage("--kubernetes-qps is %d and --kubernetes-burst is %d: both are 1 or more", o.Kubernetes.QPS, o.Kubernetes.Burst)
	}
	if grace := o.Kubernetes.NodeMonitorGracePeriod; grace < minGrace {
		return usage("--node-monitor-grace-period is %s: it is at least %s", grace, minGrace)
	}
	if o.Manager.Count < 0 {
		return usage("--managers is %d: it is 1 or more", o.Manager.Count)
	}
	if err := o.Sim.Validate(); err != nil {
		return usage("%v", err)
	}
	return nil
}

// minGrace is sufficient for a lease of a few seconds, which is the shortest possible one.
const minGrace = 4 * time.Second

func (o Options) validateDialects() error {
	served := strings.Join(Dialects(), ", ")
	for _, d := range o.Dialects {
		if !slices.Contains(Dialects(), d) {
			return usage("--dialects names %q: it is one or more of %s, or %s alone", d, served, NoDialects)
		}
	}
	if o.NativeController && slices.Contains(o.Dialects, dialects.Native) {
		return usage("--native-controller and the dialect %s would fight over the same DaemonSets: add --dialects %s, --dialects %s, --dialects %s or --dialects %s",
			dialects.Native, dialects.Kruise, dialects.OpenYurt, dialects.Policy, NoDialects)
	}
	return nil
}

func (o Options) managers() component.Managers {
	return component.Managers{Count: o.Manager.Count, Dialects: o.Dialects, Args: o.Manager.Args}
}
