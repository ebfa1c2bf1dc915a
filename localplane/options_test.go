// SPDX-License-Identifier: Apache-2.0

package localplane

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/simkubelet"
)

func TestMistakesAreReportedWithTheRemedy(t *testing.T) {
	bad := simkubelet.Realistic()
	bad.PodStop = -1
	for _, tc := range []struct {
		name    string
		options Options
		names   []string
	}{
		{"negative nodes", Options{Nodes: -1}, []string{"--nodes", "-1"}},
		{"too many nodes", Options{Nodes: 1 << 20}, []string{"--nodes"}},
		{"negative real nodes", Options{RealNodes: -1}, []string{"--real-nodes", "-1"}},
		{"too many real nodes", Options{RealNodes: 101}, []string{"--real-nodes", "101", "100"}},
		{"latency", Options{Real: RealNodes{RegistryLatency: -1}}, []string{"--registry-latency"}},
		{"unknown dialect", Options{Dialects: []string{"klingon"}}, []string{"klingon", "native, kruise, openyurt, policy, or none"}},
		{"none and another", Options{Dialects: []string{"none", "native"}}, []string{`"none"`, "alone"}},
		{"native twice", Options{NativeController: true}, []string{"--native-controller", "--dialects openyurt", "--dialects none"}},
		{"native by name", Options{NativeController: true, Dialects: []string{"native", "openyurt"}}, []string{"--native-controller"}},
		{"port", Options{APIPort: 70000}, []string{"--api-port", "70000"}},
		{"qps", Options{Kubernetes: Kubernetes{QPS: -5}}, []string{"--kubernetes-qps", "-5"}},
		{"grace", Options{Kubernetes: Kubernetes{NodeMonitorGracePeriod: time.Second}}, []string{"--node-monitor-grace-period", "4s"}},
		{"managers", Options{Manager: Manager{Count: -2}}, []string{"--managers", "-2"}},
		{"delay", Options{Sim: &bad}, []string{"--sim-pod-stop"}},
	} {
		err := tc.options.withDefaults().validate()
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: error %v is not one of usage", tc.name, err)
			continue
		}
		for _, name := range tc.names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%s: error %q does not name %s", tc.name, err, name)
			}
		}
	}
}

func TestDialects(t *testing.T) {
	for _, tc := range []struct {
		name     string
		options  Options
		dialects []string
		managers int
	}{
		{"left out", Options{}, DefaultDialects(), 1},
		{"none", Options{Dialects: []string{"none"}}, []string{}, 0},
		{"empty", Options{Dialects: []string{}}, []string{}, 0},
		{"none with native controller", Options{Dialects: []string{"none"}, NativeController: true}, []string{}, 0},
		{"openyurt beside the native controller", Options{Dialects: []string{"openyurt"}, NativeController: true}, []string{"openyurt"}, 1},
		{"native and openyurt", Options{Dialects: []string{"native", "openyurt"}}, []string{"native", "openyurt"}, 1},
		{"two managers", Options{Manager: Manager{Count: 2}}, DefaultDialects(), 2},
		{"two managers of none", Options{Dialects: []string{"none"}, Manager: Manager{Count: 2}}, []string{}, 0},
	} {
		o := tc.options.withDefaults()
		if err := o.validate(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if !slices.Equal(o.Dialects, tc.dialects) || o.Manager.Count != tc.managers {
			t.Errorf("%s: dialects %v, %d managers", tc.name, o.Dialects, o.Manager.Count)
		}
	}
}

func TestGracePeriodGrowsWithThePlane(t *testing.T) {
	for nodes, want := range map[int]time.Duration{0: 16 * time.Second, 10: 16 * time.Second, 1000: 128 * time.Second, 5000: 640 * time.Second} {
		grace := gracePeriod(nodes)
		if grace != want {
			t.Errorf("%d nodes: grace period %s, want %s", nodes, grace, want)
		}
		lease := leaseFor(grace)
		if renewals := float64(nodes) / (lease.Seconds() / 4); renewals > 51 {
			t.Errorf("%d nodes: %.0f lease writes a second", nodes, renewals)
		}
		// Two renewals may be missed.
		if lease/4*3 > grace {
			t.Errorf("%d nodes: a lease of %s for a grace period of %s", nodes, lease, grace)
		}
	}
}

func TestProgramsAreLookedFor(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "localplane")
	missing := Programs{Localplane: path}
	if _, err := missing.find(Options{}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v names neither the program nor the remedy", err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := missing.find(Options{}); err != nil {
		t.Error(err)
	}
	if _, err := missing.find(Options{Manager: Manager{Count: 1}}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "everynode-manager")) {
		t.Errorf("error %v does not name the manager", err)
	}
	t.Setenv(EnvProgram, path)
	found, err := Programs{}.find(Options{})
	if err != nil || found.Localplane != path {
		t.Errorf("found %+v, error %v", found, err)
	}
	t.Setenv(EnvProgram, "")
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "localplane", "options.go")); err != nil {
		t.Errorf("%s is not the repository's root: %v", root, err)
	}
	t.Chdir(dir)
	if _, err := (Programs{}).find(Options{}); err == nil || !strings.Contains(err.Error(), EnvProgram) {
		t.Errorf("outside of the repository: %v", err)
	}
}

