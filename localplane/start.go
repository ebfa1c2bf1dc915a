// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"

	"everynode.dev/everynode/config"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/control"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/install"
	"everynode.dev/everynode/localplane/internal/nodes"
	"everynode.dev/everynode/localplane/internal/proc"
	"everynode.dev/everynode/localplane/internal/realnode"
	"everynode.dev/everynode/localplane/internal/supervisor"
)

// Start starts a plane and returns when all of it is ready. ctx applies only to the start: if it ends before,
// everything is stopped again. The plane then runs until Stop, or until this process ends.
func Start(ctx context.Context, options Options) (*Plane, error) {
	o := options.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	programs, err := o.Programs.find(o)
	if err != nil {
		return nil, err
	}
	o.Programs = programs
	if err := checkFileLimit(o.Nodes); err != nil {
		return nil, err
	}
	own, err := takeHome(o)
	if err != nil {
		return nil, err
	}
	plane := &Plane{home: own.home, control: own, own: own}
	if err := own.serve(); err != nil {
		return nil, errors.Join(err, own.shutdown())
	}
	if err := own.start(ctx, plane); err != nil {
		return nil, errors.Join(err, own.shutdown())
	}
	return plane, nil
}

// checkFileLimit raises the limit of open files, and returns an error if it is too low.
func checkFileLimit(nodes int) error {
	const base, nodesPerFile = 1024, 10
	limit, err := proc.RaiseFileLimit()
	if err != nil {
		return err
	}
	if need := uint64(base + nodes/nodesPerFile); limit < need {
		return fmt.Errorf("too few file handles: a process may open %d files here and a plane of %d nodes needs %d: run this in a new shell with a higher limit "+
			"(`ulimit -n %d` before starting; the hard limit is set in limits.conf or by the container's --ulimit nofile=%d)",
			limit, nodes, need, need, need)
	}
	return nil
}

// owner runs a plane: it holds the home's lock, the supervisor and the control socket.
type owner struct {
	options Options
	home    home.Home
	inputs  component.Inputs
	lock    *home.Lock
	ports   *component.Reservation
	sup     *supervisor.Supervisor
	control *control.Server
	// registered is the number of nodes after the start has added the missing ones.
	registered int

	// ctx ends when the plane starts to stop.
	ctx    context.Context
	cancel context.CancelFunc

	stopOnce sync.Once
	stopErr  error
	// done is closed when the plane has stopped.
	done chan struct{}
}

var _ control.Plane = &owner{}

