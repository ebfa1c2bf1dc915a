// SPDX-License-Identifier: Apache-2.0

package imagepull

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/controller/pullstore"
)

// looks is a cache that counts how often all jobs are listed, and which of them are read.
type looks struct {
	client.Reader
	mu    sync.Mutex
	lists int
	read  map[string]bool
}

func (l *looks) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, jobs := list.(*v1beta1.ImagePullJobList); jobs {
		l.mu.Lock()
		l.lists++
		l.mu.Unlock()
	}
	return l.Reader.List(ctx, list, o...)
}

func (l *looks) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	if _, job := obj.(*v1beta1.ImagePullJob); job {
		l.mu.Lock()
		l.read[key.Name] = true
		l.mu.Unlock()
	}
	return l.Reader.Get(ctx, key, obj, o...)
}

// take is how often all jobs were listed, and which of them read, since the last time.
func (l *looks) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := fmt.Sprint(l.lists, " ", strings.Join(slices.Sorted(maps.Keys(l.read)), " "))
	l.lists, l.read = 0, map[string]bool{}
	return said
}

// TestManyNodesAskOnce: the watch of nodes waits for the handler of each event, so however many nodes come, none of them costs a look at all jobs, and
// one look follows, after which the jobs that run have their passes.
func TestManyNodesAskOnce(t *testing.T) {
	ended := newJob("ns", "ended", 1)
	ended.Status.CompletionTime = new(metav1.Unix(5, 0))
	w := newWorld(t, append(node("n"), newJob("ns", "one", 1), newJob("other", "two", 1), ended)...)
	synctest.Test(t, func(t *testing.T) {
		seen := &looks{Reader: w.client, read: map[string]bool{}}
		c := New(Options{
			Store: pullstore.New(seen, w.client), Pods: pullstore.NewPods(w.pods), Events: w.events, Clock: clock.RealClock{},
			MayWrite: func() bool { return true }, Secrets: NewSecrets(w.client, w.events, clock.RealClock{}, nil),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); c.loop.Run(ctx, workers) }()
		for what, tell := range map[string]func(i int){
			"nodes": func(i int) {
				c.nodeChanged(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}, nil)
			},
			"node images": func(i int) {
				c.imageChanged(ctx, &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}, nil)
			},
			"nodes gone": func(i int) {
				c.nodeChanged(ctx, nil, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
			},
		} {
			for i := range 1000 {
				tell(i)
			}
			if got := seen.take(); got != "0 " {
				t.Errorf("%s: who tells waits for looks at the jobs: %q", what, got)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := seen.take(); got != "1 one two" {
				t.Errorf("%s: lists and jobs that were looked at: %q", what, got)
			}
		}
		cancel()
		<-ran
	})
}
