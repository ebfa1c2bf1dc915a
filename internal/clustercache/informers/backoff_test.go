// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestNewsAfterAnOutage: however long the API server gave no answer, the index knows of the pods again at most 10 s after it does. Until then a decision counts pods
// as they were before.
func TestNewsAfterAnOutage(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // one of them compares the time in the bubble with the real one, and sleeps for years
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.relist("nodes", "10", node("n1"))
		r.relist("daemonsets", "10", set("agent"))
		r.start(t)
		defer r.stop()
		pods, down := r.resources["pods"], errors.New("connection refused")
		for i := range 5 {
			pods.broken.Store(&down)
			pods.watcher.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
			time.Sleep(time.Duration(3+i) * time.Minute)
			name := fmt.Sprint("p", i)
			r.relist("pods", fmt.Sprint(100+i), podOf(name, "n1", fmt.Sprint(100+i)))
			pods.broken.Store(nil)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := r.podsOf(agent); !slices.Equal(got, []string{"n1/" + name}) {
				t.Errorf("10 s after outage %d the index has the pods %v", i+1, got)
			}
		}
	})
}
