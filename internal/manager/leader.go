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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/controller/analyses"
	"everynode.dev/everynode/internal/controller/conflict"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/controller/endpoint"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/controller/nodehold"
	"everynode.dev/everynode/internal/controller/notifications"
	"everynode.dev/everynode/internal/controller/policies"
	"everynode.dev/everynode/internal/controller/pullstore"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/features"
	"everynode.dev/everynode/internal/policy"
)

// eventSource is the component of events; the native controller and OpenKruise both use this name, and users filter by
// it.
const eventSource = "daemonset-controller"

// leader has the parts that only the leader runs. They are started after the lease is acquired, so that everything they
// read is newer than that.
type leader struct {
	metrics    *metrics.Metrics
	feed       *informers.Feed
	controller *daemonset.Controller
	guards     []guard
	events     record.EventBroadcaster
	client     kubernetes.Interface
	pulls      *pulls               // nil if image pulls are not served
	holds      *nodehold.Controller // nil if no set may hold a node
	nodes      *pullstore.NodeStore // nil if neither of these needs nodes
	policies   *policies.Store
	analyses   *analyses.Runner
	notices    *notifications.Sender
	// files are read again when they change.
	files []*endpoint.Follower
	// upstream reports whether another controller manages the pods of apps/v1; nil if this is not checked.
	upstream func() bool

	namespace  string
	leaseGuard *leaseGuard // nil without leader election
	served     []string
	slow       *executor.SlowLease

	working, synced atomic.Bool
	// late reports whether the sets of the dialect kruise are not read yet, while the others are served.
	late atomic.Bool
	// restored is the reason why everything must be read again, or nil. abandon stops all work, and is set by Start.
	restored atomic.Pointer[restoredError]
	abandon  context.CancelFunc
}

// guard detects other controllers that are active for a dialect.
type guard interface {
	Run(ctx context.Context)
	MayWrite() bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *leader) NeedLeaderElection() bool { return true }

// reads reports whether this manager is the leader and has not read the cluster yet.
func (l *leader) reads() bool { return l.working.Load() && !l.synced.Load() }

// ready fails while this manager is the leader and has not read the cluster yet.
func (l *leader) ready(*http.Request) error {
	if l.reads() {
		return errors.New("the leader is still reading the cluster")
	}
	return nil
}

// newLeader returns a leader that writes while t holds.
func newLeader(o *options, cfg *rest.Config, t *leaseGuard) (*leader, error) {
	cfg = oneRate(cfg, o.qps == 0)
	if o.leaderElect {
		cfg = t.guard(cfg)
	} else {
		t = nil
	}
	client, dynamicClient, err := newClients(cfg)
	if err != nil {
		return nil, err
	}
	revisions, sets, err := newClients(unlimited(cfg))
	if err != nil {
		return nil, err
	}
	realClock := clock.RealClock{}
	l := &leader{metrics: metrics.New(o.metricsPerSet), analyses: analyses.New(o.providers, realClock), client: client, events: newEvents(), namespace: o.namespace, leaseGuard: t, served: o.dialects, slow: newSlowLease(client, o.namespace)}
	l.notices = notifications.New(o.targets, realClock, l.metrics.Notified)
	l.metrics.MayNotify(o.targets.Names(), notifications.Results())
	l.files = l.followers(o, realClock)
	recorder := counting{newSparing(l.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventSource}), realClock), l.metrics.Event}
	index := clustercache.NewIndex(func(key clustercache.Key) { l.controller.Enqueue(key) })
	all, err := l.build(o, cfg, recorder)
	if err != nil {
		return nil, err
	}
	index.ReadFacts(dialects.FactsOf(o.dialects))
	if ahead := o.gates.Enabled(features.PreDownloadImageForDaemonSetUpdate) && len(o.definitions.missing) == 0; ahead {
		if l.pulls == nil {
			if l.pulls, err = newPulls(l, o, cfg, nil); err != nil {
				return nil, err
			}
		}
		for i := range all {
			all[i].Predownload = true
		}
	}
	l.newHolds(o, index)
	if l.feed, err = l.newFeed(cfg, index, dynamicClient, all); err != nil {
		return nil, err
	}
	pace := executor.NewPace(realClock, client.CoreV1().RESTClient().GetRateLimiter().Wait, executor.Sleep)
	if t != nil {
		pace.Leads = t.holds
	}
	l.metrics.Window, l.metrics.Reading, l.metrics.Policies = pace.Window, l.reads, func() []v1alpha1.RolloutPolicy { return l.policies.Policies() }
	l.policies = policies.New(policies.Options{
		Client: dynamicClient, Discovery: client.Discovery(), Clock: realClock,
		Changed:  func(namespace string) { l.controller.EnqueueNamespace(namespace) },
		Selected: l.selected, Check: l.analyses.Check, Send: l.notices.Send,
	})
	l.controller = daemonset.New(daemonset.Options{
		Dialects: all, Index: index, Clock: realClock, Events: recorder, Observer: l.observer(), Workers: o.concurrentSyncs,
		Revisions: executor.NewRevisions(revisions), Sets: daemonset.NewSets(sets, resourcesOf(all)), Templates: daemonset.NewTemplates(sets, resourcesOf(all)),
		PullJobs: l.pullJobs(), ImagesInPlace: l.imagesInPlace(o), Policies: l.policies, Analyses: l.analyses, Notices: l.policies, Late: l.late.Load, UpstreamWorks: l.upstream,
		Executor: &executor.Executor{
			Index: index, Pods: executor.NewPods(client), Pace: pace, Events: recorder, Clock: realClock, Count: l.metrics.Count,
			Slow: l.slow.Lane(client),
		},
	})
	return l, nil
}

