// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/controller/conflict"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/features"
	"everynode.dev/everynode/internal/fleet"
	"everynode.dev/everynode/internal/fleet/feed"
)

// eventSource is the component that events come from; the native controller and OpenKruise both use this name, and people
// filter by it.
const eventSource = "daemonset-controller"

// leader is what only the leader runs. Nothing of it is started before the lease is won, so that everything that it reads
// is newer than that.
type leader struct {
	metrics    *metrics.Metrics
	feed       *feed.Feed
	controller *daemonset.Controller
	guards     []guard
	events     record.EventBroadcaster
	client     kubernetes.Interface
	pulls      *pulls // nil where nobody has to do with image pulls

	namespace string
	elected   bool
	served    []string

	working, synced atomic.Bool
}

// guard finds out whether somebody else does the work of a dialect.
type guard interface {
	Run(ctx context.Context)
	MayWrite() bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *leader) NeedLeaderElection() bool { return true }

// ready fails while this manager leads and does not yet know the cluster.
func (l *leader) ready(*http.Request) error {
	if l.working.Load() && !l.synced.Load() {
		return errors.New("the leader is still reading the cluster")
	}
	return nil
}

func newLeader(o *options, cfg *rest.Config) (*leader, error) {
	cfg = oneRate(cfg)
	protobuf := rest.CopyConfig(cfg)
	protobuf.AcceptContentTypes, protobuf.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	l := &leader{metrics: metrics.New(o.metricsPerSet), client: client, events: newEvents(), namespace: o.namespace, elected: o.leaderElect, served: o.dialects}
	realClock := clock.RealClock{}
	recorder := newSparing(l.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventSource}), realClock)
	index := fleet.NewIndex(func(key fleet.Key) { l.controller.Enqueue(key) })
	var dialects []daemonset.Dialect
	dialects = append(dialects, l.ofAppsV1(o, recorder)...)
	if slices.Contains(o.dialects, kruiseDialect) {
		mayWrite := l.leaseGuarded(o, conflict.OpenKruise())
		if l.pulls, err = newPulls(l, o, cfg, mayWrite); err != nil {
			return nil, err
		}
		d := newKruise(mayWrite)
		if o.gates.Enabled(features.InPlaceWorkloadVerticalScaling) {
			d.InPlace = kruise.InPlaceWithResize
		}
		dialects = append(dialects, d)
	}
	index.ReadFacts(factsOf(o.dialects))
	if ahead := o.gates.Enabled(features.PreDownloadImageForDaemonSetUpdate); ahead {
		if l.pulls == nil {
			if l.pulls, err = newPulls(l, o, cfg, nil); err != nil {
				return nil, err
			}
		}
		for i := range dialects {
			dialects[i].Predownload = true
		}
	}
	resources := map[string]schema.GroupVersionResource{}
	l.feed = &feed.Feed{Index: index, Client: client, Dynamic: dynamicClient}
	for _, d := range dialects {
		resources[d.Source.Dialect] = d.Source.Resource
		l.feed.Sources = append(l.feed.Sources, d.Source)
	}
	pace := executor.NewPace(realClock, client.CoreV1().RESTClient().GetRateLimiter().Wait, executor.Sleep)
	l.metrics.Window = pace.Window
	l.controller = daemonset.New(daemonset.Options{
		Dialects: dialects, Index: index, Clock: realClock, Events: recorder, Observer: l.metrics, Workers: o.concurrentSyncs,
		Revisions: executor.NewRevisions(client), Sets: daemonset.NewSets(dynamicClient, resources),
		PullJobs: l.pullJobs(),
		Executor: &executor.Executor{
			Index: index, Pods: executor.NewPods(client), Pace: pace, Events: recorder, Clock: realClock, Count: l.metrics.Count,
		},
	})
	return l, nil
}

// oneRate is cfg with one limit for all clients that are made of it: --kube-api-qps is what the whole manager asks of an API server that it
// shares with others. The election of the leader has a limit of its own, or a long queue of writes could cost the lead.
func oneRate(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
	return cfg
}

// guarded takes a guard into service, unless its gate is off, and returns whether its dialect may write.
func (l *leader) guarded(o *options, g guard) (mayWrite func() bool) {
	if !o.gates.Enabled(features.ConflictProbe) {
		return func() bool { return true }
	}
	l.guards = append(l.guards, g)
	return g.MayWrite
}

