// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// crowdedPods are pods of a server on which the namespaces but ns have very many of them.
type crowdedPods struct{ herdPods }

func (f crowdedPods) List(ctx context.Context, namespace string, selector labels.Selector, each func(*corev1.Pod)) error {
	if namespace != "ns" {
		time.Sleep(20 * time.Second)
	}
	return f.herdPods.List(ctx, namespace, selector, each)
}

// TestNewSetsOfACrowdedNamespace: tenants with very many pods make new sets that select them. Each set reads them, and the sets of others do not wait for all of that.
func TestNewSetsOfACrowdedNamespace(t *testing.T) {
	for _, tenants := range []int{1, 10} {
		t.Run(fmt.Sprint(tenants), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHerd(t)
				h.c.Executor.Pods = crowdedPods{herdPods{h}}
				h.turn(0, 3, true)
				h.run(func() {
					for i := range 100 {
						h.addSetIn(fmt.Sprintf("tenant-%d", i%tenants), fmt.Sprintf("set-%d", i))
					}
					time.Sleep(time.Second)
					h.addSet("other")
					time.Sleep(time.Duration(tenants+1) * 21 * time.Second) // each tenant may occupy the workers once
					if n := h.createdBy("other"); n != 3 {
						t.Errorf("another set has %d pods, want 3", n)
					}
				})
			})
		})
	}
}

// mixedPods are pods of a server on which every other set of the namespaces but ns selects very many of them.
type mixedPods struct {
	herdPods
	reading *atomic.Int32
}

func (f mixedPods) List(ctx context.Context, namespace string, selector labels.Selector, each func(*corev1.Pod)) error {
	if !strings.HasSuffix(selector.String(), "-small") {
		f.reading.Add(1)
		defer f.reading.Add(-1)
		time.Sleep(20 * time.Second)
	}
	return f.herdPods.List(ctx, namespace, selector, each)
}

// TestSmallSetsOfACrowdedNamespace: a tenant with very many pods makes sets that select them, and between them sets that select none. That their reads are fast does not
// let the others take all workers again.
func TestSmallSetsOfACrowdedNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHerd(t)
		reading := &atomic.Int32{}
		h.c.Executor.Pods = mixedPods{herdPods{h}, reading}
		h.turn(0, 3, true)
		h.run(func() {
			for i := range 200 {
				h.addSetIn("tenant", fmt.Sprintf("set-%d", i))
				h.addSetIn("tenant", fmt.Sprintf("set-%d-small", i))
			}
			time.Sleep(21 * time.Second) // before the first one has ended, nothing is known
			for range 300 {
				if n := reading.Load(); n > 1 {
					t.Errorf("%d of %d workers read for one namespace", n, herdWorkers)
					break
				}
				time.Sleep(time.Second)
			}
		})
	})
}

// createdBy is how many pods a set has got.
func (h *herd) createdBy(set string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.writes {
		if w.set == set {
			n++
		}
	}
	return n
}