// selected returns the sets that a policy selects; known is whether all sets of its kinds have been read.
func (l *leader) selected(p *policy.Policy) (sets []policy.Set, known bool) {
	return l.controller.Selected(p), l.synced.Load() && !(p.Advanced() && l.late.Load())
}

// resourcesOf returns the resource of each dialect.
func resourcesOf(all []dialect.Dialect) map[string]schema.GroupVersionResource {
	resources := map[string]schema.GroupVersionResource{}
	for _, d := range all {
		resources[d.Source.Dialect] = d.Source.Resource
	}
	return resources
}

// newClients returns two clients of an API server: one for built-in resources and one for any resource.
func newClients(cfg *rest.Config) (*kubernetes.Clientset, *dynamic.DynamicClient, error) {
	protobuf := rest.CopyConfig(cfg)
	protobuf.AcceptContentTypes, protobuf.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	typed, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	untyped, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	return typed, untyped, nil
}

// newFeed returns the informers that fill the index, and that pass nodes on to image pulls and holds if these are served.
func (l *leader) newFeed(cfg *rest.Config, index *clustercache.Index, d dynamic.Interface, all []dialect.Dialect) (*informers.Feed, error) {
	pods, err := informers.NewPods(cfg)
	if err != nil {
		return nil, err
	}
	f := &informers.Feed{Index: index, Client: l.client, Pods: pods, Dynamic: d, Restored: l.goneBack, Late: l.lateChanged}
	for i := range all {
		source := all[i].Source
		source.Optional = len(all) > 1 && dialects.Served([]string{source.Dialect})[0].Optional
		f.Sources = append(f.Sources, source)
	}
	if l.nodes != nil {
		f.Nodes = l.nodes
	}
	return f, nil
}

// guarded starts a guard, unless its feature gate is off, and returns a function that reports whether the dialect may
// write.
func (l *leader) guarded(o *options, g guard) (mayWrite func() bool) {
	if !o.gates.Enabled(features.ConflictProbe) {
		return func() bool { return true }
	}
	l.guards = append(l.guards, g)
	return g.MayWrite
}

// guard returns what detects other controllers that are active for a dialect: by the lease of its peer, or with the probe if it has no peer.
func (l *leader) guard(o *options, r *dialect.Registration, events record.EventRecorder) guard {
	settle, changed := l.settle(r.Name), l.mayWriteChanged(r.Name)
	if r.Peer != nil {
		return conflict.NewLeaseGuard(*r.Peer, conflict.LeaseOptions{Client: l.client, Clock: clock.RealClock{}, Settle: settle, Changed: changed})
	}
	g := conflict.New(conflict.Options{Client: l.client, Namespace: o.namespace, Events: events, Clock: clock.RealClock{}, Settle: settle, Changed: changed})
	l.upstream = g.Other
	return g
}