// takeHome locks the directory, ends processes of a killed supervisor, and prepares everything that needs no process.
func takeHome(o Options) (*owner, error) {
	h, err := home.At(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := h.Create(); err != nil {
		return nil, err
	}
	lock, err := h.Lock()
	if err != nil {
		return nil, err
	}
	own := &owner{options: o, home: h, lock: lock, done: make(chan struct{})}
	own.ctx, own.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // a plane outlives the call that starts it; Stop ends it
	if err := own.prepare(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return own, nil
}

func (own *owner) prepare() error {
	state, err := own.home.LoadState()
	if err != nil && !own.options.Fresh {
		return err
	}
	kept := state
	if own.options.Fresh {
		kept = home.State{}
	}
	// Before any process is ended and any state is wiped.
	own.inputs = own.options.inputs(own.home)
	if own.inputs.Real, err = own.options.realNodes(own.home, kept); err != nil {
		return err
	}
	if err := own.endLeftovers(state); err != nil {
		return err
	}
	if own.options.Fresh {
		if err := own.home.Wipe(); err != nil {
			return err
		}
	}
	state = own.options.remembered(own.inputs.Real, kept)
	if err := own.choosePorts(state.Ports); err != nil {
		return err
	}
	state.Ports = own.inputs.Ports
	err = own.home.SaveState(state)
	if err == nil {
		err = component.IssueCredentials(own.inputs)
	}
	if err != nil {
		return errors.Join(err, own.ports.Release())
	}
	own.sup = supervisor.New(own.home, state, component.All(own.inputs), own.progress)
	return nil
}

// endLeftovers ends and removes what a killed run has left behind.
func (own *owner) endLeftovers(state home.State) error {
	ended, err := supervisor.EndLeftovers(state)
	if err != nil {
		return err
	}
	if len(ended) > 0 {
		own.progress("ended what an earlier run left behind: %s", strings.Join(ended, ", "))
	}
	return removeCgroups(own.home, state.RealNodes)
}

// choosePorts reserves ports until the plane has stopped.
func (own *owner) choosePorts(last map[string]int) (err error) {
	wish := own.options.APIPort
	if wish != 0 {
		last = map[string]int{component.APIServer: wish}
	}
	own.inputs.Ports, own.ports, err = component.ChoosePorts(component.PortNames(own.inputs), last)
	if err == nil && wish != 0 && own.inputs.Ports[component.APIServer] != wish {
		err = errors.Join(fmt.Errorf("port %d of %s is in use: name another one with --api-port, or leave it out and a free one is chosen", wish, component.Loopback),
			own.ports.Release())
	}
	return err
}

func (o Options) inputs(h home.Home) component.Inputs {
	grace := o.Kubernetes.NodeMonitorGracePeriod
	return component.Inputs{
		Home:             h,
		Self:             o.Programs.Localplane,
		ManagerBinary:    o.Programs.Manager,
		Kubernetes:       o.Programs.Kubernetes,
		Audit:            o.Kubernetes.Audit,
		AuditWrites:      o.Kubernetes.AuditWrites,
		Clients:          component.ClientLimits{QPS: o.Kubernetes.QPS, Burst: o.Kubernetes.Burst},
		Nodes:            component.NodeTiming{Grace: grace, Lease: leaseFor(grace)},
		SimArgs:          o.Sim.Args(),
		NativeController: o.NativeController,
		Managers:         o.managers(),
	}
}

func (own *owner) progress(format string, args ...any) {
	// An error while writing progress is ignored.
	_, _ = fmt.Fprintf(own.options.Progress, format+"\n", args...)
}

// serve opens the control socket.
func (own *owner) serve() error {
	server, err := control.Listen(own.home.Socket(), own)
	own.control = server
	return err
}

// start starts the tiers, and installs Everynode and adds nodes in between.
func (own *owner) start(ctx context.Context, plane *Plane) error {
	// `down` cancels a start too.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(own.ctx, cancel)()

	for _, tier := range []component.Tier{component.TierStore, component.TierServer} {
		if err := own.sup.StartTier(ctx, tier); err != nil {
			return err
		}
	}
	client, err := plane.connect()
	if err != nil {
		return err
	}
	if err := own.tellVersion(ctx, client); err != nil {
		return err
	}
	installer, err := install.New(plane.RESTConfig())
	if err != nil {
		return err
	}
	if err := installer.Own(ctx); err != nil {
		return err
	}
	if err := own.populate(ctx, client, installer); err != nil {
		return err
	}
	if err := own.sup.StartTier(ctx, component.TierEverynode); err != nil {
		return err
	}
	if slices.Contains(own.options.Dialects, dialects.Kruise) {
		if err := awaitWebhooks(ctx, plane.RESTConfig()); err != nil {
			return err
		}
	}
	return own.awaitNodes(ctx, client)
}

// tellVersion prints the version of Kubernetes if it is not the default.
func (own *owner) tellVersion(ctx context.Context, client kubernetes.Interface) error {
	if own.options.Programs.Kubernetes == "" {
		return nil
	}
	version, err := versionOf(ctx, client)
	if err != nil {
		return err
	}
	own.progress("this is Kubernetes %s, from %s", version, own.options.Programs.Kubernetes)
	return nil
}

// populate starts the Kubernetes components, and at the same time installs Everynode and registers the nodes.
func (own *owner) populate(ctx context.Context, client kubernetes.Interface, installer *install.Installer) error {
	var wg sync.WaitGroup
	var startErr, installErr, nodesErr error
	wg.Go(func() { startErr = own.sup.StartTier(ctx, component.TierKubernetes) })
	wg.Go(func() { installErr = own.install(ctx, installer) })
	wg.Go(func() { nodesErr = own.fillUp(ctx, client) })
	wg.Wait()
	return errors.Join(startErr, installErr, nodesErr)
}

// Shipped returns the manifests of this version of Everynode, without the Deployment of the manager, which is a process
// on a plane. They include the roles for users, because the plugin names one of them in errors about missing rights.
func Shipped() []fs.FS {
	return []fs.FS{config.Install, config.Kruise, config.Policy, config.Dialects, config.People, config.Agent}
}

// install applies the manifests of Everynode that are useful on a plane.
func (own *owner) install(ctx context.Context, installer *install.Installer) error {
	count, err := own.apply(ctx, installer, own.options.Manifests)
	if err != nil {
		return err
	}
	n, err := own.installAgents(ctx, installer)
	if err != nil {
		return err
	}
	count += n
	own.progress("Everynode's manifests applied (%d objects)", count)
	return nil
}

// apply applies manifests of Everynode that are useful on a plane, and returns the number of objects.
func (own *owner) apply(ctx context.Context, installer *install.Installer, all []fs.FS) (int, error) {
	leaveOut := []string{"Deployment", "DaemonSet"} // the agents of real nodes are applied if there are real nodes
	if !slices.Contains(own.options.Dialects, dialects.Kruise) {
		leaveOut = append(leaveOut, "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
	}
	count := 0
	for _, manifests := range all {
		n, err := installer.Apply(ctx, manifests, leaveOut)
		if err != nil {
			return count, err
		}
		count += n
	}
	return count, nil
}

// installAgents applies the agents of real nodes. Those of simulated nodes are part of the simulation.
func (own *owner) installAgents(ctx context.Context, installer *install.Installer) (int, error) {
	if own.inputs.Real.Count == 0 || len(own.options.Manifests) == 0 {
		return 0, nil
	}
	sets, err := install.Agents{
		Image: realnode.RegistryHost + "/everynode-agent:" + own.inputs.Real.AgentTag, Label: nodes.RealLabel, OpenYurt: slices.Contains(own.options.Dialects, dialects.OpenYurt),
	}.Read(config.Agent)
	if err != nil {
		return 0, err
	}
	return len(sets), installer.ApplyAll(ctx, sets)
}

// fillUp adds the missing nodes.
func (own *owner) fillUp(ctx context.Context, client kubernetes.Interface) error {
	count, err := nodes.Count(ctx, client, own.home.IsCut)
	if err != nil {
		return err
	}
	have := count.Simulated
	keep := own.options.KeepNodes && own.home.Populated()
	if missing := own.options.Nodes - have; missing > 0 && !keep {
		version, err := versionOf(ctx, client)
		if err != nil {
			return err
		}
		if _, err := nodes.Add(ctx, client, missing, version); err != nil {
			return err
		}
		have += missing
	}
	if have > 0 {
		own.progress("%d nodes registered", have)
	}
	own.registered = have
	return own.home.MarkPopulated()
}

// shutdown ends the plane; a second caller waits for the first one.
func (own *owner) shutdown() error {
	own.stopOnce.Do(func() {
		own.cancel()
		own.stopErr = errors.Join(own.sup.Stop(), removeCgroups(own.home, own.inputs.Real.Count))
		if own.control != nil {
			own.stopErr = errors.Join(own.stopErr, own.control.Close())
		}
		own.stopErr = errors.Join(own.stopErr, own.ports.Release(), own.lock.Unlock())
		close(own.done)
	})
	return own.stopErr
}

// Components implements control.Plane.
func (own *owner) Components(context.Context) ([]supervisor.Status, error) {
	return own.sup.Status(), nil
}

// KillComponent implements control.Plane.
func (own *owner) KillComponent(_ context.Context, name string) error { return own.sup.Kill(name) }

// StartComponent implements control.Plane.
func (own *owner) StartComponent(ctx context.Context, name string) error {
	if name == component.APIServer && !runs(own.sup.Status(), component.Etcd) {
		return notRunning(component.Etcd)
	}
	return own.sup.Start(ctx, name)
}

// Down implements control.Plane. It returns immediately, because the control socket is closed with the plane.
func (own *owner) Down(context.Context) error {
	own.cancel()
	go func() { _ = own.shutdown() }()
	return nil
}
