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

// slowLane lets slow writes be sent without a pass that waits for them.
func (w *world) slowLane() {
	w.c.Executor.Slow = &executor.SlowLane{Pods: worldPods{w}, Hold: func(context.Context) error { return nil }, Free: func(context.Context, func() bool) {}}
}

// slowPasses makes passes while writes of that kind are slow. Each one's writes are answered before the next.
func (w *world) slowPasses(kind string, passes int) {
	for range passes {
		w.c.slow.noteSlow(slowKind{"ns", kind}, w.clock.Now())
		_ = w.pass()
		w.c.slow.running.Wait()
		w.kubelets()
		w.clock.Step(time.Second)
	}
}

// forbids rejects all writes of a verb.
func forbids(verb string) func(verb, name string) error {
	return func(of, name string) error {
		if of != verb {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, name, errors.New("not on Fridays"))
	}
}

// A webhook that takes its time and then refuses a revision is shown like one that refuses at once, although no pass waits for it.
func TestASlowRefusalOfARevisionIsShown(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.settle()
	w.slowLane()
	w.before = forbids("create-revision")
	lasts := func(passes int) { w.slowPasses(writesRevision, passes) }
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

// Nothing waits for deletes of old revisions, but an event shows why there are so many.
func TestARefusalToDeleteAnOldRevisionIsShown(t *testing.T) {
	for name, slow := range map[string]bool{"fast": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.settle()
			w.slowLane()
			for i := range 20 {
				w.anotherRevision(i, nil)
			}
			w.before = forbids("delete-revision")
			kind := writesOldRevision
			if !slow {
				kind = "nothing"
			}
			w.slowPasses(kind, 30)
			if events := w.allEvents(); !strings.Contains(events, base.ReasonFailedRevision) || !strings.Contains(events, "not on Fridays") {
				t.Errorf("events %s", events)
			}
		})
	}
}

// The same of jobs that pull images ahead. Updates in place do not wait for a job that cannot be created.
func TestASlowRefusalOfAPullJobIsShown(t *testing.T) {
	a, j := ahead(t, `{updateStrategy: {rollingUpdate: {partition: 2}}}`)
	a.slowLane()
	j.err = forbids("create")("create", "job")
	a.image("img:v2")
	a.slowPasses(writesPullJob, 5)
	if events := a.allEvents(); strings.Count(events, base.ReasonFailedPullJob) != 1 || !strings.Contains(events, "not on Fridays") {
		t.Errorf("events %s", events)
	}
	if !a.c.states[a.key].pulls.refused {
		t.Error("a job whose create was refused counts as one without an answer")
	}
}
