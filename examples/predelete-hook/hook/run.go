// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// workers is for how many pods at once work is done.
const workers = 4

// Run releases pods until ctx ends. It is safe to run more than one of these at a time.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = 50, 100 // the default of 5 a second is little when many nodes go at once
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return RunWith(ctx, client, o)
}

// RunWith is Run with a client that is there already.
func RunWith(ctx context.Context, client kubernetes.Interface, o Options) error {
	if o.Label == "" && o.Finalizer == "" {
		return errors.New("there is nothing to release pods from: give a label or a finalizer, as in spec.lifecycle.preDelete")
	}
	if o.Work == nil {
		o.Work = Reserve(client, clock.RealClock{})
	}
	c := &controller{
		releaser: releaser{Options: o, client: client},
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(o.Namespace))
	pods := factory.Core().V1().Pods().Informer()
	c.pods = pods.GetStore()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.see,
		UpdateFunc: func(_, pod any) { c.see(pod) },
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil // ctx ended
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	running.Wait()
	return nil
}

// controller hands pods that may wait to a releaser, and tries again what has failed.
type controller struct {
	releaser
	pods  cache.Store
	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func (c *controller) see(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && c.waits(pod) {
		c.queue.Add(cache.MetaObjectToName(pod))
	}
}

func (c *controller) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.one(ctx, key); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "A pod could not be released; trying again", "pod", key.String())
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

func (c *controller) one(ctx context.Context, key cache.ObjectName) error {
	obj, exists, err := c.pods.GetByKey(key.String())
	pod, ok := obj.(*corev1.Pod)
	if err != nil || !exists || !ok {
		return err
	}
	return c.Release(ctx, pod)
}
