// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Witness counts independently what happens to the pods of the set, from one uninterrupted watch of the API server.
type Witness struct {
	mu    sync.Mutex
	tally *tally
	// lost is the reason why the watch has ended, or nil.
	lost error
	done chan struct{}
}

// watchPods starts a Witness. It ends with ctx; wait waits for that.
func watchPods(ctx context.Context, client kubernetes.Interface, t *tally) (*Witness, error) {
	options := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: podLabels()})}
	list, err := client.CoreV1().Pods(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("listing the pods to begin the count: %w", err)
	}
	// A retrying watch continues at the same version after a lost connection, so no state of a pod is missed.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = options.LabelSelector
			return client.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching the pods: %w", err)
	}
	w := &Witness{tally: t, done: make(chan struct{})}
	for i := range list.Items {
		w.take(watch.Event{Type: watch.Added, Object: &list.Items[i]})
	}
	go w.run(ctx, events)
	return w, nil
}

func (w *Witness) run(ctx context.Context, events *watchtools.RetryWatcher) {
	defer close(w.done)
	defer events.Stop()
	for event := range events.ResultChan() {
		w.take(event)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil && w.lost == nil {
		w.lost = fmt.Errorf("the watch of the pods ended, so the count is not complete")
	}
}

func (w *Witness) wait() { <-w.done }

func (w *Witness) take(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now()
	switch pod, _ := event.Object.(*corev1.Pod); {
	case event.Type == watch.Error:
		w.lost = fmt.Errorf("the watch of the pods failed, so the count is not complete: %v", event.Object)
	case pod == nil:
	case event.Type == watch.Deleted:
		w.tally.remove(at, pod.UID)
	default:
		w.tally.put(at, pod.UID, factsOf(pod))
	}
}

// ask calls f with the tally, to read or to change it.
func (w *Witness) ask(f func(t *tally)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.tally)
	return w.lost
}