func TestProgramsOfAnotherKubernetesAreLookedFor(t *testing.T) {
	t.Setenv(EnvKubernetes, "")
	dir := t.TempDir()
	for _, name := range append(component.KubernetesPrograms(), "localplane") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	given := Programs{Localplane: filepath.Join(dir, "localplane")}
	if found, err := given.find(Options{}); err != nil || found.Kubernetes != "" {
		t.Errorf("without any: %q, error %v", found.Kubernetes, err)
	}
	t.Setenv(EnvKubernetes, dir)
	if found, err := given.find(Options{}); err != nil || found.Kubernetes != dir {
		t.Errorf("of the environment: %q, error %v", found.Kubernetes, err)
	}
	t.Setenv(EnvKubernetes, "")
	given.Kubernetes = dir
	if found, err := given.find(Options{}); err != nil || found.Kubernetes != dir {
		t.Errorf("of the options: %q, error %v", found.Kubernetes, err)
	}
	missing := filepath.Join(dir, component.Scheduler)
	if err := os.Remove(missing); err != nil {
		t.Fatal(err)
	}
	_, err := given.find(Options{})
	for _, want := range []string{missing, EnvKubernetes, "make build-kubernetes KUBE_MINOR="} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestAttachToNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	for what, err := range map[string]error{
		"attach":  func() error { _, err := Attach(dir); return err }(),
		"cleanup": func() error { _, err := CleanUp(dir); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v does not name the directory", what, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("asking for a plane made a directory")
	}
}

// TestAttachNamesAPlaneThatRuns: a user who forgets --dir reads which plane runs.
func TestAttachNamesAPlaneThatRuns(t *testing.T) {
	dir := t.TempDir()
	runs, err := home.At(filepath.Join(dir, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.Create(); err != nil {
		t.Fatal(err)
	}
	lock, err := runs.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	for what, next := range map[string]string{"next to it": dir, "the one of KUBECONFIG": t.TempDir()} {
		t.Setenv("KUBECONFIG", runs.Kubeconfig())
		if what == "next to it" {
			t.Setenv("KUBECONFIG", "")
		}
		_, err := Attach(filepath.Join(next, "default"))
		if err == nil || !strings.HasSuffix(err.Error(), "or name one that runs: --dir "+runs.Dir()) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPortInUse(t *testing.T) {
	own := &owner{options: Options{APIPort: 1 << 17}}
	if err := own.choosePorts(nil); err == nil || !strings.Contains(err.Error(), "--api-port") {
		t.Errorf("error %v does not name the flag", err)
	}
	ports, other, err := component.ChoosePorts([]string{component.APIServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own.options.APIPort = ports[component.APIServer]
	// Nobody listens there yet, but another plane is about to.
	if err := own.choosePorts(nil); err == nil || !strings.Contains(err.Error(), "--api-port") {
		t.Errorf("port %d belongs to another plane, and the error is %v", own.options.APIPort, err)
	}
	if err := other.Release(); err != nil {
		t.Fatal(err)
	}
	if err := own.choosePorts(map[string]int{component.APIServer: 1}); err != nil || own.inputs.Ports[component.APIServer] != own.options.APIPort {
		t.Errorf("chosen %v, error %v", own.inputs.Ports, err)
	}
	if err := own.ports.Release(); err != nil {
		t.Error(err)
	}
}
