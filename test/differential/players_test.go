// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"everynode.dev/everynode/internal/dialect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	feed "everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/rollout"
)

// player runs one of the two controllers in the cluster until ctx ends; started returns once it has begun to watch.
type player func(ctx context.Context, t *testing.T, c *cluster, stopped *sync.WaitGroup)

// upstream is the native controller, started as kube-controller-manager does it.
func upstream(ctx context.Context, t *testing.T, c *cluster, stopped *sync.WaitGroup) {
	client := c.client()
	shared := informers.NewSharedInformerFactory(client, 0)
	apps, core := shared.Apps().V1(), shared.Core().V1()
	dsc, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), client,
		flowcontrol.NewBackOff(time.Second, 15*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	shared.Start(ctx.Done())
	stopped.Go(func() { dsc.Run(ctx, 2) })
	stopped.Go(func() {
		<-ctx.Done()
		shared.Shutdown()
	})
}

// ours is the native dialect: loop, executor, index and feed as the manager wires them.
func ours(ctx context.Context, t *testing.T, c *cluster, stopped *sync.WaitGroup) {
	client := c.client()
	source := dialect.Source{
		Dialect: "native", Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: sets}, Kind: "DaemonSet", Digest: native.Digest,
	}
	dyn := dynamicSets{client: client}
	var controller *daemonset.Controller
	index := clustercache.NewIndex(func(key clustercache.Key) { controller.Enqueue(key) })
	events := &record.FakeRecorder{}
	pace := executor.NewPace(clock.RealClock{}, func(context.Context) error { return nil }, executor.Sleep)
	controller = daemonset.New(daemonset.Options{
		Dialects: []dialect.Dialect{{
			Source: source, GVK: source.Resource.GroupVersion().WithKind(source.Kind), StatusPatch: native.StatusPatch,
			MayWrite: func() bool { return true },
			Texts: &dialect.Texts{
				Created: native.ReasonSuccessfulCreate, CreatedText: native.MessageSuccessfulCreate,
				CreateFailed: native.ReasonFailedCreate, CreateFailedText: native.MessageFailedCreate,
				Deleted: native.ReasonSuccessfulDelete, DeletedText: native.MessageSuccessfulDelete,
				DeleteFailed: native.ReasonFailedDelete, DeleteFailedText: native.MessageFailedDelete, Note: native.Event,
			},
		}},
		Index: index, Revisions: executor.NewRevisions(client), Events: events, Clock: clock.RealClock{}, Observer: unobserved{}, Workers: 2,
		Sets: daemonset.NewSets(dyn, map[string]schema.GroupVersionResource{source.Dialect: source.Resource}),
		Executor: &executor.Executor{
			Index: index, Pods: rawPods{client}, Pace: pace, Events: events, Clock: clock.RealClock{}, Count: func(string, apply.Answer) {},
		},
	})
	f := &feed.Feed{Index: index, Client: client, Dynamic: dyn, Sources: []dialect.Source{source}}
	if err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	stopped.Go(func() { controller.Run(ctx) })
	stopped.Go(func() {
		<-ctx.Done()
		f.Wait()
	})
}

type unobserved struct{}

func (unobserved) Decided(clustercache.Key, *rollout.Snapshot, *rollout.Plan, time.Duration) {}
func (unobserved) Forgotten(clustercache.Key)                                                {}
func (unobserved) Refused(clustercache.Key)                                                  {}
func (unobserved) Wrote(string, error)                                                       {}

// quiet is for how long nothing may change until a cluster is taken to be at rest: longer than anything waits in these stories, but for
// the native controller, which waits for an event that it has missed for 5 minutes (controller.ExpectationsTimeout); so a longer time
// has to follow in which nothing changes either.
const quiet, long = time.Minute, 6 * time.Minute

// play lets a player act on a state, while the acts of a step happen, until the cluster is at rest. The state that it leaves is nil if that
// does not happen.
func play(t *testing.T, who player, from *state, acts []act) *state {
	t.Helper()
	var end *state
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(from.at)) // a bubble's time begins anew
		c := newCluster(from)
		ctx, cancel := context.WithCancel(t.Context())
		var stopped sync.WaitGroup
		who(ctx, t, c, &stopped)
		for i := range acts {
			c.mu.Lock()
			acts[i].do(c)
			c.mu.Unlock()
			c.pass(acts[i].then)
		}
		if c.rest() {
			end = c.leave()
		}
		cancel()
		stopped.Wait()
		time.Sleep(time.Minute) // for what else ends with them
	})
	return end
}

// pass lets time pass.
func (c *cluster) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		time.Sleep(time.Second)
		synctest.Wait()
		c.tick()
	}
}

// rest waits until nothing changes any more; false if that does not come.
func (c *cluster) rest() bool {
	for start := time.Now(); time.Since(start) < *patience; {
		version := c.last()
		for changed := time.Now(); time.Since(changed) < quiet; {
			c.pass(time.Second)
			if v := c.last(); v != version {
				version, changed = v, time.Now()
			}
			if time.Since(start) > *patience {
				return false
			}
		}
		time.Sleep(long)
		synctest.Wait()
		if c.last() == version {
			return true
		}
	}
	return false
}

func (c *cluster) last() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}
