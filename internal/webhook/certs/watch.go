// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic/dynamicinformer"
	informers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"everynode.dev/everynode/internal/dialect/kruise"
)

// Changes by others are repaired at once, but a program that writes the same field again and again is not answered
// faster than this: repairs at once, and the time until the next one is allowed.
const (
	repairs = 5
	restore = 10 * time.Second
)

// watch returns a channel that receives when one of the objects of p has changed. A client that replaces a configuration
// or a CRD takes away how the API server reaches the webhooks: until it is published again, no Advanced DaemonSet
// can be written, or its versions are not converted. A watch that fails is repeated; p looks once per interval anyway.
func (p *Publisher) watch(ctx context.Context) <-chan struct{} {
	changed, wake := make(chan struct{}, 1), make(chan struct{})
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default: // there is a notification already
		}
	}
	named := func(name string) func(*metav1.ListOptions) {
		return func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	indexers := cache.Indexers{}
	watched := []cache.SharedIndexInformer{
		informers.NewFilteredMutatingWebhookConfigurationInformer(p.Client, 0, indexers, named(p.Mutating)),
		informers.NewFilteredValidatingWebhookConfigurationInformer(p.Client, 0, indexers, named(p.Validating)),
	}
	for _, name := range p.CRDs {
		watched = append(watched, dynamicinformer.NewFilteredDynamicInformer(p.Dynamic, kruise.Definitions(), metav1.NamespaceAll, 0, indexers, named(name)).Informer())
	}
	for _, w := range watched {
		_, _ = w.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only for an informer that has stopped
			AddFunc: notify, UpdateFunc: func(_, is any) { notify(is) }, DeleteFunc: notify,
		})
		go w.RunWithContext(ctx)
	}
	go func() {
		limit := flowcontrol.NewTokenBucketRateLimiter(float32(1/restore.Seconds()), repairs)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if limit.Wait(ctx) != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case wake <- struct{}{}:
			}
		}
	}()
	return wake
}
