// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // adds --logging-format json
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/webhook"
)

// leaseName is the name of the leader election lease.
const leaseName = "everynode-manager"

// slack is memory that is allocated but never touched, and so is not resident. It raises the heap size at which the
// garbage collector starts. On a small cluster, the collector would otherwise run many times a second; on a large one
// it makes no difference.
const slack = 32 << 20

// run assembles everything and runs until ctx ends or the lease is lost.
func run(ctx context.Context, o *options) error {
	untouched := make([]byte, slack)
	defer runtime.KeepAlive(untouched)
	if err := logsapi.ValidateAndApply(o.logs, o.gates); err != nil {
		return &UsageError{err.Error()}
	}
	ctrl.SetLogger(quietProbes(klog.Background()))
	for {
		served := *o
		err := serve(ctx, &served)
		if !errors.Is(err, errAgain) {
			return err
		}
		klog.FromContext(ctx).Info("Beginning again", "reason", err.Error())
		if pause(ctx, time.Second) != nil {
			return nil
		}
	}
}

// serve runs until ctx ends, the lease is lost, or it must start again (errAgain). It sets in o what is served.
func serve(ctx context.Context, o *options) error {
	cfg, err := restConfig(o)
	if err != nil {
		return err
	}
	if err := checkPlace(ctx, o, cfg); err != nil {
		return err
	}
	definitions, err := newDefinitionWatch(o, cfg)
	if err != nil {
		return err
	}
	t := &leaseGuard{deadline: o.renewDeadline, clock: clock.RealClock{}}
	mgr, err := newManager(o, cfg, t)
	if err != nil {
		return err
	}
	leader, err := newLeader(o, cfg, t)
	if err != nil {
		return err
	}
	if o.leftOut != nil {
		klog.FromContext(ctx).Error(o.leftOut, "A dialect is left out", "dialect", dialects.Kruise)
		leader.metrics.Conflict(dialects.Kruise, true)
	}
	defer ctrlmetrics.Registry.Unregister(leader.metrics)
	err = errors.Join(
		ctrlmetrics.Registry.Register(leader.metrics),
		mgr.Add(definitions),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", leader.ready),
		mgr.Add(leader),
	)
	if err != nil {
		return fmt.Errorf("setting up the manager: %w", err)
	}
	if slices.Contains(o.dialects, dialects.Kruise) {
		if leader.metrics.CertificateEnds, err = webhook.Setup(mgr, o.webhooks()); err != nil {
			return err
		}
	}
	own, err := newDeployment(o, cfg)
	if err != nil {
		return err
	}
	running, stop := outlive(ctx, func(ctx context.Context) { leader.end(ctx, own, o.endingTimeout) })
	defer stop()
	return mgr.Start(running)
}

// newManager returns a manager whose leader election reports to t.
func newManager(o *options, cfg *rest.Config, t *leaseGuard) (manager.Manager, error) {
	lease, err := newLock(o, cfg, t)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, manager.Options{
		Scheme:                              scheme.Scheme,
		LeaderElection:                      o.leaderElect,
		LeaderElectionResourceLockInterface: lease,
		LeaderElectionID:                    leaseName,
		LeaderElectionNamespace:             o.namespace,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &o.leaseDuration,
		RenewDeadline:                       &o.renewDeadline,
		RetryPeriod:                         &o.retryPeriod,
		Metrics:                             metricsserver.Options{BindAddress: o.metricsAddress, ExtraHandlers: o.profiles()},
		HealthProbeBindAddress:              o.healthAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	lease.LockConfig.EventRecorder = mgr.GetEventRecorderFor(lease.Identity()) //nolint:staticcheck // the lock takes no other kind
	return mgr, nil
}

// profiles returns the profiling handlers, if enabled.
func (o *options) profiles() map[string]http.Handler {
	if !o.profiling {
		return nil
	}
	return map[string]http.Handler{
		"/debug/pprof/": http.HandlerFunc(pprof.Index), "/debug/pprof/profile": http.HandlerFunc(pprof.Profile), "/debug/pprof/trace": http.HandlerFunc(pprof.Trace),
	}
}

// webhooks returns the settings of the webhooks; the address has been validated.
func (o *options) webhooks() webhook.Options {
	host, port, _ := splitAddress(o.webhookAddress)
	w := webhook.Options{Mode: webhook.ModeService, Namespace: o.namespace, CertDir: o.webhookCertDir, Host: host, Port: port}
	if o.webhookURL != "" {
		w.Mode, w.URL = webhook.ModeURL, o.webhookURL
	}
	return w
}

// splitAddress splits host:port; the host is optional.
func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q is not a port", text)
	}
	return host, int(n), nil
}

func restConfig(o *options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to work on: %w (give --kubeconfig, set KUBECONFIG, or run in a pod)", err)
	}
	cfg.QPS, cfg.Burst = cmp.Or(o.qps, cautiousQPS), o.burst
	cfg.UserAgent = "everynode-manager"
	cfg.DisableCompression = true // as in kube-controller-manager: the API server is near, and compression costs CPU on both sides
	// Many pods are created from one template, and the API server may return the same warning for each.
	cfg.WarningHandlerWithContext = ctrllog.NewKubeAPIWarningLogger(ctrllog.KubeAPIWarningLoggerOptions{Deduplicate: true})
	return cfg, nil
}
