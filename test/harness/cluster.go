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

// Controller is who looks after DaemonSets on a cluster.
type Controller string

// The controllers.
const (
	Everynode Controller = "everynode" // everynode-manager with the native dialect
	Native    Controller = "native"    // upstream's controller in a process of its own
)

// Names of components of a plane that tests kill and start.
const (
	ManagerComponent = "manager"
	NativeComponent  = "native-controller"
)

const (
	controllerVariable = "EVERYNODE_E2E_CONTROLLER"
	binVariable        = "EVERYNODE_BIN"
)

// ControllerUnderTest is the controller that the environment chooses.
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

// BinDir is the directory of the binaries under test.
func BinDir() string {
	if dir := os.Getenv(binVariable); dir != "" {
		return dir
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "bin")
}

// checkBinaries says which binary is missing and how to get it.
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
	// RealNodes is how many nodes there are with a kubelet and a containerd of their own.
	RealNodes int
	// Controller looks after the DaemonSets of apps/v1; without one nobody does.
	Controller Controller
	// Managers is the number of manager processes; 0 means one. It says nothing to the native controller.
	Managers int
	// ManagerArgs are further arguments of each manager.
	ManagerArgs []string
	// Manager is the program of the managers; empty means that of BinDir. It may be a link, which each new process follows.
	Manager string
	// Manifests are what is installed of Everynode; nil means those of this version.
	Manifests []fs.FS
	// Advanced makes the managers serve Advanced DaemonSets too.
	Advanced bool
	// Edge makes the managers read the annotations of OpenYurt too; beside the native controller there is a manager that does nothing else.
	Edge bool
	// Sim is how long things take on the nodes; nil is long enough for a controller to be caught acting too early.
	Sim *simkubelet.Profile
	// Grace is how long a node may be silent before it is NotReady; 0 is the plane's own choice.
	Grace time.Duration
	// AuditWrites makes the API server keep a log of who has written what (Plane.AuditLog).
	AuditWrites bool
	// BoundByHand are the roles (RoleName) that tests bind to the managers, besides those that these are shipped with.
	BoundByHand []string
}

// Cluster is a running plane.
type Cluster struct {
	Plane      *localplane.Plane
	Client     kubernetes.Interface
	Config     *rest.Config
	Controller Controller
	edge       bool
	// Dynamic is a client for Advanced DaemonSets; nil if the plane does not serve them.
	Dynamic dynamic.Interface

	dir string
	// managed is whether there are managers, and boundByHand what tests bind to them.
	managed     bool
	boundByHand []string

	mu   sync.Mutex
	free []string // nodes that no space has
}

// UserAgent is what the tests' own clients call themselves.
const UserAgent = "everynode-test"

// clientQPS keeps the tests' own client from being the bottleneck.
const clientQPS = 500

// Start brings up a plane in a new temporary directory.
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
		Plane: plane, Controller: options.Controller, edge: options.Edge, dir: dir, managed: options.managed(), boundByHand: options.BoundByHand,
	}
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(err, plane.Stop(ctx))
	}
	if options.Advanced {
		if c.Dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
			return nil, errors.Join(fmt.Errorf("making a client of the plane: %w", err), plane.Stop(ctx))
		}
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

// dialects are those that the managers serve; without any there is no manager.
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
	if served == nil {
		return []string{localplane.NoDialects}
	}
	return served
}

// managed is whether there are managers.
func (o Options) managed() bool { return !slices.Equal(o.dialects(), []string{localplane.NoDialects}) }

// simulated is how long things take on the nodes: long enough for a controller to be caught acting too early.
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

// Stop stops the plane. Its directory is kept when the tests failed, for the logs in it. They have failed as well if the programs on the plane had other
// rights than those that they are shipped with (StopPlane).
func (c *Cluster) Stop(failed bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stop := StopPlane
	if failed || !c.managed { // a test that has failed may have left anything, and where the plane has no managers, a test may install them
		stop = stopLogged
	}
	err := stop(ctx, c.Plane, c.boundByHand...)
	if failed || err != nil {
		fmt.Fprintf(os.Stderr, "the plane's logs are kept in %s\n", filepath.Join(c.dir, "logs"))
		return err
	}
	return os.RemoveAll(c.dir)
}

// StopPlane stops a plane, and fails if its programs had other rights than those that they are shipped with and byHand names (CheckBindings), or were
// refused what these do not allow (CheckLogs).
func StopPlane(ctx context.Context, plane *localplane.Plane, byHand ...string) error {
	return errors.Join(CheckBindings(ctx, plane, byHand...), stopLogged(ctx, plane))
}

// stopLogged stops a plane, and reads its logs.
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

// Kubectl runs kubectl against the plane, as a user of it would, and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"kubectl", "--dir", c.dir}, args...)
	out, err := exec.CommandContext(ctx, filepath.Join(BinDir(), "localplane"), args...).CombinedOutput()
	return string(out), err
}

// Log is what a component has printed so far.
func (c *Cluster) Log(component string) string {
	raw, err := os.ReadFile(filepath.Join(c.dir, "logs", component+".log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// LogTails are the last lines of the controller under test, for a failure.
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
