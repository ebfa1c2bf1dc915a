// SPDX-License-Identifier: Apache-2.0

// Package cli tests kubectl everynode, as the program that it is, on real control planes with simulated nodes.
//
// The smoke test is a new user who types the tutorial, docs/getting-started.md, line by line; others do the same with further pages. The remaining tests
// run each verb and check pods and sets on the API server.
//
//	go test ./cli -run TestSmoke                 docs/getting-started.md
//	go test ./cli -run TestPageNative            docs/dialects/native.md
//	go test ./cli -run TestVerbs/Migrate         one of the verbs
package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/localplane/simkubelet"
	"everynode.dev/everynode/test/harness"
)

// allNodes is how many nodes the plane has.
const allNodes = 6

// shared is the plane of TestVerbs: all dialects are served.
var shared = harness.Shared{Options: func() (harness.Options, error) {
	return harness.Options{Nodes: allNodes, Controller: harness.Everynode, Advanced: true, Edge: true, Sim: quick()}, nil
}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// quick is a profile whose delays can be seen and not felt.
func quick() *simkubelet.Profile {
	p := simkubelet.Realistic()
	p.ImagePull, p.ContainerStart, p.ContainerReady = 200*time.Millisecond, 50*time.Millisecond, 150*time.Millisecond
	p.ContainerStop, p.PodStop, p.InitRun = 100*time.Millisecond, 200*time.Millisecond, 50*time.Millisecond
	return &p
}

// program is the plugin's file.
func program() string { return filepath.Join(harness.BinDir(), "kubectl-everynode") }

// person types commands of the plugin in a namespace.
type person struct {
	t *testing.T
	s *harness.Space
}

// answer is what a command has printed, and its exit code.
type answer struct {
	out, err string
	code     int
}

// tries types a command that may fail.
func (p *person) tries(args ...string) answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.s.Context(), harness.Patience)
	defer cancel()
	command := exec.CommandContext(ctx, program(), append([]string{"--namespace", p.s.Name}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+p.s.Cluster.Plane.Kubeconfig())
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	if command.ProcessState == nil {
		p.t.Fatalf("running %s: %v (make build-kubectl builds it)", program(), err)
	}
	a := answer{out.String(), problems.String(), command.ProcessState.ExitCode()}
	p.t.Logf("$ kubectl everynode %s\n%s%s[%d]", strings.Join(args, " "), a.out, a.err, a.code)
	return a
}

// types types a command that has to do what it is told, and to say so.
func (p *person) types(says string, args ...string) string {
	p.t.Helper()
	a := p.tries(args...)
	if a.code != 0 || !strings.Contains(a.out+a.err, says) {
		p.t.Fatalf("kubectl everynode %q ends with %d, and should say %q:\n%s%s", args, a.code, says, a.out, a.err)
	}
	return a.out
}

// isRefused types a command that has to be refused, for a reason.
func (p *person) isRefused(code int, why string, args ...string) {
	p.t.Helper()
	if a := p.tries(args...); a.code != code || !strings.Contains(a.err, why) {
		p.t.Fatalf("kubectl everynode %q ends with %d, and should end with %d and %q:\n%s%s", args, a.code, code, why, a.out, a.err)
	}
}

// missing says what is not so yet.
func missing(format string, args ...any) error { return fmt.Errorf(format, args...) }
