// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/controller/imagepull"
	"everynode.dev/everynode/internal/controller/nodeimage"
	"everynode.dev/everynode/internal/controller/pullstore"
)

// The components that events about image pulls come from, as with OpenKruise.
const (
	jobEvents       = "imagepulljob-controller"
	nodeImageEvents = "nodeimage-controller"
)

// pulls are the controllers for image pulls.
type pulls struct {
	store   *pullstore.Store
	watches *pullstore.Watches
	jobs    *imagepull.Controller
	images  *nodeimage.Controller
}

func newPulls(o *options, cfg *rest.Config, events record.EventBroadcaster, mayWrite func() bool) (*pulls, error) {
	watches, store, err := pullstore.NewWatches(cfg)
	if err != nil {
		return nil, err
	}
	realClock := clock.RealClock{}
	ofJobs := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: jobEvents})
	p := &pulls{
		store: store, watches: watches,
		jobs: imagepull.New(imagepull.Options{
			Store: store, Watches: watches, Events: ofJobs, Clock: realClock, MayWrite: mayWrite,
			Secrets: imagepull.NewSecrets(store.Live(), ofJobs, realClock, o.pullSecretNamespaces),
		}),
		images: nodeimage.New(store, events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: nodeImageEvents}), realClock, mayWrite),
	}
	p.jobs.Watch()
	p.images.Watch(watches)
	return p, nil
}

// run works until ctx ends. Daemon sets do not wait for it: without image pulls they work all the same.
func (p *pulls) run(ctx context.Context) {
	ended, err := p.watches.Start(ctx)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Image pulls are not worked on")
		}
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.jobs.Run(ctx) })
	wg.Go(func() { p.images.Run(ctx) })
	wg.Wait()
	<-ended
}

// resume looks at everything once more, after a time in which nothing was written.
func (p *pulls) resume() {
	p.jobs.EnqueueAll()
	p.images.EnqueueAll()
}

// pullJobs are the ImagePullJobs, for the loop over daemon sets; nil without the dialect of OpenKruise.
func (l *leader) pullJobs() daemonset.PullJobs {
	if l.pulls == nil {
		return nil
	}
	return l.pulls.store.PullJobs()
}

// orderOf asks the daemon set that controls a job in which order its nodes are served.
func orderOf(sets *daemonset.Controller) func(*v1beta1.ImagePullJob) []string {
	return func(job *v1beta1.ImagePullJob) []string {
		owner := metav1.GetControllerOfNoCopy(job)
		if owner == nil {
			return nil
		}
		return sets.Order(owner.UID)
	}
}