// build returns the dialects that are served. Image pulls belong to the dialect of OpenKruise.
func (l *leader) build(o *options, cfg *rest.Config, events record.EventRecorder) (all []dialect.Dialect, err error) {
	l.upstream = func() bool { return true } // until the dialect native is built, and with it what looks for another controller
	all = dialects.Build(dialects.Served(o.dialects), func(r *dialect.Registration) dialect.Setting {
		mayWrite := func() bool { return true }
		if !r.Alongside {
			mayWrite = l.guarded(o, l.guard(o, r, events))
		}
		if r.Name == dialects.Kruise && len(o.definitions.missing) == 0 {
			l.pulls, err = newPulls(l, o, cfg, mayWrite)
		}
		return dialect.Setting{
			Namespace: o.namespace, MayWrite: mayWrite, NoResize: !o.gates.Enabled(features.InPlaceWorkloadVerticalScaling),
			MayHold: func(namespace string) bool { return slices.Contains(o.comeBackFirstNamespaces, namespace) },
		}
	})
	return all, err
}

// mayWriteChanged returns the function that a guard of the dialect calls when its result has changed.
func (l *leader) mayWriteChanged(dialect string) func(mayWrite bool) {
	return func(mayWrite bool) {
		l.metrics.Conflict(dialect, !mayWrite || dialect == dialects.Kruise && l.late.Load())
		if mayWrite {
			for _, d := range l.controller.Dialects {
				l.controller.EnqueueAll(d.Source.Dialect)
			}
		}
		if mayWrite && dialect == dialects.Kruise && l.pulls != nil {
			l.pulls.resume()
		}
		if mayWrite && dialect == dialects.Kruise && l.holds != nil {
			l.holds.EnqueueAll()
		}
	}
}

// lateChanged records whether the sets of a dialect are not read yet, while the others are served.
func (l *leader) lateChanged(dialect string, late bool) {
	if l.late.Swap(late) == late {
		return
	}
	if !late {
		l.controller.EnqueueNamespace(metav1.NamespaceAll) // sets of concurrency groups wait for that
		l.policies.WriteAll()
	}
	for _, d := range l.controller.Dialects {
		if d.Source.Dialect == dialect {
			l.metrics.Conflict(dialect, late || !d.MayWrite())
		}
	}
}

// Start implements manager.Runnable: it runs until ctx ends and returns when everything has stopped.
func (l *leader) Start(ctx context.Context) error {
	log := klog.FromContext(ctx)
	l.working.Store(true)
	for _, name := range l.served {
		log.Info("Serving a dialect", "dialect", name, "does", dialects.Servings(l.served)[name])
	}
	l.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: l.client.CoreV1().Events("")})
	defer l.events.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	l.abandon = cancel
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // this also stops the guards and the watches
	for _, g := range l.guards {
		wg.Go(func() { g.Run(ctx) })
	}
	if err := l.fence(ctx); err != nil {
		return nil
	}
	if l.pulls != nil {
		wg.Go(func() { l.pulls.run(ctx) })
	}
	for _, f := range l.files {
		wg.Go(func() { f.Run(ctx) })
	}
	wg.Go(func() { l.policies.Run(ctx) })
	wg.Go(func() { l.analyses.Run(ctx) })
	wg.Go(func() { l.notices.Run(ctx) })
	began := time.Now()
	defer l.feed.Wait()
	defer cancel()
	if err := l.feed.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return l.ended()
		}
		if apierrors.IsNotFound(err) { // a CRD was just deleted, or is not served yet
			return fmt.Errorf("%w: reading the cluster: %w", errDefinitions, err)
		}
		return fmt.Errorf("reading the cluster: %w", err)
	}
	if !l.policies.Await(ctx, policiesPatience) && ctx.Err() == nil {
		log.Error(nil, "Could not read the rollout policies yet; no update of a node starts before they have been read")
	}
	l.synced.Store(true)
	l.policies.WriteAll()
	log.Info("Read the cluster", "took", time.Since(began))
	if l.holds != nil {
		wg.Go(func() { l.hold(ctx) })
	}
	l.controller.Run(ctx)
	l.controller.Executor.Slow.Wait()
	return l.ended()
}

