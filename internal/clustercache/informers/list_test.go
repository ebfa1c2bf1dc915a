// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"everynode.dev/everynode/internal/clustercache"
)

// An API server that does not stream lists is asked for them in the old way, and not for what its cache happens to hold.
func TestListsAreConsistent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	asked := make(chan string, 10)
	lw := listWatch(struct{}{}, func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		asked <- o.ResourceVersion
		return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}}, nil
	}, func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if o.SendInitialEvents != nil {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		}
		return watch.NewFake(), nil
	})
	x := clustercache.NewIndex(func(clustercache.Key) {})
	go cache.NewReflectorWithOptions(lw, &corev1.Pod{}, newStore(nil, newPodSink(x)), cache.ReflectorOptions{}).RunWithContext(ctx)
	select {
	case rv := <-asked:
		if rv != "" {
			t.Errorf("a list of version %q", rv)
		}
	case <-ctx.Done():
		t.Error("nothing is listed")
	}
}
