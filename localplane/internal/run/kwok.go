// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/localplane/internal/component"
	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/simkubelet"
)

// kwokFlags are the flags of the component kwok.
type kwokFlags struct {
	kubeconfig, readyFile string
	nodeLease             time.Duration
	qps                   float32
	burst                 int
	apiDir                string
	openYurt              bool
	profile               simkubelet.Profile
}

func newKwokCommand() *cobra.Command {
	f := kwokFlags{profile: simkubelet.Realistic()}
	cmd := &cobra.Command{
		Use:           component.Kwok,
		Short:         "The simulated nodes: kwok for nodes and leases, a simulated kubelet for pods",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server")
	fs.StringVar(&f.readyFile, "ready-file", "", "file that gets this process's pid when it is ready")
	fs.DurationVar(&f.nodeLease, "node-lease-duration", 0, "duration of a node's lease")
	fs.Float32Var(&f.qps, "kube-api-qps", 0, "requests per second to the API server")
	fs.IntVar(&f.burst, "kube-api-burst", 0, "requests to the API server at once")
	fs.StringVar(&f.apiDir, "node-api-dir", "", "directory of the APIs of nodes; empty serves none")
	fs.BoolVar(&f.openYurt, "openyurt-api", false, "serve the routes of OpenYurt too, as everynode-agent does with this flag")
	f.profile.AddFlags(fs)
	return cmd
}

// run simulates nodes and pods until ctx ends.
func (f kwokFlags) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %s: %w", f.kubeconfig, err)
	}
	config.QPS, config.Burst = f.qps, f.burst
	rest.AddUserAgent(config, component.Kwok)
	client, dynamicClient, agents, err := f.clients(config)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if err := startNodes(ctx, client, f.nodeLease); err != nil {
		return err
	}
	const workers = 48
	kubelet, err := simkubelet.New(simkubelet.Options{
		Client: client, Dynamic: dynamicClient, Agents: agents, Profile: f.profile, Clock: clock.RealClock{}, Log: log, Workers: workers,
		API: f.api(config),
	})
	if err != nil {
		return err
	}
	return kubelet.Run(ctx, func() {
		log.Info("ready")
		if err := home.WriteFile(f.readyFile, []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
			log.Error("reporting that the nodes are ready", "err", err)
		}
	})
}

// api returns the options for the APIs of nodes.
func (f kwokFlags) api(config *rest.Config) *simkubelet.APIOptions {
	if f.apiDir == "" {
		return nil
	}
	return &simkubelet.APIOptions{Dir: f.apiDir, Config: config, OpenYurt: f.openYurt}
}

func (f kwokFlags) clients(config *rest.Config) (kubernetes.Interface, dynamic.Interface, *simkubelet.Agents, error) {
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("preparing a client: %w", err)
	}
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("preparing a client: %w", err)
	}
	agents, err := simkubelet.NewAgents(config, client)
	return client, dynamicClient, agents, err
}
