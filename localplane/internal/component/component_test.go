// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"everynode.dev/everynode/localplane/internal/home"
)

func testInputs(t *testing.T) Inputs {
	t.Helper()
	h, err := home.At(filepath.Join(t.TempDir(), "plane"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	in := Inputs{
		Home: h, Self: "/bin/localplane", ManagerBinary: "/bin/everynode-manager",
		Clients:          ClientLimits{QPS: 7, Burst: 8},
		Nodes:            NodeTiming{Grace: 16 * time.Second, Lease: 10 * time.Second},
		NativeController: true,
		Managers:         Managers{Count: 2, Dialects: []string{"native", "kruise"}, Args: []string{"--v=4"}},
	}
	in.Ports = ports(t, PortNames(in), nil)
	return in
}

// ports are those of a plane that is over.
func ports(t *testing.T, names []string, last map[string]int) map[string]int {
	t.Helper()
	chosen, reserved, err := ChoosePorts(names, last)
	if err == nil {
		err = reserved.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

func named(t *testing.T, list []Component, name string) Component {
	t.Helper()
	i := slices.IndexFunc(list, func(c Component) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return list[i]
}

func TestTiersComeInOrder(t *testing.T) {
	list := All(testInputs(t))
	if !slices.IsSortedFunc(list, func(a, b Component) int { return int(a.Tier - b.Tier) }) {
		t.Error("a component comes before one of an earlier tier")
	}
	if named(t, list, Etcd).Tier >= named(t, list, APIServer).Tier {
		t.Error("etcd would stop before the API server")
	}
}

func TestStoppingTakesLessThanTenSeconds(t *testing.T) {
	slowest := map[Tier]time.Duration{}
	for _, c := range All(realInputs(t)) {
		if c.StopGrace <= 0 {
			t.Errorf("%s is killed at once", c.Name)
		}
		slowest[c.Tier] = max(slowest[c.Tier], c.StopGrace)
	}
	var sum time.Duration
	for _, d := range slowest {
		sum += d
	}
	if sum > 9*time.Second {
		t.Errorf("stopping may take %s", sum)
	}
}

func TestNothingListensBeyondLoopback(t *testing.T) {
	in := testInputs(t)
	for _, c := range All(in) {
		for _, arg := range c.Args {
			flag, value, _ := strings.Cut(arg, "=")
			if strings.Contains(flag, "bind-address") && !strings.HasPrefix(value, Loopback) {
				t.Errorf("%s: %s", c.Name, arg)
			}
			if strings.Contains(flag, "urls") && !strings.HasPrefix(value, "https://"+Loopback) {
				t.Errorf("%s: %s", c.Name, arg)
			}
		}
	}
	args := named(t, All(in), APIServer).Args
	for _, want := range []string{"--anonymous-auth=false", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"} {
		if !slices.Contains(args, want) {
			t.Errorf("the API server runs without %s", want)
		}
	}
}

func TestNativeControllerIsAProcessOfItsOwn(t *testing.T) {
	in := testInputs(t)
	list := All(in)
	if args := named(t, list, ControllerManager).Args; !slices.Contains(args, "--controllers=*,-daemonset") {
		t.Errorf("kube-controller-manager runs the daemonset controller: %v", args)
	}
	if args := named(t, list, NativeController).Args; !slices.Contains(args, "--controllers=daemonset") {
		t.Errorf("native-controller runs others: %v", args)
	}
	in.NativeController = false
	if slices.ContainsFunc(All(in), func(c Component) bool { return c.Name == NativeController }) {
		t.Error("the native controller runs without having been asked for")
	}
}

func TestKubernetesOfAnotherVersion(t *testing.T) {
	in := testInputs(t)
	own := All(in)
	in.Kubernetes = "/opt/older"
	list := All(in)
	for name, program := range map[string]string{
		APIServer: APIServer, ControllerManager: ControllerManager, NativeController: ControllerManager, Scheduler: Scheduler,
	} {
		was, is := named(t, own, name), named(t, list, name)
		if was.Path != in.Self || was.Args[0] != RunVerb {
			t.Errorf("%s of this version is %s %v", name, was.Path, was.Args)
		}
		if want := "/opt/older/" + program; is.Path != want || !slices.Contains(KubernetesPrograms(), program) {
			t.Errorf("%s is %s, want %s", name, is.Path, want)
		}
		if want := was.Args[2:]; len(is.Args) < len(want) || !slices.Equal(is.Args[:len(want)], want) {
			t.Errorf("%s runs with %v, want %v", name, is.Args, want)
		}
	}
	for _, name := range []string{Etcd, Kwok} {
		if was, is := named(t, own, name), named(t, list, name); is.Path != in.Self || !slices.Equal(is.Args, was.Args) {
			t.Errorf("%s is %s %v", name, is.Path, is.Args)
		}
	}
}

func TestManagersDiffer(t *testing.T) {
	in := testInputs(t)
	first, second := named(t, All(in), "manager"), named(t, All(in), "manager-2")
	if first.Ready.URL == second.Ready.URL {
		t.Error("both managers have the same health address")
	}
	for _, want := range []string{
		"--dialects=native,kruise", "--leader-elect", "--kube-api-qps=7", "--kube-api-burst=8",
		"--v=4",
	} {
		if !slices.Contains(first.Args, want) || !slices.Contains(second.Args, want) {
			t.Errorf("a manager runs without %s", want)
		}
	}
}

func TestCredentials(t *testing.T) {
	in := testInputs(t)
	if err := IssueCredentials(in); err != nil {
		t.Fatal(err)
	}
	for name := range clients(in) {
		path := in.KubeconfigFile(name)
		if name == AdminClient {
			path = in.Home.Kubeconfig()
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("https://127.0.0.1:%d", in.Ports[APIServer]); config.Host != want {
			t.Errorf("%s leads to %s, want %s", name, config.Host, want)
		}
	}
	// Every file that a command line names is there.
	for _, c := range All(in) {
		for _, arg := range c.Args {
			_, value, _ := strings.Cut(arg, "=")
			if strings.HasPrefix(value, in.Home.PKI()) {
				if _, err := os.Stat(value); err != nil {
					t.Errorf("%s: %s: %v", c.Name, arg, err)
				}
			}
		}
	}
}

func TestPortsAreKeptWhileTheyAreFree(t *testing.T) {
	names := PortNames(Inputs{NativeController: true, Managers: Managers{Count: 1}, Real: Real{Count: 1}})
	first := ports(t, names, nil)
	distinct := map[int]bool{}
	for _, port := range first {
		distinct[port] = true
	}
	if len(distinct) != len(names) {
		t.Errorf("%d ports for %d purposes", len(distinct), len(names))
	}
	busy := first[APIServer]
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", Loopback, busy))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	second := ports(t, names, first)
	for _, name := range names {
		if kept := second[name] == first[name]; kept == (name == APIServer) {
			t.Errorf("%s: port %d before, %d after", name, first[name], second[name])
		}
	}
	// Two purposes that were given the same port get different ones.
	third := ports(t, []string{Etcd, PortEtcdPeer}, map[string]int{Etcd: first[Etcd], PortEtcdPeer: first[Etcd]})
	if third[Etcd] == third[PortEtcdPeer] {
		t.Errorf("ports %v", third)
	}
}

// TestPlanesHaveDifferentPorts: also when both are chosen before anything listens.
func TestPlanesHaveDifferentPorts(t *testing.T) {
	names := []string{Etcd, APIServer}
	first, reserved, err := ChoosePorts(names, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, port := range ports(t, names, first) {
		if port == first[Etcd] || port == first[APIServer] {
			t.Errorf("both planes have port %d, the second for %s", port, name)
		}
	}
	if err := reserved.Release(); err != nil {
		t.Fatal(err)
	}
	for name, port := range ports(t, names, first) {
		if port != first[name] {
			t.Errorf("%s has port %d, and not %d, which was given back", name, port, first[name])
		}
	}
}
