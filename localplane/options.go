// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/internal/realnode"
	"everynode.dev/everynode/localplane/simkubelet"
)

const (
	// DefaultDir is where a plane lives unless told otherwise.
	DefaultDir = ".localplane/default"
	// DefaultNodes is how many nodes `up` makes unless told otherwise.
	DefaultNodes = 10
	// KubernetesVersion is the version of everything of Kubernetes' own on a plane, unless Programs.Kubernetes is of another one.
	KubernetesVersion = "v1.37.1"
	// NoDialects is the dialect that runs no manager.
	NoDialects = "none"

	dialectNative   = "native"
	dialectKruise   = "kruise"
	dialectOpenYurt = "openyurt"
	defaultQPS      = 2000
)

// Dialects are those that the manager serves, and so those that a plane can be asked for besides NoDialects.
func Dialects() []string { return []string{dialectNative, dialectKruise, dialectOpenYurt} }

// DefaultDialects are those that the manager runs unless told otherwise.
func DefaultDialects() []string { return []string{dialectNative, dialectKruise} }

// UsageError is a mistake in how a plane was asked for, as opposed to one that was met on the way.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// Options says what a plane is to be. The zero value is a plane without nodes in DefaultDir.
type Options struct {
	// Dir is the plane's directory; empty means DefaultDir.
	Dir string
	// Fresh wipes the state of an earlier run.
	Fresh bool
	// Nodes is how many simulated nodes there are to be at least; those of an earlier run count.
	Nodes int
	// RealNodes is how many nodes there are to be at least with a kubelet and a containerd of their own; those of an earlier run count.
	RealNodes int
	Real      RealNodes
	// KeepNodes leaves a plane that has had its first nodes with what is left of them: Nodes is then for a new one.
	KeepNodes bool
	// Dialects are what the manager runs; nil means DefaultDialects, an empty list or NoDialects means no manager.
	Dialects []string
	// NativeController runs upstream's DaemonSet controller; it excludes the native dialect.
	NativeController bool
	// APIPort is the API server's port; 0 means the last one used, or any.
	APIPort int

	Kubernetes Kubernetes
	Manager    Manager
	// Sim is how long things take on the simulated nodes; nil means simkubelet.Realistic.
	Sim      *simkubelet.Profile
	Programs Programs
	// Manifests are what is installed of Everynode; nil means those of this version.
	Manifests []fs.FS
	// Progress takes a line for each step; nil means nowhere.
	Progress io.Writer
}

// RealNodes is about the real nodes.
type RealNodes struct {
	// Containerd is the program of containerd, with its shim beside it; empty means the one that was named last, or that in $PATH.
	Containerd string
	// RegistryLatency is how long the plane's registry waits before it sends a blob.
	RegistryLatency time.Duration
}

// Kubernetes is about Kubernetes' own components.
type Kubernetes struct {
	// QPS and Burst limit what each component may ask of the API server, in requests per second and in requests;
	// 0 means 2000, and for Burst what QPS is.
	QPS, Burst int
	// Audit are the users of whose requests the API server keeps a log, Plane.AuditLog; without any there is none.
	Audit []string
	// AuditWrites has that log tell who writes sets, revisions and pods, but for kubelets and the scheduler, and what deletes and patches say.
	AuditWrites bool
	// NodeMonitorGracePeriod is how long a node may be silent before it is NotReady; 0 means 16 s, and longer on a plane
	// of more than 125 nodes, whose leases would otherwise be most of its work.
	NodeMonitorGracePeriod time.Duration
}

// Manager is about Everynode's manager.
type Manager struct {
	// Count is how many processes run, one of which leads; 0 means 1.
	Count int
	// Args are given to each after the plane's own flags.
	Args []string
}

// Programs are where the programs are.
type Programs struct {
	// Localplane is the program localplane; empty means this program if it is that, else $EVERYNODE_LOCALPLANE, else
	// bin/localplane of the repository around the working directory.
	Localplane string
	// Manager is the program everynode-manager; empty means the one beside Localplane.
	Manager string
	// Node is the program localplane-node, which is the kubelet and the kube-proxy of real nodes, Agent the program everynode-agent,
	// and Images the directory of the other programs that their images are built from; empty means the ones beside Localplane.
	Node, Agent, Images string
	// Kubernetes is the directory of kube-apiserver, kube-controller-manager and kube-scheduler of another version of Kubernetes, for a plane whose
	// nodes are all simulated; empty means $EVERYNODE_KUBERNETES, and without that these are Localplane as well.
	Kubernetes string
}

// withDefaults fills in what was left out.
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

// gracePeriod grows with the number of nodes, so that the leases stay below about 50 writes a second: a lease lasts 5/8
// of the grace period and is renewed four times within it, so 1,000 nodes have 128 s of grace and renew every 20 s.
// Twice as many writes were seen to cost the API server a quarter of a core.
func gracePeriod(nodes int) time.Duration {
	const least, perNode = 16 * time.Second, 128 * time.Millisecond
	return max(least, time.Duration(nodes)*perNode)
}

// leaseFor is the duration of a lease that goes with a grace period.
func leaseFor(grace time.Duration) time.Duration {
	return max((grace * 5 / 8).Round(time.Second), time.Second)
}

// validate tells what cannot be. It expects the defaults to be filled in.
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

// minGrace leaves room for a lease of a few seconds, which is the shortest there is.
const minGrace = 4 * time.Second

func (o Options) validateDialects() error {
	served := strings.Join(Dialects(), ", ")
	for _, d := range o.Dialects {
		if !slices.Contains(Dialects(), d) {
			return usage("--dialects names %q: it is one or more of %s, or %s alone", d, served, NoDialects)
		}
	}
	if o.NativeController && slices.Contains(o.Dialects, dialectNative) {
		return usage("--native-controller and the dialect %s would fight over the same DaemonSets: add --dialects %s, --dialects %s or --dialects %s",
			dialectNative, dialectKruise, dialectOpenYurt, NoDialects)
	}
	return nil
}

func (o Options) managers() component.Managers {
	return component.Managers{Count: o.Manager.Count, Dialects: o.Dialects, Args: o.Manager.Args}
}
