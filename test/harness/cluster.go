// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/simkubelet"
)

// Controller is the controller of the DaemonSets of a cluster.
type Controller string

// The controllers.
const (
	Everynode Controller = "everynode" // everynode-manager with the native dialect
	Native    Controller = "native"    // upstream's controller in its own process
)

// Names of components that tests kill and start.
const (
	ManagerComponent = "manager"
	NativeComponent  = "native-controller"
)

const (
	controllerVariable = "EVERYNODE_E2E_CONTROLLER"
	binVariable        = "EVERYNODE_BIN"
)

// ControllerUnderTest returns the controller that the environment selects.
func ControllerUnderTest() (Controller, error) {
	switch c := Controller(os.Getenv(controllerVariable)); c {
	case "":
		return Everynode, nil
	case Everynode, Native:
		return c, nil
	default:
		return "", fmt.Errorf("%s is %q: set it to %s or %s, or leave it out", controllerVariable, c, Everynode, Native)
	}
}

// BinDir returns the directory of the binaries under test.
func BinDir() string {
	if dir := os.Getenv(binVariable); dir != "" {
		return dir
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "bin")
}

// checkBinaries returns an error for a missing binary, with the remedy.
func checkBinaries(options Options) error {
	names := []string{"localplane"}
	if options.managed() {
		names = append(names, "everynode-manager")
	}
	for _, name := range names {
		if _, err := binary(name); err != nil {
			return err
		}
	}
	return nil
}

// binary is the path of a binary under test.
func binary(name string) (string, error) {
	path := filepath.Join(BinDir(), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not there: run `make build`, or set %s to the directory of the binaries", path, binVariable)
	}
	return path, nil
}

// Options say what cluster a test wants.
type Options struct {
	Nodes int
	// RealNodes is the number of nodes with their own kubelet and containerd.
	RealNodes int
	// Controller reconciles the DaemonSets of apps/v1; empty means no controller.
	Controller Controller
	// Managers is the number of manager processes; 0 means one. It does not apply to the native controller.
	Managers int
	// ManagerArgs are additional arguments of each manager.
	ManagerArgs []string
	// Manager is the program of the managers; empty means that of BinDir. It may be a symbolic link, which each new
	// process resolves.
	Manager string
	// Manifests are the manifests of Everynode; nil means those of this version, and an empty list a cluster without Everynode and its agents.
	Manifests []fs.FS
	// Advanced makes the managers serve Advanced DaemonSets too.
	Advanced bool
	// Edge makes the managers serve OpenYurt's annotations too; with the native controller, there is a manager that does
	// only that.
	Edge bool
	// Sim are the delays of the nodes; nil means delays that are long enough to detect a controller that acts too early.
	Sim *simkubelet.Profile
	// Grace is the time without heartbeats after which a node is NotReady; 0 means the default of the plane.
	Grace time.Duration
	// AuditWrites enables an audit log of all writes (Plane.AuditLog).
	AuditWrites bool
	// Alongside makes the managers serve rollout policies next to the controller that keeps the pods.
	Alongside bool
	// BoundByHand are the roles (RoleName) that tests bind to the managers, in addition to those of the manifests.
	BoundByHand []string
}

// Cluster is a running plane.
type Cluster struct {
	Plane          *localplane.Plane
	Client         kubernetes.Interface
	Config         *rest.Config
	Controller     Controller
	advanced, edge bool
	// Dynamic is a client for Advanced DaemonSets, if the plane serves them, and for rollout policies.
	Dynamic dynamic.Interface

	dir string
	// managed reports whether there are managers, and boundByHand are the roles that tests bind to them.
	managed     bool
	boundByHand []string

	mu   sync.Mutex
	free []string // nodes that belong to no space
}

// UserAgent is the user agent of the tests' own clients.
const UserAgent = "everynode-test"

// clientQPS is high enough that the tests' own client is not the bottleneck.
const clientQPS = 500

// Start starts a plane in a new temporary directory.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := checkBinaries(options); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "everynode-test-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the plane: %w", err)
	}
	plane, err := localplane.Start(ctx, planeOptions(dir, options))
	if err != nil {
		return nil, fmt.Errorf("starting a plane in %s: %w", dir, err)
	}
	c := &Cluster{
		Plane: plane, Controller: options.Controller, advanced: options.Advanced, edge: options.Edge, dir: dir, managed: options.managed(), boundByHand: options.BoundByHand,
	}
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(err, plane.Stop(ctx))
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
		return nil, errors.Join(fmt.Errorf("making a client of the plane: %w", err), plane.Stop(ctx))
	}
	return c, nil
}

