// SPDX-License-Identifier: Apache-2.0

// Package upstream runs upstream's own end-to-end tests for DaemonSets, unchanged, against a local plane.
//
// The tests are those of k8s.io/kubernetes/test/e2e/apps whose text begins with "[sig-apps] Daemon set"; upstream marks
// them [Serial] and runs them on real clusters before each release. Here a plane with simulated nodes is started for them,
// and they pass only if every one of them was run and passed. Environment: see package harness.
//
//	go test ./upstream -timeout 20m
//
// Flags of upstream's framework and of Ginkgo can be given after -args, for example -ginkgo.v for all its output, or
// -ginkgo.focus="rollback" for one test (then the count of tests is not checked).
package upstream

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	_ "k8s.io/kubernetes/test/e2e/apps" // the tests
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init" // dumps a namespace when a test fails in it

	"everynode.dev/everynode/test/harness"
)

const (
	// focus is a regular expression for the texts of upstream's tests of DaemonSets.
	focus = `\[sig-apps\] Daemon set `
	// wanted is how many there are in the version of Kubernetes that go.mod names. A version with more or fewer of them
	// has to be noticed.
	wanted = 10
	// nodes is how many simulated nodes they get; the tests need two, and with five a fifth (20%) is one.
	nodes = 5
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	os.Exit(m.Run())
}

func TestUpstream(t *testing.T) {
	controller, err := harness.ControllerUnderTest()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	cluster := harness.Own(t, harness.Options{Nodes: nodes, Controller: controller})
	t.Logf("plane with %d nodes and controller %q ready after %s", nodes, controller, time.Since(started).Round(time.Millisecond))
	aimFramework(t, cluster)

	var tally tally
	suite, reporter := framework.CreateGinkgoConfig()
	chosen := len(suite.FocusStrings) > 0 || suite.DryRun
	if len(suite.FocusStrings) == 0 {
		suite.FocusStrings = []string{focus}
	}
	reporter.NoColor, reporter.SilenceSkips = true, true
	ginkgo.ReportAfterEach(func(spec ginkgo.SpecReport) { tally.add(t, spec) })
	gomega.RegisterFailHandler(framework.Fail)
	ginkgo.RunSpecs(t, "upstream's tests of DaemonSets", suite, reporter)

	t.Logf("%d of %d of upstream's tests passed with controller %q in %s",
		tally.passed, tally.ran, controller, time.Since(started).Round(time.Second))
	if !chosen && (tally.ran != wanted || tally.passed != wanted) {
		t.Errorf("%d of upstream's tests ran and %d passed, want %d and %d", tally.ran, tally.passed, wanted, wanted)
	}
}

// aimFramework points upstream's framework at the cluster.
func aimFramework(t *testing.T, cluster *harness.Cluster) {
	t.Helper()
	kubectl, err := writeKubectl(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	context := &framework.TestContext
	context.Provider = "local"
	context.KubeConfig = cluster.Plane.Kubeconfig()
	context.KubectlPath = kubectl
	context.CloudConfig.NumNodes = nodes
	context.DeleteNamespace = true
	framework.AfterReadingAllFlags(context)
}

// writeKubectl makes a program out of `localplane kubectl`, since the framework wants a path of a kubectl and gives it
// the kubeconfig itself.
func writeKubectl(dir string) (string, error) {
	bin, err := filepath.Abs(filepath.Join(harness.BinDir(), "localplane"))
	if err != nil {
		return "", fmt.Errorf("finding localplane: %w", err)
	}
	path := filepath.Join(dir, "kubectl")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' component-run kubectl \"$@\"\n", strings.ReplaceAll(bin, "'", `'\''`))
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return "", fmt.Errorf("writing a kubectl: %w", err)
	}
	return path, nil
}

// tally counts the tests that were not filtered out.
type tally struct{ ran, passed int }

func (c *tally) add(t *testing.T, spec ginkgo.SpecReport) {
	if spec.LeafNodeType != types.NodeTypeIt || spec.State.Is(types.SpecStateSkipped|types.SpecStatePending) {
		return
	}
	c.ran++
	if spec.State.Is(types.SpecStatePassed) {
		c.passed++
	}
	t.Logf("%-6s %5.1fs  %s", spec.State, spec.RunTime.Seconds(), spec.LeafNodeText)
}
