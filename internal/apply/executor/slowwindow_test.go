// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/rollout"
)

// timedLane notes when the slow lane sends a delete.
type timedLane struct {
	*slowPods
	at chan time.Time
}

func (l *timedLane) Delete(context.Context, string, string, metav1.Preconditions) error {
	l.at <- time.Now()
	return nil
}

// TestSlowLaneAndTheWindow: while the API server cannot bear more writes, the slow lane sends none either.
func TestSlowLaneAndTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, job := unreadyJob(t, &slowPods{}, 1, rollout.Delete, rollout.Recreating)
		e.Pace = newPace()
		for range 10 {
			e.Pace.window.Answered(e.Pace.window.Send(verbDelete, e.Pace.now()), apply.Strains, e.Pace.now())
		}
		closed := e.Pace.window.Closed(e.Pace.now())
		lane := &timedLane{&slowPods{}, make(chan time.Time, 1)}
		e.Slow = &SlowLane{Pods: lane, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
		e.Slow.heard(slowKind{job.Key, verbDelete}, "n0", apierrors.NewTimeoutError("", 0))
		began := time.Now()
		if _, err := e.Run(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		e.Slow.Wait()
		if waited := (<-lane.at).Sub(began); closed < time.Second || waited != closed {
			t.Errorf("the window is closed for %s, and the lane sends after %s", closed, waited)
		}
	})
}
