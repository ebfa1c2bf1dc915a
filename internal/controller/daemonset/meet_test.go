// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"fmt"
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
