// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // adds --logging-format json
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/agent/credentials"
	"everynode.dev/everynode/internal/agent/cri"
	"everynode.dev/everynode/internal/agent/kube"
	"everynode.dev/everynode/internal/agent/pull"
)

// run assembles everything and runs until ctx ends.
func run(ctx context.Context, o *options) error {
	if err := logsapi.ValidateAndApply(o.logs, nil); err != nil {
		return &UsageError{err.Error()}
	}
	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	c, err := newCluster(cfg, o.node)
	if err != nil {
		return err
	}
	client, err := kube.New(cfg)
	if err != nil {
		return err
	}
	chain, err := o.newKeychain(client)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	recorder, endEvents := c.recorder(ctx)
	defer endEvents()
	l := newLoop()
	l.store, l.changed, l.keychain = c, c.changed, chain
	l.limits = pull.Limits{Pulls: o.pulls, FillPercent: o.fillPercent}
	l.report = newReporter(recorder, registry)
	images := cri.New(o.socket)
	defer images.Close(context.WithoutCancel(ctx))
	l.runtime = images
	endServer, err := serve(o.metricsAddress, registry, probes{ready: c.informer.HasSynced, heartbeat: &l.heartbeat})
	if err != nil {
		return err
	}
	defer endServer()
	if o.listen == "0" {
		work(ctx, c, l, c.informer.HasSynced)
		return nil
	}
	api, err := newNodeAPI(o, client, &l.report, c.notify)
	if err != nil {
		return err
	}
	l.prepull, api.restarts.runtime = api.prepull, images
	endAPI, err := api.begin(ctx, o)
	if err != nil {
		return err
	}
	defer endAPI()
	work(ctx, c, l, func() bool { return c.informer.HasSynced() || api.pods.informer.HasSynced() })
	return nil
}

// work runs the loop after the first source of wanted images was read. A NodeImage that is read later includes its
// state.
func work(ctx context.Context, c *cluster, l *loop, read cache.InformerSynced) {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.informer.RunWithContext(ctx)
	}()
	klog.InfoS("Agent begins", "node", c.node)
	if cache.WaitForCacheSync(ctx.Done(), read) {
		l.run(ctx)
	}
	<-watched
	klog.InfoS("Agent ends", "node", c.node)
}

func (o *options) newKeychain(c *kube.Client) (*nodeKeychain, error) {
	chain := &nodeKeychain{namespace: o.secretNamespace, get: c.Secret, seen: map[string]*corev1.Secret{}}
	if o.pluginConfig == "" {
		return chain, nil
	}
	plugins, err := credentials.Load(o.pluginConfig, o.pluginDir)
	chain.plugins = plugins
	return chain, err
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to work on: %w (give --kubeconfig, set KUBECONFIG, or run in a pod)", err)
	}
	cfg.UserAgent = component
	return cfg, nil
}
