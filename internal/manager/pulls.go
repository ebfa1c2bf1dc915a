// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/controller/imagepull"
	"everynode.dev/everynode/internal/controller/metrics"
	"everynode.dev/everynode/internal/controller/nodeimage"
	"everynode.dev/everynode/internal/controller/pullstore"
	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/features"
)

// The components of events about image pulls, as in OpenKruise.
const (
	jobEvents       = "imagepulljob-controller"
	nodeImageEvents = "nodeimage-controller"
)

// pulls are the controllers for image pulls, and the functions that the controller of sets uses.
type pulls struct {
	store   *pullstore.Store
	watches *pullstore.Watches
	ahead   *pullstore.PullJobs // nil if no images are pulled before an update
	// jobs and images are nil if another manager is active for them, such as OpenKruise's.
	jobs   *imagepull.Controller
	images *nodeimage.Controller

	// count counts image pulls; it is set after the initial lists.
	count atomic.Pointer[func() (metrics.Pulls, error)]
}

// newPulls returns the parts for image pulls. Their controllers belong to the dialect kruise, because its webhooks do;
// mayWrite is its guard. The other dialects only create jobs.
func newPulls(l *leader, o *options, cfg *rest.Config, mayWrite func() bool) (*pulls, error) {
	watches, store, err := pullstore.NewWatches(cfg)
	if err != nil {
		return nil, err
	}
	p := &pulls{store: store, watches: watches}
	l.metrics.Pulls = p.numbers
	serves := slices.Contains(o.dialects, dialects.Kruise)
	// Also while no update waits, so that jobs go that were made before.
	if serves || o.gates.Enabled(features.PreDownloadImageForDaemonSetUpdate) {
		writes, err := client.New(unlimited(cfg), client.Options{Scheme: store.Live().Scheme(), Mapper: store.Live().RESTMapper()})
		if err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
		}
		p.ahead = watches.PullJobs(store, writes, func(set types.UID) { l.controller.PullsChanged(set) })
	}
	if !serves {
		return p, nil
	}
	realClock := clock.RealClock{}
	ofJobs := l.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: jobEvents})
	p.jobs = imagepull.New(imagepull.Options{
		Store: store, Watches: watches, Pods: watches.Pods, Events: ofJobs, Clock: realClock, MayWrite: mayWrite,
		Secrets: imagepull.NewSecrets(store.Live(), ofJobs, realClock, o.pullSecretNamespaces),
		Order:   l.orderOf,
	})
	p.images = nodeimage.New(store, l.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: nodeImageEvents}), realClock, mayWrite)
	if p.ahead != nil {
		p.ahead.Refused = p.jobs.Refused
	}
	p.jobs.Watch()
	p.images.Watch(watches)
	return p, nil
}

// pullsEvery is how often a cluster without the CRDs for image pulls is checked again.
const pullsEvery = 30 * time.Second

// await waits until the CRDs for image pulls exist, and logs once what is missing. It returns false if ctx has
// ended before.
func (p *pulls) await(ctx context.Context) bool {
	told := ""
	for ctx.Err() == nil {
		missing, err := p.store.Missing(ctx)
		if err == nil && missing == "" {
			return true
		}
		pause := time.Second
		if missing != "" {
			pause = pullsEvery
			if p.ahead != nil {
				p.ahead.Missing(missing)
			}
		} else if ctx.Err() == nil {
			missing = err.Error()
		}
		if missing != told {
			klog.FromContext(ctx).Info("Image pulls are not worked on", "why", missing)
			told = missing
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return false
}

// run runs until ctx ends. The controller of sets does not wait for it, because it works without image pulls too.
func (p *pulls) run(ctx context.Context) {
	if !p.await(ctx) {
		return
	}
	ended, err := p.watches.Start(ctx)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Image pulls are not worked on")
		}
		return
	}
	count := func() (metrics.Pulls, error) { return p.store.PullMetrics(ctx) }
	p.count.Store(&count)
	if p.ahead != nil {
		p.ahead.Started()
	}
	var wg sync.WaitGroup
	if p.jobs != nil {
		wg.Go(func() { p.jobs.Run(ctx) })
		wg.Go(func() { p.images.Run(ctx) })
	}
	wg.Wait()
	<-ended
}

// numbers returns the counts of image pulls, if known.
func (p *pulls) numbers() (metrics.Pulls, bool) {
	count := p.count.Load()
	if count == nil {
		return metrics.Pulls{}, false
	}
	n, err := (*count)()
	return n, err == nil
}

// catchUp waits until the informers have seen all earlier writes of other clients. Informers that are not started yet
// read the current state anyway.
func (p *pulls) catchUp(ctx context.Context) error {
	if p.count.Load() == nil {
		return nil
	}
	return p.store.CatchUp(ctx)
}

// resume reconciles everything again after a time without writes.
func (p *pulls) resume() {
	p.jobs.EnqueueAll()
	p.images.EnqueueAll()
}

// pullJobs returns the ImagePullJobs for the controller of sets; nil if no images are pulled before an update.
func (l *leader) pullJobs() daemonset.PullJobs {
	if l.pulls == nil || l.pulls.ahead == nil {
		return nil
	}
	return l.pulls.ahead
}

// imagesInPlace returns how changes in place wait for images that their set has not asked to wait; nil if they do not.
func imagesInPlace(o *options) *daemonset.ImagesInPlace {
	if !o.imagesInPlace {
		return nil
	}
	return &daemonset.ImagesInPlace{MayCopySecrets: func(namespace string) bool { return slices.Contains(o.pullSecretNamespaces, namespace) }}
}

// imagesInPlace is the function of that name, with jobs that serve the nodes that a set releases.
func (l *leader) imagesInPlace(o *options) *daemonset.ImagesInPlace {
	how := imagesInPlace(o)
	if how != nil {
		how.JobReleased = l.jobReleased
	}
	return how
}

// jobReleased asks for a pass for a job, if this manager works on jobs.
func (l *leader) jobReleased(job types.NamespacedName) {
	if l.pulls != nil && l.pulls.jobs != nil {
		l.pulls.jobs.Enqueue(job)
	}
}

// orderOf returns the order in which the set that controls a job updates its nodes, and which nodes it does not serve yet.
func (l *leader) orderOf(job *v1beta1.ImagePullJob) (first []string, held map[string]bool) {
	owner := metav1.GetControllerOfNoCopy(job)
	if owner == nil {
		return nil, nil
	}
	return l.controller.Order(owner.UID)
}
