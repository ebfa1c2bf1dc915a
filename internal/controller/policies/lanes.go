// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
)

// writersOfLane is the number of concurrent writers of a queue, each for another namespace.
const writersOfLane = 16

// lanes orders the writes of statuses: those of a namespace are made one after the other, those of different namespaces at the same time. A webhook is for the objects
// of a namespace. So a namespace with a slow write gets a second queue with its own writers, until a write
// there is fast again. So it occupies a writer of the other namespaces only once. A namespace is in a queue
// only while a write is due.
type lanes struct {
	fast, slow workqueue.TypedInterface[string]

	mu sync.Mutex
	// due are the policies of each namespace whose status is to be written.
	due map[string]sets.Set[types.NamespacedName]
	// isSlow are the namespaces whose last write was slow. It changes only after a write, so no write of a namespace begins in one queue while one is under
	// way in the other.
	isSlow sets.Set[string]
}

func newLanes() *lanes {
	return &lanes{fast: workqueue.NewTyped[string](), slow: workqueue.NewTyped[string](), due: map[string]sets.Set[types.NamespacedName]{}, isSlow: sets.Set[string]{}}
}

// run writes until shutDown. write returns whether it was slow.
func (l *lanes) run(write func(name types.NamespacedName) (slow bool)) {
	var writers sync.WaitGroup
	for range writersOfLane {
		for _, queue := range []workqueue.TypedInterface[string]{l.fast, l.slow} {
			writers.Go(func() {
				for l.next(queue, write) {
				}
			})
		}
	}
	writers.Wait()
}

func (l *lanes) shutDown() {
	l.fast.ShutDown()
	l.slow.ShutDown()
}

// add lets a status be written.
func (l *lanes) add(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due[name.Namespace] == nil {
		l.due[name.Namespace] = sets.Set[types.NamespacedName]{}
	}
	l.due[name.Namespace].Insert(name)
	l.queueOf(name.Namespace).Add(name.Namespace)
}

// queueOf is the queue of a namespace. The lock is held.
func (l *lanes) queueOf(namespace string) workqueue.TypedInterface[string] {
	if l.isSlow.Has(namespace) {
		return l.slow
	}
	return l.fast
}

// next executes a write for the next namespace of a queue, and reports whether there may be more.
func (l *lanes) next(queue workqueue.TypedInterface[string], write func(name types.NamespacedName) (slow bool)) bool {
	namespace, stop := queue.Get()
	if stop {
		return false
	}
	defer queue.Done(namespace)
	if name, is := l.take(namespace, queue); is {
		l.wrote(namespace, write(name))
	}
	return true
}

// take returns the pending writes of a namespace, unless it now belongs to the other queue.
func (l *lanes) take(namespace string, queue workqueue.TypedInterface[string]) (name types.NamespacedName, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.queueOf(namespace); of != queue {
		of.Add(namespace)
		return name, false
	}
	name, is = l.due[namespace].PopAny()
	return name, is
}

// wrote records a write.
func (l *lanes) wrote(namespace string, slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slow {
		l.isSlow.Insert(namespace)
	} else {
		l.isSlow.Delete(namespace)
	}
	if len(l.due[namespace]) == 0 {
		delete(l.due, namespace)
		return
	}
	l.queueOf(namespace).Add(namespace)
}