// policiesPatience is how long a leader waits for the rollout policies before it serves sets without them, where it starts no update then.
const policiesPatience = 10 * time.Second

// restoredError reports that the storage of the API server was restored to an earlier state.
type restoredError struct{ resource, seen, has string }

// Error implements error.
func (e *restoredError) Error() string {
	return fmt.Sprintf("the storage of the API server was restored from an earlier moment: the version of %s was %s, and is %s now", e.resource, e.seen, e.has)
}

// Is makes the manager start again after this error.
func (e *restoredError) Is(target error) bool { return target == errAgain }

// goneBack stops all work immediately: the index may contain objects that no longer exist, and decisions based on it
// could delete objects that exist now.
func (l *leader) goneBack(resource, seen, has string) {
	l.restored.CompareAndSwap(nil, &restoredError{resource, seen, has})
	l.abandon()
}

func (l *leader) ended() error {
	if err := l.restored.Load(); err != nil {
		return err
	}
	return nil
}

// newSlowLease returns the lease of slow writes of this process.
func newSlowLease(client kubernetes.Interface, namespace string) *executor.SlowLease {
	return executor.NewSlowLease(client.CoordinationV1().Leases(namespace), string(uuid.NewUUID()), clock.RealClock{})
}

// fence waits until no write of an earlier leader can take effect any more, so that what is read afterwards stays
// valid.
func (l *leader) fence(ctx context.Context) error {
	wait := l.fenceTime(ctx)
	if wait == 0 {
		return nil
	}
	if wait > executor.Fence && l.leaseGuard != nil {
		defer l.leaseGuard.bind()()
	}
	klog.FromContext(ctx).Info("Waiting until no write of the last leader can take effect any more", "for", wait)
	if err := pause(ctx, wait); err != nil {
		return err
	}
	if wait >= executor.SlowFence {
		l.slow.TakeOver(ctx)
	}
	return nil
}

// fenceTime returns how long a write of an earlier leader may still take effect. Without leader election, a process may
// have been killed just before.
func (l *leader) fenceTime(ctx context.Context) time.Duration {
	unknown := l.leaseGuard == nil || l.isNew(ctx)
	if unknown && !l.anySet(ctx) {
		return 0
	}
	wait := l.slow.Fence(ctx)
	if unknown && l.leaseGuard != nil {
		wait += l.leaseGuard.deadline
	}
	return wait
}

// isNew reports whether the lease may have been created for this manager. There may still have been a leader before: if
// its lease is deleted, it continues until it notices that, at the latest until its renew deadline.
func (l *leader) isNew(ctx context.Context) bool {
	lease, err := l.client.CoordinationV1().Leases(l.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	return err != nil || lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions == 0
}

// anySet reports whether there is a set that an earlier leader may have written for. A manager that is not allowed to list sets cannot start, and without a
// CRD there are no sets.
func (l *leader) anySet(ctx context.Context) bool {
	for _, source := range l.feed.Sources {
		sets, err := l.feed.Dynamic.Resource(source.Resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) || err == nil && len(sets.Items) > 0 {
			return true
		}
	}
	return false
}

// settle returns the function that a guard of the dialect calls: it waits until no write of another controller that has
// just stopped can take effect any more, and reads the cluster again. The duration of a write of the other controller
// is unknown; it is assumed to be similar to ours.
func (l *leader) settle(dialect string) conflict.Settle {
	return func(ctx context.Context) error {
		klog.FromContext(ctx).Info("Another controller has ended: waiting until no write of it can take effect any more", "dialect", dialect, "for", executor.Fence)
		if err := pause(ctx, executor.Fence); err != nil {
			return err
		}
		if dialect == dialects.Kruise && l.pulls != nil { // of the other controllers, only OpenKruise's manager also handles image pulls
			if err := l.pulls.catchUp(ctx); err != nil {
				return err
			}
		}
		if err := l.feed.Start(ctx); err != nil {
			return err
		}
		return l.feed.Await(ctx, dialect)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
