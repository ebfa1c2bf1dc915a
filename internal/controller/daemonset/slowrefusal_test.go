// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/dialect/base"
)

// A webhook that takes its time and then refuses a revision is shown like one that refuses at once, although no pass waits for it.
func TestASlowRefusalOfARevisionIsShown(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.settle()
	w.c.Executor.Slow = &executor.SlowLane{Pods: worldPods{w}, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
	w.before = func(verb, name string) error {
		if verb != "create-revision" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, name, errors.New("not on Fridays"))
	}
	lasts := func(passes int) {
		for range passes {
			w.c.slow.noteSlow(slowKind{"ns", writesRevision}, w.clock.Now())
			_ = w.pass()
			w.c.slow.running.Wait()
			w.kubelets()
			w.clock.Step(time.Second)
		}
	}
	w.edit("img:v2")
	lasts(5)
	if events := w.allEvents(); strings.Count(events, base.ReasonFailedRevision) != 1 || !strings.Contains(events, "not on Fridays") {
		t.Errorf("events %s", events)
	}
	w.before = nil
	lasts(20)
	if nodes := w.images("img:v2"); len(nodes) != 2 {
		t.Errorf("%v have the new image", nodes)
	}
	if len(w.c.slow.refused) != 0 {
		t.Errorf("it is remembered: %v", w.c.slow.refused)
	}
}