// leaseGuarded is guarded for a dialect whose work another manager does where it holds its lease.
func (l *leader) leaseGuarded(o *options, other conflict.Other) (mayWrite func() bool) {
	return l.guarded(o, conflict.NewLeaseGuard(other, conflict.LeaseOptions{
		Client: l.client, Clock: clock.RealClock{}, Settle: l.settle, Changed: l.mayWriteChanged(other.Dialect),
	}))
}

// ofAppsV1 is the dialect that looks after the DaemonSets of apps/v1: never more than one, whatever is to be read of them.
func (l *leader) ofAppsV1(o *options, events record.EventRecorder) []daemonset.Dialect {
	probed := func() func() bool {
		return l.guarded(o, conflict.New(conflict.Options{
			Client: l.client, Namespace: o.namespace, Events: events, Clock: clock.RealClock{}, Settle: l.settle, Changed: l.mayWriteChanged(nativeDialect),
		}))
	}
	native, edge := slices.Contains(o.dialects, nativeDialect), slices.Contains(o.dialects, openyurtDialect)
	switch {
	case native && edge:
		return []daemonset.Dialect{newEdge(o.namespace, probed(), l.leaseGuarded(o, conflict.OpenYurt()))}
	case native:
		return []daemonset.Dialect{newNative(o.namespace, probed())}
	case edge:
		return []daemonset.Dialect{newGuest(o.namespace, l.leaseGuarded(o, conflict.OpenYurt()))}
	default:
		return nil
	}
}

// mayWriteChanged returns what a guard of the dialect calls when its answer has changed.
func (l *leader) mayWriteChanged(dialect string) func(mayWrite bool) {
	return func(mayWrite bool) {
		l.metrics.Conflict(dialect, !mayWrite)
		if mayWrite {
			for _, d := range l.controller.Dialects {
				l.controller.EnqueueAll(d.Source.Dialect)
			}
		}
		if mayWrite && dialect == kruiseDialect {
			l.pulls.resume()
		}
	}
}

// Start implements manager.Runnable: it works until ctx ends and returns when everything has stopped.
func (l *leader) Start(ctx context.Context) error {
	log := klog.FromContext(ctx)
	l.working.Store(true)
	for _, name := range l.served {
		log.Info("Serving a dialect", "dialect", name, "does", servings(l.served)[name])
	}
	l.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: l.client.CoreV1().Events("")})
	defer l.events.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // whatever ends this ends the guard and the watches too
	for _, g := range l.guards {
		wg.Go(func() { g.Run(ctx) })
	}
	if err := l.fence(ctx); err != nil {
		return nil
	}
	if l.pulls != nil {
		wg.Go(func() { l.pulls.run(ctx) })
	}
	began := time.Now()
	defer l.feed.Wait()
	defer cancel()
	if err := l.feed.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("reading the cluster: %w", err)
	}
	l.synced.Store(true)
	log.Info("Read the cluster", "took", time.Since(began))
	l.controller.Run(ctx)
	return nil
}

// fence waits until no write of an earlier leader can take effect any more, so that what is read afterwards holds. The first
// leader of all need not wait.
func (l *leader) fence(ctx context.Context) error {
	if l.firstTerm(ctx) {
		return nil
	}
	klog.FromContext(ctx).Info("Waiting until no write of the last leader can take effect any more", "for", executor.Fence)
	return pause(ctx)
}

// settle waits until no write of another controller that has just ended can take effect any more, and reads the cluster anew. For how
// long a write of the other can be under way is not known; that it is not much longer than one of ours is all that can be assumed.
func (l *leader) settle(ctx context.Context) error {
	klog.FromContext(ctx).Info("Another controller has ended: waiting until no write of it can take effect any more", "for", executor.Fence)
	if err := pause(ctx); err != nil {
		return err
	}
	if l.pulls != nil {
		if err := l.pulls.catchUp(ctx); err != nil {
			return err
		}
	}
	return l.feed.Start(ctx)
}

// pause waits for as long as a write can take.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(executor.Fence):
		return nil
	}
}

// firstTerm is whether the lease shows that nobody has led before. Without an election there is nobody else, and the writes of
// an earlier process ended with its connections.
func (l *leader) firstTerm(ctx context.Context) bool {
	if !l.elected {
		return true
	}
	lease, err := l.client.CoordinationV1().Leases(l.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	return err == nil && (lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions == 0)
}
