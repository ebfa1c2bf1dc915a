// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/simkubelet"
)

func TestMistakesAndTheirExitCodes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"up --nodes -1", exitUsage, "--nodes is -1"},
		{"up --nodes many", exitUsage, "--nodes"},
		{"up --dialects klingon", exitUsage, "klingon"},
		{"up --dialects native,openyurt,klingon", exitUsage, "native, kruise, openyurt, policy, or none"},
		{"up --dialects=", exitUsage, "none for no manager"},
		{"up --managers 0", exitUsage, "--managers is 0"},
		{"up --managers -1", exitUsage, "--managers is -1"},
		{"up --kubernetes-qps 0", exitUsage, "--kubernetes-qps is 0"},
		{"up --kubernetes-burst 0", exitUsage, "--kubernetes-burst is 0"},
		{"up --node-monitor-grace-period 0", exitUsage, "--node-monitor-grace-period is 0s"},
		{"up --native-controller --dialects native", exitUsage, "--native-controller"},
		{"up --native-controller", exitUsage, "--dialects policy or --dialects none"},
		{"up --real-nodes 1 --containerd=", exitUsage, "--containerd is empty"},
		{"up --sim-profile slow", exitUsage, "realistic or fast"},
		{"up --sim-image-pull -1s", exitUsage, "--sim-image-pull"},
		{"up now", exitUsage, `up: it takes no arguments, and here is "now"`},
		{"up --dialects none --dir /proc/nowhere", exitFailed, "--dir"},
		{"fly", exitUsage, "fly"},
		{"nodes", exitUsage, "add N"},
		{"nodes grow 3", exitUsage, `"grow"`},
		{"nodes add", exitUsage, "nodes add"},
		{"node cut", exitUsage, "node cut"},
		{"node api", exitUsage, "node api"},
		{"node api node-0001", exitFailed, "localplane up --dir"},
		{"component stop etcd", exitUsage, `"stop"`},
		{"status -o yaml", exitUsage, "json"},
		{"status", exitFailed, "localplane up --dir"},
		{"node cut node-0001", exitFailed, "localplane up --dir"},
		{"node heal", exitUsage, "node heal"},
		{"node heal node-0001 node-0002", exitFailed, "localplane up --dir"},
		{"kubectl get nodes", exitFailed, "localplane up --dir"},
		{"down", exitFailed, dir},
	} {
		t.Run(tc.args, func(t *testing.T) {
			// The tests' own program stands for the one that would be started.
			t.Setenv(localplane.EnvProgram, "/proc/self/exe")
			args := strings.Fields(tc.args)
			if !strings.Contains(tc.args, "--dir") {
				args = append([]string{"--dir", dir}, args...)
			}
			root := New(&bytes.Buffer{})
			root.SetArgs(args)
			err := root.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("it succeeded")
			}
			if strings.HasPrefix(err.Error(), "localplane") {
				t.Errorf("error %q names the program, which the message begins with anyway", err)
			}
			if code := exitCode(err); code != tc.code || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("exit code %d, want %d; error %q, want %q in it", code, tc.code, err, tc.says)
			}
		})
	}
}

func TestDirOfKubectl(t *testing.T) {
	for _, tc := range []struct{ args, dir, rest string }{
		{"get nodes", "unchanged", "get nodes"},
		{"--dir d get nodes", "d", "get nodes"},
		{"--dir=d get --dir=e", "d", "get --dir=e"},
		{"get --dir d", "unchanged", "get --dir d"},
		{"--dir", "unchanged", "--dir"},
	} {
		a := &app{dir: "unchanged"}
		rest := a.takeDir(strings.Fields(tc.args))
		if a.dir != tc.dir || strings.Join(rest, " ") != tc.rest {
			t.Errorf("%s: directory %q, rest %v", tc.args, a.dir, rest)
		}
	}
}

func TestProfileAndDelays(t *testing.T) {
	for _, tc := range []struct {
		args string
		want func(*simkubelet.Profile)
		base simkubelet.Profile
	}{
		{"", func(*simkubelet.Profile) {}, simkubelet.Realistic()},
		{"--sim-profile fast", func(*simkubelet.Profile) {}, simkubelet.Fast()},
		{"--sim-profile fast --sim-image-pull 3s", func(p *simkubelet.Profile) { p.ImagePull = 3 * time.Second }, simkubelet.Fast()},
		{"--sim-jitter 0", func(p *simkubelet.Profile) { p.Jitter = 0 }, simkubelet.Realistic()},
	} {
		f := &upFlags{sim: simkubelet.Realistic()}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.add(fs)
		if err := fs.Parse(strings.Fields(tc.args)); err != nil {
			t.Fatal(err)
		}
		if err := f.chooseProfile(fs); err != nil {
			t.Fatal(err)
		}
		tc.want(&tc.base)
		if *f.options.Sim != tc.base {
			t.Errorf("%s: %+v, want %+v", tc.args, *f.options.Sim, tc.base)
		}
	}
}

func TestStatusTable(t *testing.T) {
	status := &localplane.Status{
		Components: []localplane.ComponentStatus{
			{Name: "etcd", State: localplane.ComponentReady, PID: 42, UptimeSeconds: 90, CPUSeconds: 1.25, RSSBytes: 64 << 20},
			{Name: "kwok", State: localplane.ComponentKilled, Restarts: 3},
		},
		Nodes: &localplane.NodeCount{Ready: 2, NotReady: 1, Cut: 1},
	}
	var out bytes.Buffer
	if err := writeTable(&out, status); err != nil {
		t.Fatal(err)
	}
	want := `COMPONENT  STATE   PID  UPTIME  CPU   MEMORY  RESTARTS
etcd       ready   42   1m30s   1.2s  64 MiB  0
kwok       killed  -    -       -     -       3

nodes: 2 Ready, 1 NotReady, 1 cut
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	status.Registry = "127.0.0.1:5"
	if err := writeTable(&out, status); err != nil || !strings.HasSuffix(out.String(), "\nregistry: push to 127.0.0.1:5/NAME:TAG, pods name it registry.local/NAME:TAG\n") {
		t.Errorf("error %v, output %s, want the registry", err, out.String())
	}
	status.Dir, status.Components[1].State = "/p", localplane.ComponentFailed
	out.Reset()
	hint := "kwok ended before it was ready: see /p/logs/kwok.log, then `localplane component start kwok --dir /p`"
	if err := writeTable(&out, status); err != nil || !strings.Contains(out.String(), hint) || strings.Contains(out.String(), "etcd ended") {
		t.Errorf("error %v, output %s, want %s", err, out.String(), hint)
	}
	status.Nodes, status.NodesError = nil, "no answer"
	out.Reset()
	if err := writeTable(&out, status); err != nil || !strings.Contains(out.String(), "no answer") {
		t.Errorf("error %v, output %s", err, out.String())
	}
}

func TestEveryVerbHasTheDir(t *testing.T) {
	root := New(&bytes.Buffer{})
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.InheritedFlags().Lookup("dir") == nil && cmd != root {
			t.Errorf("%s has no --dir", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
