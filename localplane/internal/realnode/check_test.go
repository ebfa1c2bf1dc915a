// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/config"
)

func TestNames(t *testing.T) {
	for _, n := range []int{1, 9, 42, Max} {
		if got, ok := Number(Name(n)); !ok || got != n {
			t.Errorf("Number(Name(%d)) = %d, %v", n, got, ok)
		}
	}
	for _, bad := range []string{"", "real-", "real-0", "real--1", "real-01", "real-+1", "real-101", "real-1-kubelet", "node-1", "1"} {
		if n, ok := Number(bad); ok {
			t.Errorf("%q is said to be the name of real node %d", bad, n)
		}
	}
	if got := [...]string{Name(1), Address(1), PodCIDR(1), Address(Max), PodCIDR(Max)}; got !=
		[...]string{"real-1", "10.77.0.11", "10.78.1.0/24", "10.77.0.110", "10.78.100.0/24"} {
		t.Errorf("names and addresses: %v", got)
	}
}

func TestParseMajor(t *testing.T) {
	for text, want := range map[string]int{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u2\n":                  1,
		"containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376": 2,
		"containerd github.com/containerd/containerd v1.7.28-rc.1 abc":                                   1,
		"containerd github.com/containerd/containerd v1.6.0 abc":                                         1,
		"containerd v2.4.2 abc": 2,
	} {
		if got, err := parseMajor(text); err != nil || got != want {
			t.Errorf("parseMajor(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "containerd", "containerd github.com/containerd/containerd/v2 unknown", "containerd x v3.0.0 y", "containerd x v1.5.18 y",
		"runc version 1.1.5\n", "nftables v1.0.6 (Lester Gooch #5)"} {
		if got, err := parseMajor(bad); err == nil {
			t.Errorf("parseMajor(%q) = %d", bad, got)
		}
	}
}

func TestTooOld(t *testing.T) {
	for release, want := range map[string]bool{
		"6.18.44": false, "5.13.0-1-amd64": false, "5.12.19": true, "4.19.0-27-amd64": true, "5.10.0-35-cloud-amd64": true, "strange": false,
	} {
		if got := tooOld(release); got != want {
			t.Errorf("tooOld(%q) = %v", release, got)
		}
	}
}

func TestTooManyInstancesOfInotify(t *testing.T) {
	if !canWatch(0) || canWatch(1<<20) {
		t.Errorf("none: %v, a million: %v", canWatch(0), canWatch(1<<20))
	}
	missing := &MissingError{}
	checkDevices(Max*1000, missing)
	if !strings.Contains(missing.Error(), "sysctl -w fs.inotify.max_user_instances=") {
		t.Errorf("no remedy: %v", missing)
	}
}

func TestHidden(t *testing.T) {
	for path, want := range map[string]bool{
		"/run": true, "/run/x": true, "/var/lib/x/": true, "/var/lib/../lib/x": true,
		"/running": false, "/var/library": false, "/var/log": false, "/home/run/var/lib": false, "/": false,
	} {
		if got := hidden(path); got != want {
			t.Errorf("hidden(%q) = %v", path, got)
		}
	}
}

// What the agent keeps on its node has to be there when the node comes back from a loss of power.
func TestTheDiskHoldsWhatTheAgentKeeps(t *testing.T) {
	manifest, err := config.Agent.ReadFile("agent/30-daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	paths := regexp.MustCompile(`hostPath: {path: ([^,}]+)`).FindAllStringSubmatch(string(manifest), -1)
	if len(paths) == 0 {
		t.Fatal("the DaemonSet of the agent has no paths of the node")
	}
	for _, path := range paths {
		kept := slices.ContainsFunc(diskMounts(), func(m diskMount) bool { return m.target == path[1] })
		if !kept && !strings.HasPrefix(path[1], runDir+"/") {
			t.Errorf("%s of the node is lost when it is killed", path[1])
		}
	}
}

func TestCheckListsEverythingThatIsMissing(t *testing.T) {
	dir := t.TempDir()
	_, err := Check(CheckOptions{Home: filepath.Join(dir, "home"), Containerd: filepath.Join(dir, "containerd"), Node: filepath.Join(dir, "node"), Built: []string{filepath.Join(dir, "pause")}})
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("Check: %v", err)
	}
	if !strings.HasPrefix(err.Error(), "real nodes need what is missing here:\n  - ") {
		t.Errorf("the error is %q", err)
	}
	for _, want := range []string{"containerd at " + dir, "--containerd PATH", "the program " + dir + "/node: make build-real", "the program " + dir + "/pause: make build-real"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %q in: %v", want, err)
		}
	}
	if exists(filepath.Join(dir, "home")) {
		t.Error("checking made the home")
	}
}

func TestFindingProgramsNamesWhatToInstall(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	missing := &MissingError{}
	if path := find("no-such-program", "apt-get install it", missing); path != "" {
		t.Errorf("found %q", path)
	}
	if want := []Missing{{"no-such-program", "apt-get install it"}}; !slices.Equal(missing.Missing, want) {
		t.Errorf("missing %v, want %v", missing.Missing, want)
	}
	containerd := writeProgram(t, dir, "containerd", "containerd x v2.1.4 y")
	// Its shim has to be beside it, whatever there is elsewhere.
	missing = &MissingError{}
	if got := findContainerd(CheckOptions{Containerd: containerd}, missing); got != containerd || len(missing.Missing) != 1 {
		t.Errorf("containerd %q without a shim beside it: %v", got, missing.Missing)
	}
	writeProgram(t, dir, "containerd-shim-runc-v2", "")
	missing = &MissingError{}
	if got := findContainerd(CheckOptions{}, missing); got != containerd || len(missing.Missing) != 0 {
		t.Errorf("containerd of the PATH: %q, %v", got, missing.Missing)
	}
	if major, err := containerdMajor(containerd); err != nil || major != 2 {
		t.Errorf("major version %d, %v", major, err)
	}
}

func TestDirsOfPrograms(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	target := writeProgram(t, elsewhere, "containerd", "")
	link := filepath.Join(dir, "containerd")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	p := Programs{Containerd: link, Runc: "/nowhere/bin/runc", Node: filepath.Join(dir, "node"), CNIDir: "/nowhere/cni/"}
	want := []string{dir, elsewhere, "/nowhere/bin", "/nowhere/cni"}
	slices.Sort(want)
	if got := p.Dirs(); !slices.Equal(got, want) {
		t.Errorf("directories %v, want %v", got, want)
	}
}

func writeProgram(t *testing.T, dir, name, says string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\necho '%s'\n", says), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCheckAgreesWithTheMachine runs where nodes can work, and then finds all that they are made of.
func TestCheckAgreesWithTheMachine(t *testing.T) {
	before := lookAtMachine(t)
	home := t.TempDir()
	// A check that was killed has left this.
	if err := os.MkdirAll(filepath.Join(home, "."+checkName, "upper/x"), 0o700); err != nil {
		t.Fatal(err)
	}
	programs, err := Check(CheckOptions{Home: home, Node: os.Args[0]})
	before.expectSame(t)
	if h, err := readHierarchies(); err == nil {
		for _, root := range h.roots {
			if left := filepath.Join(root, checkName); exists(left) {
				t.Errorf("the check left the cgroup %s", left)
			}
		}
	}
	if err != nil {
		var missing *MissingError
		if !errors.As(err, &missing) || len(missing.Missing) == 0 {
			t.Fatalf("Check: %v", err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
		t.Errorf("the check left in the home: %v, %v", entries, err)
	}
	for _, path := range []string{programs.Containerd, programs.Runc, programs.Nft, programs.Node, filepath.Join(programs.CNIDir, "ptp")} {
		if !filepath.IsAbs(path) || !isProgram(path) {
			t.Errorf("found %q, which is no program: %+v", path, programs)
		}
	}
	if programs.ContainerdMajor < 1 || (programs.Snapshotter != snapshotterOverlay && programs.Snapshotter != snapshotterNative) {
		t.Errorf("found %+v", programs)
	}
	t.Logf("%+v", programs)
}
