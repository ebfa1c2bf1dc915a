// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/localplane"
)

// Hand is a controller that a test can start and kill: the plane's own, or another one.
type Hand struct {
	Controller Controller
	// Start starts it and returns when the process runs. Kill kills it and returns when it has ended.
	Start, Kill func(t testing.TB)
	// Log returns its log.
	Log func() string
}

// Hands returns the plane's controller, which is running, and the other one, which is not. The other one is killed when
// the test ends.
func (c *Cluster) Hands(t testing.TB) map[Controller]Hand {
	t.Helper()
	own, component := c.Controller, ManagerComponent
	if own == Native {
		component = NativeComponent
	}
	mine := Hand{
		Controller: own,
		Start:      func(t testing.TB) { t.Helper(); c.StartComponent(t, component) },
		Kill:       func(t testing.TB) { t.Helper(); c.Kill(t, component) },
		Log:        func() string { return c.Log(component) },
	}
	other := c.otherHand(t)
	return map[Controller]Hand{mine.Controller: mine, other.Controller: other}
}

// otherHand runs the controller that the plane does not have as a process of the test: upstream's with the
// administrator's rights, Everynode's with the rights of its manifests, which every plane binds to the first manager.
func (c *Cluster) otherHand(t testing.TB) Hand {
	t.Helper()
	controller, program := Native, filepath.Join(BinDir(), "localplane")
	args := []string{"component-run", "native-controller", "--controllers=daemonset", "--leader-elect=false", "--secure-port=0",
		"--kubeconfig=" + c.Plane.Kubeconfig()}
	if dir := os.Getenv(localplane.EnvKubernetes); dir != "" { // as on the plane
		program, args = filepath.Join(dir, "kube-controller-manager"), args[2:]
	}
	if c.Controller == Native {
		controller, program = Everynode, filepath.Join(BinDir(), "everynode-manager")
		args = []string{"--dialects=native", "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
			"--kubeconfig=" + c.Plane.ManagerKubeconfig(ManagerComponent)}
	}
	log := filepath.Join(c.dir, "logs", "other-"+string(controller)+".log")
	var process *tied
	kill := func(testing.TB) {
		if process != nil {
			process.kill()
			process = nil
		}
	}
	t.Cleanup(func() { kill(t) })
	return Hand{
		Controller: controller,
		Start: func(t testing.TB) {
			t.Helper()
			if controller == Everynode {
				c.makeNamespace(t, everynode.Namespace)
			}
			var err error
			if process, err = startLogged(exec.Command(program, args...), log); err != nil {
				t.Fatalf("starting %s: %v", program, err)
			}
		},
		Kill: kill,
		Log: func() string {
			raw, err := os.ReadFile(log)
			if err != nil {
				return err.Error()
			}
			return string(raw)
		},
	}
}

// RunManager runs an additional manager as a process of the test, until the test ends. It has no metrics and no health
// port.
func (c *Cluster) RunManager(t testing.TB, args ...string) {
	t.Helper()
	args = append([]string{"--namespace=" + everynode.Namespace, "--metrics-bind-address=0", "--health-probe-bind-address=0"}, args...)
	process, err := startLogged(exec.Command(filepath.Join(BinDir(), "everynode-manager"), args...), filepath.Join(c.dir, "logs", "own-manager.log"))
	if err != nil {
		t.Fatalf("starting a manager: %v", err)
	}
	t.Cleanup(process.kill)
}

func startLogged(command *exec.Cmd, log string) (*tied, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening its log: %w", err)
	}
	defer file.Close()
	command.Stdout, command.Stderr = file, file
	return startTied(command)
}

func (c *Cluster) makeNamespace(t testing.TB, name string) {
	t.Helper()
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("creating namespace %s: %v", name, err)
	}
}

// Instead is a process that runs in place of a component of the plane.
type Instead struct {
	process *tied
	log     string
}

// RunInstead kills a component, and runs its program as a process of the test with more arguments, until the test ends. The component stays down until it is started.
func (c *Cluster) RunInstead(t testing.TB, component string, args ...string) *Instead {
	t.Helper()
	proc := func(name string) []string {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.component(t, component).PID, name))
		if err != nil {
			t.Fatalf("looking how %s was started: %v", component, err)
		}
		return strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
	}
	command := exec.Command(c.Program(t, component), append(proc("cmdline")[1:], args...)...)
	command.Env = proc("environ")
	c.Kill(t, component)
	log := filepath.Join(c.dir, "logs", "instead-of-"+component+".log")
	process, err := startLogged(command, log)
	if err != nil {
		t.Fatalf("starting %s: %v", command.Path, err)
	}
	t.Cleanup(process.kill)
	return &Instead{process, log}
}

// Log returns its log.
func (i *Instead) Log() string {
	raw, err := os.ReadFile(i.log)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Terminate asks it to end, as a kubelet asks a container, and returns when it has ended.
func (i *Instead) Terminate(t testing.TB) {
	t.Helper()
	if err := i.process.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("asking the process to end: %v", err)
	}
	select {
	case <-i.process.ended:
	case <-time.After(Patience):
		t.Fatalf("it does not end in %s\n%s", Patience, i.Log())
	}
}
