// SPDX-License-Identifier: Apache-2.0

// Package upgrade tests that a manager can be replaced by the one of the next version, and by the one of the version before, in the middle of what it does.
//
// Vocabulary: a version is the programs and the manifests of one commit; the earlier one is built from the history by hack/earlier, the other one is this
// one. A site is the plane with the version that is installed on it.
//
// The rule: a recorder (package observe) watches each set from before the first change. When one version follows the other while nothing is to be done, no
// pod comes, goes or restarts; when that happens in the middle of a roll, the roll ends, within its budget, and no node is updated twice.
//
//	go test ./upgrade -run TestSmoke               a roll of a DaemonSet of apps/v1 that the other version ends, there and back
//	go test ./upgrade -run TestRolls/Advanced      one of the others
package upgrade

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

const (
	allNodes = 7
	program  = "everynode-manager"
	// first and second are the managers. Only tests of two managers have the second one run.
	first  = harness.ManagerComponent
	second = harness.ManagerComponent + "-2"
)

// version is one of the two.
type version struct {
	name string
	// manager is the program.
	manager   string
	manifests []fs.FS
}

// versions are the earlier one and this one. The earlier one is missing where hack/earlier has not built it.
func versions() (earlier, this version, err error) {
	bin, err := filepath.Abs(harness.BinDir())
	if err != nil {
		return earlier, this, err
	}
	this = version{"this version", filepath.Join(bin, program), localplane.Shipped()}
	dir := filepath.Join(bin, "earlier")
	commit, err := os.ReadFile(filepath.Join(dir, "commit"))
	if err != nil {
		return earlier, this, err
	}
	earlier = version{name: "the version of " + string(commit[:7]), manager: filepath.Join(dir, program)}
	for _, part := range []string{"install", "kruise", "openyurt", "people", "agent"} { // as localplane.Shipped
		earlier.manifests = append(earlier.manifests, os.DirFS(filepath.Join(dir, "config", part)))
	}
	return earlier, this, nil
}

// link is the program of the managers: a link to that of a version, in a directory of this run.
var link string

// shared is the plane of this run. It begins with the earlier version.
var shared = harness.Shared{Options: func() (harness.Options, error) {
	earlier, _, err := versions()
	if err == nil {
		err = point(earlier)
	}
	return harness.Options{
		Nodes: allNodes, Controller: harness.Everynode, Advanced: true, Edge: true, Managers: 2, Manager: link, Manifests: earlier.manifests, Sim: quick(),
	}, err
}}

// quick is a profile whose delays can be seen and not felt.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 200*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "everynode-upgrade-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	link = filepath.Join(dir, program)
	return shared.Run(m)
}

// point makes the link one to the manager of a version. A process that runs keeps its program.
func point(v version) error {
	next := link + ".next"
	return errors.Join(os.Symlink(v.manager, next), os.Rename(next, link))
}

// site is the plane.
type site struct {
	*harness.Cluster
	t             *testing.T
	earlier, this version
}

// begin is the plane with one manager of the earlier version, and its manifests. Where the earlier version is missing the test is skipped.
func begin(t *testing.T) *site {
	t.Helper()
	earlier, this, err := versions()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIPPED: there is no earlier version (%v): run make test SUITE=upgrade, in a clone with its history (git fetch --unshallow)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &site{shared.Cluster(t), t, earlier, this}
	if s.Runs(t, second) {
		s.Kill(t, second)
	}
	s.install(earlier)
	if !s.Runs(t, first) {
		s.start(first, earlier)
	} else if s.Program(t, first) != earlier.manager {
		s.replace(earlier)
	}
	return s
}

// install applies the manifests of a version.
func (s *site) install(v version) {
	s.t.Helper()
	if err := s.Plane.Install(s.t.Context(), v.manifests); err != nil {
		s.t.Fatalf("installing %s: %v", v.name, err)
	}
}

// replace has the manager ended, and that of a version started.
func (s *site) replace(v version) {
	s.t.Helper()
	if err := point(v); err != nil {
		s.t.Fatal(err)
	}
	s.Renew(s.t, first)
	s.runs(first, v)
}

// start starts a manager that does not run, as that of a version.
func (s *site) start(manager string, v version) {
	s.t.Helper()
	if err := point(v); err != nil {
		s.t.Fatal(err)
	}
	s.StartComponent(s.t, manager)
	s.runs(manager, v)
}

// runs fails the test where a manager is not that of a version.
func (s *site) runs(manager string, v version) {
	s.t.Helper()
	if path := s.Program(s.t, manager); path != v.manager {
		s.t.Fatalf("%s is %s, and ought to be %s", manager, path, v.manager)
	}
	s.t.Logf("%s is %s now", manager, v.name)
}

// upgrade installs a version as an administrator does: the manifests, and then the program.
func (s *site) upgrade(v version) {
	s.t.Helper()
	s.install(v)
	s.replace(v)
}
