// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
)

// podLog is every version of every pod of a namespace, in the order in which they were stored.
type podLog struct {
	done chan struct{}

	mu sync.Mutex
	// now are the pods that there are, by UID.
	now map[types.UID]*corev1.Pod
	// starts are the nodes in the order in which their pods were touched for the first time, or came.
	starts []start
	begun  map[string]bool
	// mostDown is the highest number of nodes that had a pod without one that is ready; mostDouble of those that have one that is
	// ready, and beside it one that is not ready yet. (Once both are, the old one is as good as gone: a pass deletes it, and begins the next node.)
	mostDown, mostDouble int
	// had are the nodes that count for that.
	had map[string]bool
	err error
}

// start is what was done first on a node.
type start struct{ node, what string }

func newLog(ctx context.Context, client kubernetes.Interface, namespace string) (*podLog, error) {
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	l := &podLog{done: make(chan struct{}), now: map[types.UID]*corev1.Pod{}, begun: map[string]bool{}, had: map[string]bool{}}
	for i := range list.Items {
		p := &list.Items[i]
		l.now[p.UID], l.had[p.Spec.NodeName] = p, true
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	l.measure()
	go func() {
		defer close(l.done)
		for event := range w.ResultChan() {
			l.take(event)
		}
	}()
	return l, nil
}

func (l *podLog) wait() { <-l.done }

// take takes one version of a pod.
func (l *podLog) take(event watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		l.err = fmt.Errorf("the watch has ended: %v", event.Object)
		return
	}
	before := l.now[pod.UID]
	if event.Type == watch.Deleted {
		delete(l.now, pod.UID)
	} else {
		l.now[pod.UID] = pod
	}
	node := nodeOf(pod)
	switch {
	case before == nil && event.Type != watch.Deleted:
		l.begin(node, "created")
	case event.Type == watch.Deleted || pod.DeletionTimestamp != nil:
		l.begin(node, "deleted")
	case closed(pod) && !closed(before), pod.Spec.Containers[0].Image != before.Spec.Containers[0].Image:
		l.begin(node, "changed")
	}
	l.measure()
}

func (l *podLog) begin(node, what string) {
	if !l.begun[node] {
		l.begun[node] = true
		l.starts = append(l.starts, start{node, what})
	}
}

// closed is whether the readiness gate for a change in place is closed.
func closed(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == kruise.InPlaceUpdateReady {
			return c.Status == corev1.ConditionFalse
		}
	}
	return false
}

// nodeOf is the node that a pod runs on, or was made for.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil {
		return p.Spec.NodeName
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// measure counts the nodes that are down or doubled now.
func (l *podLog) measure() {
	ready, coming := map[string]bool{}, map[string]bool{}
	for _, p := range l.now {
		switch {
		case p.DeletionTimestamp != nil:
		case harness.Ready(p):
			ready[nodeOf(p)] = true
		default:
			coming[nodeOf(p)] = true
		}
	}
	down, double := 0, 0
	for node := range l.had {
		if !ready[node] {
			down++
		}
	}
	for node := range coming {
		if ready[node] {
			double++
		}
	}
	l.mostDown, l.mostDouble = max(l.mostDown, down), max(l.mostDouble, double)
}

// forget lets nodes count for nothing, from the beginning: nothing is to run there.
func (l *podLog) forget(nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, node := range nodes {
		delete(l.had, node)
	}
}

// pods are the pods that there are, by node.
func (l *podLog) pods() map[string][]*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string][]*corev1.Pod{}
	for _, p := range l.now {
		all[nodeOf(p)] = append(all[nodeOf(p)], p)
	}
	return all
}

// seen are the starts so far, the highest numbers, and whether the log is broken.
func (l *podLog) seen() (starts []start, mostDown, mostDouble int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]start(nil), l.starts...), l.mostDown, l.mostDouble, l.err
}
