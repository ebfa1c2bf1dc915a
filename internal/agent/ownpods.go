// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"everynode.dev/everynode/internal/agent/kube"
	nodestore "everynode.dev/everynode/internal/agent/store"
)

// saveInterval is the minimum time between two writes of the pods to disk, because flash storage wears out.
const saveInterval = 5 * time.Second

// ownPods are the pods of the node: from the watch or, before it has synced, from disk.
type ownPods struct {
	informer cache.SharedInformer
	disk     *nodestore.Store
	changed  chan struct{}
}

// newOwnPods returns ownPods that have read nothing yet. notify is called after every change.
func newOwnPods(c *kube.Client, node string, disk *nodestore.Store, notify func()) (*ownPods, error) {
	p := &ownPods{
		informer: cache.NewSharedInformer(c.OwnPods(node), &corev1.Pod{}, 0), disk: disk, changed: make(chan struct{}, 1),
	}
	noteChange := func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
		notify()
	}
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { noteChange() }, UpdateFunc: func(any, any) { noteChange() }, DeleteFunc: func(any) { noteChange() },
	})
	return p, cmp.Or(err, p.informer.SetTransform(withoutManagedFields))
}

// withoutManagedFields drops fields that the agent does not read.
func withoutManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// Pods implements rest.Pods.
func (p *ownPods) Pods() (pods []*corev1.Pod, seen bool, err error) {
	if pods, seen := p.live(); seen {
		return pods, true, nil
	}
	return p.disk.Pods()
}

// live returns the pods from the watch; seen is false before it has synced.
func (p *ownPods) live() (pods []*corev1.Pod, seen bool) {
	if !p.informer.HasSynced() {
		return nil, false
	}
	for _, object := range p.informer.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return pods, true
}

// run watches pods until ctx ends, and saves them to disk.
func (p *ownPods) run(ctx context.Context) {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		p.informer.RunWithContext(ctx)
	}()
	if cache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced) {
		p.keep(ctx)
	}
	<-watched
	if p.informer.HasSynced() { // the next agent may start without the cluster
		p.save()
	}
}

// keep saves the pods when they have changed, at most once every saveInterval.
func (p *ownPods) keep(ctx context.Context) {
	p.save()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(saveInterval):
		}
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
			p.save()
		}
	}
}

func (p *ownPods) save() {
	pods, _, err := p.Pods()
	if err == nil {
		err = p.disk.SavePods(pods)
	}
	if err != nil {
		klog.ErrorS(err, "Saving the pods of the node failed")
	}
}
