// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// lateCache is a cache that has read everything when synced is closed.
type lateCache struct {
	informertest.FakeInformers
	synced chan struct{}
}

func (c *lateCache) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (c *lateCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// starting are watches that have been started.
type starting struct {
	*Watches
	cache *lateCache
	said  *heard
	end   context.CancelFunc
	began chan error
	ended <-chan struct{}
}

func start(t *testing.T) *starting {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &lateCache{FakeInformers: informertest.FakeInformers{Scheme: scheme}, synced: make(chan struct{})}
	s := &starting{Watches: &Watches{cache: c, handlers: map[string][]Handler{}, Nodes: NewNodeStore()}, cache: c, said: &heard{}, began: make(chan error, 1)}
	s.Handle(Nodes, func(_ context.Context, obj, old client.Object) {
		now, _ := obj.(*corev1.Node)
		before, _ := old.(*corev1.Node)
		s.said.notify(now, before)
	})
	ctx, cancel := context.WithCancel(t.Context())
	s.end = cancel
	go func() {
		ended, err := s.Start(ctx)
		s.ended = ended
		s.began <- err
	}()
	return s
}

// waits is whether Start has not returned.
func (s *starting) waits() bool {
	synctest.Wait()
	select {
	case err := <-s.began:
		s.began <- err
		return false
	default:
		return true
	}
}

// TestNodesAreReportedWhenAllIsRead: a handler may ask the cache, so it is called for no node before that is complete, and the watch of nodes
// does not wait for it meanwhile.
func TestNodesAreReportedWhenAllIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		s.Nodes.Replace([]*corev1.Node{keptNode("n1", "1"), keptNode("n2", "1")})
		s.Nodes.Put(keptNode("n1", "2"))
		s.Nodes.Remove("n2")
		if !s.waits() || len(*s.said) > 0 {
			t.Fatalf("before the cache is complete: told %q", s.said.take())
		}
		close(s.cache.synced)
		if err := <-s.began; err != nil {
			t.Fatal(err)
		}
		if got := s.said.take(); got != "->n1@2" {
			t.Errorf("told %q", got)
		}
		if s.Nodes.Put(keptNode("n3", "3")); s.said.take() != "->n3@3" {
			t.Error("nobody is told of what comes later")
		}
		s.end()
		<-s.ended
	})
}

// TestStartWaitsForTheNodes: image pulls begin when the nodes are known as well, and end before that if they have to.
func TestStartWaitsForTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		close(s.cache.synced)
		if !s.waits() {
			t.Fatal("begun without nodes")
		}
		s.Nodes.Replace(nil)
		if err := <-s.began; err != nil {
			t.Fatal(err)
		}
		s.end()
		<-s.ended
		for what, complete := range map[string]bool{"reading image pulls": false, "reading nodes": true} {
			s := start(t)
			if complete {
				close(s.cache.synced)
			}
			synctest.Wait()
			s.end()
			if err := <-s.began; !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
