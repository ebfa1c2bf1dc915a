// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
)

// patience is how long Finish waits for the last events.
const patience = 2 * time.Minute

// Recorder records the log of one set from an API server until it is finished.
type Recorder struct {
	rules    Rules
	sources  []source
	patience time.Duration
	cancel   context.CancelFunc
	readers  sync.WaitGroup

	mu  sync.Mutex
	log []Event
	err error
}

// Record lists pods, nodes and the set once, and then watches them. The set need not exist yet.
func Record(ctx context.Context, client kubernetes.Interface, namespace, name string) (*Recorder, error) {
	rules := Rules{Namespace: namespace, Name: name, Eligible: upstreamEligible}
	return record(ctx, rules, sourcesOf(client, namespace, name))
}

// Clients are the clients for an Advanced DaemonSet, for which there is no generated client.
type Clients struct {
	Typed   kubernetes.Interface
	Dynamic dynamic.Interface
}

// RecordAdvanced is Record for an Advanced DaemonSet.
func RecordAdvanced(ctx context.Context, clients Clients, namespace, name string) (*Recorder, error) {
	rules := Rules{Namespace: namespace, Name: name, Eligible: upstreamEligible}
	sources := sourcesOf(clients.Typed, namespace, name)
	sources[0] = advancedSource(clients.Dynamic, namespace, name)
	return record(ctx, rules, sources)
}

func record(ctx context.Context, rules Rules, sources []source) (*Recorder, error) {
	r := &Recorder{rules: rules, sources: sources, patience: patience}
	starts := make([]string, len(r.sources))
	for i, s := range r.sources {
		version, objects, err := s.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing %s to observe %s/%s: %w", s.name, rules.Namespace, rules.Name, err)
		}
		if err := r.begin(version, objects); err != nil {
			return nil, err
		}
		starts[i] = version
	}
	ctx, r.cancel = context.WithCancel(ctx)
	for i, s := range r.sources {
		if s.renewed {
			r.readers.Go(func() { r.followRenewed(ctx, s, starts[i]) })
			continue
		}
		if err := r.follow(ctx, s, starts[i]); err != nil {
			r.cancel()
			return nil, err
		}
	}
	return r, nil
}

// upstreamEligible calls the native controller's own function, as upstream's end-to-end tests do.
func upstreamEligible(node *corev1.Node, set *appsv1.DaemonSet) bool {
	should, _ := daemon.NodeShouldRunDaemonPod(klog.Background(), node, set)
	return should
}

// begin adds the objects of a first list to the log.
func (r *Recorder) begin(version string, objects []metav1.Object) error {
	from, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return fmt.Errorf("reading the resourceVersion %q of a list: %w", version, err)
	}
	r.rules.From = max(r.rules.From, from)
	for _, object := range objects {
		event, err := NewEvent(watch.Added, object, time.Now())
		if err != nil {
			return err
		}
		r.log = append(r.log, event)
	}
	return nil
}

// follow reads one watch until the context ends. An interrupted watch continues where it ended; if that is not possible
// because the API server no longer has the versions in between, the run fails.
func (r *Recorder) follow(ctx context.Context, s source, from string) error {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := s.watch(ctx, options)
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				r.fail(fmt.Errorf("the watch of %s expired at version %s, events after it are lost: %w", s.name, options.ResourceVersion, err))
			}
			return w, err
		},
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", s.name, err)
	}
	r.readers.Go(func() { r.read(ctx, s, watcher) })
	return nil
}

func (r *Recorder) read(ctx context.Context, s source, watcher watch.Interface) {
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, isObject := event.Object.(metav1.Object)
		if !isObject || event.Type == watch.Error {
			r.fail(fmt.Errorf("watching %s: %w", s.name, apierrors.FromObject(event.Object)))
			continue
		}
		object, err := s.read(object)
		if err != nil {
			r.fail(err)
			continue
		}
		recorded, err := NewEvent(event.Type, object, time.Now())
		if err != nil {
			r.fail(err)
			continue
		}
		r.mu.Lock()
		r.log = append(r.log, recorded)
		r.mu.Unlock()
	}
	if ctx.Err() == nil {
		r.fail(fmt.Errorf("the watch of %s ended before the observation did", s.name))
	}
}

// fail keeps the first error.
func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// Excuse marks a pod that another client than the controller deletes.
func (r *Recorder) Excuse(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rules.Excused == nil {
		r.rules.Excused = map[types.UID]bool{}
	}
	r.rules.Excused[uid] = true
}

// Report checks the log so far.
func (r *Recorder) Report() Report {
	r.mu.Lock()
	rules := r.rules
	rules.Excused = maps.Clone(r.rules.Excused)
	r.mu.Unlock()
	return Judge(r.Log(), rules)
}

// Log returns a sorted copy of the log so far.
func (r *Recorder) Log() []Event {
	r.mu.Lock()
	log := slices.Clone(r.log)
	r.mu.Unlock()
	Sort(log)
	return log
}

// PodEvents returns the number of pod events so far.
func (r *Recorder) PodEvents() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, event := range r.log {
		if _, ok := event.Object.(*corev1.Pod); ok {
			count++
		}
	}
	return count
}

// Finish waits until everything that happened before the call is in the log, stops and checks it. An error means that
// the recording has failed; violations are in the report (Report.Err).
func (r *Recorder) Finish(ctx context.Context) (Report, error) {
	err := r.catchUp(ctx)
	r.cancel()
	r.readers.Wait()
	return r.Report(), errors.Join(r.failure(), err)
}

func (r *Recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// catchUp checks that the log is complete: its state at the version of a new list must equal that list.
func (r *Recorder) catchUp(ctx context.Context) error {
	for _, s := range r.sources {
		version, objects, err := s.list(ctx)
		if err != nil {
			return fmt.Errorf("listing %s to finish the observation: %w", s.name, err)
		}
		upTo, err := strconv.ParseUint(version, 10, 64)
		if err != nil {
			return fmt.Errorf("reading the resourceVersion %q of a list: %w", version, err)
		}
		want := map[types.UID]string{}
		for _, object := range objects {
			want[object.GetUID()] = object.GetResourceVersion()
		}
		err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, r.patience, true, func(context.Context) (bool, error) {
			return maps.Equal(want, r.played(s, upTo)), r.failure()
		})
		if err != nil {
			return fmt.Errorf("the events of %s recorded up to version %s do not add up to the list of that version: %w", s.name, version, err)
		}
	}
	return nil
}

// played returns the version of each object of a source after the events up to a version.
func (r *Recorder) played(s source, upTo uint64) map[types.UID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := map[types.UID]string{}
	for _, event := range r.log {
		if event.Version > upTo || !s.holds(event.Object) {
			continue
		}
		if event.Type == watch.Deleted {
			delete(state, event.Object.GetUID())
			continue
		}
		state[event.Object.GetUID()] = event.Object.GetResourceVersion()
	}
	return state
}