func planeOptions(dir string, o Options) localplane.Options {
	options := localplane.Options{
		Dir: dir, Nodes: o.Nodes, RealNodes: o.RealNodes, Sim: o.Sim, Kubernetes: localplane.Kubernetes{NodeMonitorGracePeriod: o.Grace, AuditWrites: o.AuditWrites}, Dialects: o.dialects(),
		NativeController: o.Controller == Native, Manager: localplane.Manager{Count: max(o.Managers, 1), Args: o.ManagerArgs},
		Manifests: o.Manifests,
		Programs: localplane.Programs{
			Localplane: filepath.Join(BinDir(), "localplane"),
			Manager:    cmp.Or(o.Manager, filepath.Join(BinDir(), "everynode-manager")),
		},
	}
	if o.Sim == nil {
		options.Sim = simulated()
	}
	return options
}

// dialects returns the dialects of the managers; without any there is no manager.
func (o Options) dialects() []string {
	var served []string
	if o.Controller == Everynode {
		served = append(served, "native")
	}
	if o.Edge {
		served = append(served, "openyurt")
	}
	if o.Advanced {
		served = append(served, "kruise")
	}
	if o.Alongside {
		served = append(served, "policy")
	}
	if served == nil {
		return []string{localplane.NoDialects}
	}
	return served
}

// managed reports whether there are managers.
func (o Options) managed() bool { return !slices.Equal(o.dialects(), []string{localplane.NoDialects}) }

// simulated returns delays that are long enough to detect a controller that acts too early.
func simulated() *simkubelet.Profile {
	profile := simkubelet.Realistic()
	profile.ImagePull = 500 * time.Millisecond
	return &profile
}

func (c *Cluster) connect(ctx context.Context) error {
	c.Config = c.Plane.RESTConfig()
	c.Config.QPS, c.Config.Burst = clientQPS, clientQPS
	c.Config.UserAgent = UserAgent
	c.Config.ContentType = "application/vnd.kubernetes.protobuf"
	c.Config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	var err error
	c.Client, err = kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client of the plane: %w", err)
	}
	return c.adoptNodes(ctx)
}

// Stop stops the plane. Its directory is kept if the tests failed, for its logs. They also fail if the programs of the
// plane had other rights than those of the manifests (StopPlane).
func (c *Cluster) Stop(failed bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stop := StopPlane
	if failed || !c.managed { // a failed test may have left anything; on a plane without managers, a test may install them
		stop = stopLogged
	}
	err := stop(ctx, c.Plane, c.boundByHand...)
	if failed || err != nil {
		fmt.Fprintf(os.Stderr, "the plane's logs are kept in %s\n", filepath.Join(c.dir, "logs"))
		return err
	}
	return os.RemoveAll(c.dir)
}

// StopPlane stops a plane, and returns an error if its programs had other rights than those of the manifests and byHand
// (CheckBindings), or were denied calls that these do not allow (CheckLogs).
func StopPlane(ctx context.Context, plane *localplane.Plane, byHand ...string) error {
	return errors.Join(CheckBindings(ctx, plane, byHand...), stopLogged(ctx, plane))
}

// stopLogged stops a plane, and checks its logs.
func stopLogged(ctx context.Context, plane *localplane.Plane, _ ...string) error {
	if err := plane.Stop(ctx); err != nil {
		return fmt.Errorf("stopping the plane in %s: %w", plane.Dir(), err)
	}
	return CheckLogs(plane.Dir())
}

// Kill ends a component with SIGKILL.
func (c *Cluster) Kill(t testing.TB, component string) {
	t.Helper()
	if err := c.Plane.KillComponent(t.Context(), component); err != nil {
		t.Fatalf("killing %s: %v", component, err)
	}
}

// StartComponent starts a component that was killed, and waits until it is ready.
func (c *Cluster) StartComponent(t testing.TB, component string) {
	t.Helper()
	if err := c.Plane.StartComponent(t.Context(), component); err != nil {
		t.Fatalf("starting %s: %v\n%s", component, err, c.logTail(component))
	}
}

// Kubectl runs kubectl against the plane, and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"kubectl", "--dir", c.dir}, args...)
	out, err := exec.CommandContext(ctx, filepath.Join(BinDir(), "localplane"), args...).CombinedOutput()
	return string(out), err
}

// Log returns the log of a component.
func (c *Cluster) Log(component string) string {
	raw, err := os.ReadFile(filepath.Join(c.dir, "logs", component+".log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// LogTails returns the last log lines of the controller under test.
func (c *Cluster) LogTails() string {
	if c.Controller == Native && !c.edge {
		return c.logTail(NativeComponent)
	}
	return c.logTail(ManagerComponent)
}

func (c *Cluster) logTail(component string) string {
	const length = 15
	lines := strings.Split(strings.TrimSpace(c.Log(component)), "\n")
	return fmt.Sprintf("the last lines of %s:\n%s\n", component, strings.Join(lines[max(0, len(lines)-length):], "\n"))
}
