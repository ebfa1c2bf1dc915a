// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/simkubelet"
)

// upFlags are the flags of `up`.
type upFlags struct {
	options localplane.Options
	profile string
	// dashboard reports whether the dashboard is served.
	dashboard bool
	// sim has the delays that were given as flags; they override the profile.
	sim simkubelet.Profile
}

func (a *app) upCommand() *cobra.Command {
	f := &upFlags{sim: simkubelet.Realistic()}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a plane in the foreground until Ctrl-C",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd.Flags()); err != nil {
				return err
			}
			if err := f.chooseProfile(cmd.Flags()); err != nil {
				return err
			}
			f.options.Dir, f.options.Progress = a.dir, a.out
			f.options.KeepNodes = !cmd.Flags().Changed("nodes")
			return a.up(cmd.Context(), f)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *upFlags) add(fs *pflag.FlagSet) {
	o := &f.options
	fs.IntVar(&o.Nodes, "nodes", localplane.DefaultNodes, "simulated nodes there are to be at least; without it a plane of an earlier run keeps those that it has")
	fs.IntVar(&o.RealNodes, "real-nodes", 0,
		"nodes there are to be at least with kubelet, containerd and kube-proxy, each in namespaces of its own (needs root, containerd and runc); a plane of an earlier run keeps those that it has")
	fs.StringVar(&o.Real.Containerd, "containerd", "", "program of containerd for the real nodes, 1.6 or later or 2.x, with containerd-shim-runc-v2 in the same directory (default: the last one named, or the one in $PATH)")
	fs.DurationVar(&o.Real.RegistryLatency, "registry-latency", 0, "how long the registry of the real nodes waits before it sends a blob")
	fs.StringSliceVar(&o.Dialects, "dialects", localplane.DefaultDialects(),
		fmt.Sprintf("what Everynode's manager runs: %s, or %s for no manager", strings.Join(localplane.Dialects(), ", "), localplane.NoDialects))
	fs.BoolVar(&o.NativeController, "native-controller", false, "run upstream's DaemonSet controller, in a process of its own; excludes the dialect native")
	fs.BoolVar(&o.Fresh, "fresh", false, "wipe the state of an earlier run")
	fs.IntVar(&o.APIPort, "api-port", 0, "port of the API server (default: the last one, or any)")
	fs.IntVar(&o.Kubernetes.QPS, "kubernetes-qps", 0, "requests per second that each component may send to the API server (default 2000)")
	fs.IntVar(&o.Kubernetes.Burst, "kubernetes-burst", 0, "requests that each component may send at once (default: as many as per second)")
	fs.DurationVar(&o.Kubernetes.NodeMonitorGracePeriod, "node-monitor-grace-period", 0,
		"how long a node may be silent before it is NotReady (default 16s, longer with more than 125 nodes)")
	fs.IntVar(&o.Manager.Count, "managers", 1, "processes of Everynode's manager, one of which leads")
	fs.StringArrayVar(&o.Manager.Args, "manager-arg", nil, "argument for Everynode's manager; may be given several times")
	fs.StringVar(&o.Programs.Manager, "manager-binary", "", "program of Everynode's manager (default: everynode-manager in the directory of this program)")
	fs.BoolVar(&f.dashboard, "dashboard", true, "serve the dashboard on a free port of 127.0.0.1, and print its URL")
	fs.StringVar(&f.profile, "sim-profile", "realistic", "delays of the simulated nodes: realistic, or fast for none at all")
	f.sim.AddFlags(fs)
}

// refuseEmpty returns an error for flags with a value that the options interpret as absent.
func refuseEmpty(fs *pflag.FlagSet) error {
	for _, name := range []string{"managers", "kubernetes-qps", "kubernetes-burst", "node-monitor-grace-period"} {
		value := fs.Lookup(name).Value.String()
		if fs.Changed(name) && (value == "0" || value == "0s") {
			return &localplane.UsageError{Message: fmt.Sprintf("--%s is %s: it is more than that, or left out for the default", name, value)}
		}
	}
	for _, name := range []string{"containerd", "manager-binary"} {
		if fs.Changed(name) && fs.Lookup(name).Value.String() == "" {
			return &localplane.UsageError{Message: fmt.Sprintf("--%s is empty: name a program, or leave it out for the default", name)}
		}
	}
	if dialects, err := fs.GetStringSlice("dialects"); err != nil {
		return fmt.Errorf("reading --dialects: %w", err)
	} else if len(dialects) == 0 {
		return &localplane.UsageError{Message: fmt.Sprintf("--dialects is empty: it is one or more of %s, or %s for no manager",
			strings.Join(localplane.Dialects(), ", "), localplane.NoDialects)}
	}
	return nil
}

// chooseProfile returns the named profile with the delays that were given as flags.
func (f *upFlags) chooseProfile(fs *pflag.FlagSet) error {
	chosen, known := simkubelet.Profiles()[f.profile]
	if !known {
		return &localplane.UsageError{Message: fmt.Sprintf("--sim-profile is %q: it is realistic or fast", f.profile)}
	}
	var given []string
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	chosen.AddFlags(own)
	own.VisitAll(func(flag *pflag.Flag) {
		if set := fs.Lookup(flag.Name); set.Changed {
			given = append(given, "--"+flag.Name+"="+set.Value.String())
		}
	})
	if err := own.Parse(slices.Clip(given)); err != nil {
		return fmt.Errorf("choosing the simulated delays: %w", err)
	}
	f.options.Sim = &chosen
	return nil
}

// up runs a plane until ctx ends or another process stops it.
func (a *app) up(ctx context.Context, f *upFlags) error {
	plane, err := localplane.Start(ctx, f.options)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted while starting, everything is stopped")
		}
		return err
	}
	served := &dashboard{}
	if f.dashboard {
		served = a.serveDashboard(ctx, plane.Kubeconfig())
	}
	a.say("ready  export KUBECONFIG=%s", plane.Kubeconfig())
	select {
	case <-ctx.Done():
		a.say("stopping")
	case <-plane.Done():
	}
	// ctx has ended, but stopping needs a context.
	if err := errors.Join(served.stop(), plane.Stop(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	a.say("stopped, the state stays in %s", plane.Dir())
	return nil
}
