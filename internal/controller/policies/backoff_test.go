// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/api/everynode/v1alpha1"
)

// TestSuspendedAfterAnOutage: however long the API server gave no answer, a policy is known as it is now at most 10 s after it does. Until then a suspension has no
// effect.
func TestSuspendedAfterAnOutage(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // one of them compares the time in the bubble with the real one, and sleeps for years
	defer func() { utilruntime.ErrorHandlers = handlers }()
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
				v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies): "RolloutPolicyList",
			}, agentsPolicy())
			var down atomic.Bool
			down.Store(true)
			client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return down.Load(), nil, errors.New("connection refused")
			})
			var read atomic.Int32
			s := &Store{Options: Options{Client: client}, known: map[string]bool{}}
			r := &resource{v1alpha1.ResourcePolicies, v1alpha1.KindPolicy, func(*unstructured.Unstructured) error {
				read.Add(1)
				return nil
			}, func(types.NamespacedName) {}, func() []types.NamespacedName { return nil }}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go s.reflect(ctx, r)
			time.Sleep(100 * time.Second)
			down.Store(false)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if read.Load() == 0 {
				t.Error("10 s after the outage the policy is not read")
			}
			stop()
			synctest.Wait()
		})
	}
}
