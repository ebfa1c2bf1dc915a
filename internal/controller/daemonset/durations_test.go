// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

func TestSummary(t *testing.T) {
	seconds := func(all ...float64) (of []time.Duration) {
		for _, s := range all {
			of = append(of, time.Duration(s*float64(time.Second)))
		}
		return of
	}
	for name, c := range map[string]struct {
		samples     []time.Duration
		usual, long float64
	}{
		"one":                        {seconds(3), 3, 3},
		"two":                        {seconds(1, 3), 2, 3},
		"two groups":                 {seconds(9, 1, 9, 1, 9, 1), 5, 9},
		"one that takes long":        {seconds(1, 1, 1, 600, 1, 1, 1, 1, 1, 1), 1, 1},
		"nine of ten are no longer":  {seconds(10, 9, 8, 7, 6, 5, 4, 3, 2, 1), 5.5, 9},
		"no time at all":             {seconds(0, 0), 0, 0},
		"the mean is in whole ms":    {seconds(0.001, 0.001, 0.002), 0.001, 0.002},
		"most of twenty are as long": {seconds(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 60, 60), 2, 2},
	} {
		got := summary(c.samples)
		if want := (everynode.Duration{Pods: len(c.samples), Usual: seconds(c.usual)[0], Long: seconds(c.long)[0]}); got != want {
			t.Errorf("%s: %+v, wanted %+v", name, got, want)
		}
	}
}

// roll is a world whose pods take given times to stop and to start, and that makes a pass every second.
type roll struct {
	*world
	stop, start time.Duration
	born, dying map[string]time.Time
}

func newRoll(t *testing.T, nodes int, change func(*appsv1.DaemonSet)) *roll {
	r := &roll{world: newWorld(t, nodes, change), stop: 2 * time.Second, start: 3 * time.Second, born: map[string]time.Time{}, dying: map[string]time.Time{}}
	r.settle()
	r.forgetLog()
	return r
}

// second makes a pass, then lets a second go by, and kubelets do what is due.
func (r *roll) second() time.Duration {
	r.t.Helper()
	again, err := r.c.Reconcile(context.Background(), r.key)
	if err != nil {
		r.t.Fatalf("pass: %v", err)
	}
	now := r.clock.Now()
	for name, p := range r.pods {
		if _, seen := r.born[name]; !seen {
			r.born[name] = now
		}
		if _, seen := r.dying[name]; !seen && p.DeletionTimestamp != nil {
			r.dying[name] = now
		}
	}
	r.clock.Step(time.Second)
	for name, p := range r.pods {
		switch since, dying := r.dying[name]; {
		case dying && r.clock.Since(since) >= r.stop:
			r.gone(name)
		case !dying && p.Status.Phase == corev1.PodPending && r.clock.Since(r.born[name]) >= r.start:
			r.ready(name)
		}
	}
	return again
}

func (r *roll) seconds(n int) {
	r.t.Helper()
	for range n {
		r.second()
	}
}

// current is the revision of the template.
func (w *world) current() *appsv1.ControllerRevision {
	w.t.Helper()
	var newest *appsv1.ControllerRevision
	for _, rev := range w.revisions {
		if newest == nil || rev.Revision > newest.Revision {
			newest = rev
		}
	}
	return newest
}

func (r *roll) want(value string) {
	r.t.Helper()
	if got := r.current().Annotations[everynode.MeasuredDurations]; got != value {
		r.t.Errorf("the current revision has the durations %q, wanted %q", got, value)
	}
}

func maxUnavailable(n int) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		value := intstr.FromInt32(int32(n))
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &value}}
	}
}

func TestDurationsAreMeasuredInARollout(t *testing.T) {
	r := newRoll(t, 6, maxUnavailable(2))
	r.want("") // pods that are created without an update say nothing of one
	data := func() string {
		return string(r.current().Data.Raw) + r.current().Labels[appsv1.ControllerRevisionHashLabelKey]
	}
	r.edit("img:v2")
	r.second()
	before := data()
	r.seconds(20)
	r.want("stop=6,2s,2s start=6,3s,3s")
	if got := r.wrote("patch-revision"); len(got) != 1 || data() != before {
		t.Errorf("revisions were patched %d times, wanted once at the end: %v; data and hash must stay", len(got), got)
	}
	r.forgetLog()
	if again := r.second(); again != 0 || len(r.log) > 0 {
		t.Errorf("at rest the set comes back after %v and writes %v", again, r.log)
	}
}

func TestDurationsAreWrittenOnceAMinute(t *testing.T) {
	r := newRoll(t, 40, maxUnavailable(1)) // 200 seconds
	r.edit("img:v2")
	r.seconds(58)
	if got := r.wrote("patch-revision"); len(got) > 0 {
		t.Errorf("within the first minute revisions were patched: %v", got)
	}
	r.seconds(20)
	if got := everynode.ParseDurations(r.current().Annotations[everynode.MeasuredDurations]); got.Stop.Pods < 10 || got.Stop.Pods > 14 || got.Stop.Usual != 2*time.Second {
		t.Errorf("after a minute the durations are %+v", got)
	}
	r.seconds(130)
	if got := r.wrote("patch-revision"); len(got) != 4 {
		t.Errorf("revisions were patched %d times, wanted three times in the rollout, and at its end", len(got))
	}
	r.want("stop=40,2s,2s start=40,3s,3s")
}

// TestLastDurationsAreWrittenAtTheEnd: a plan that is made right after a rollout knows all of it, also if something was written less than a minute before.
func TestLastDurationsAreWrittenAtTheEnd(t *testing.T) {
	r := newRoll(t, 2, maxUnavailable(2))
	r.edit("img:v2")
	r.seconds(10)
	r.want("stop=2,2s,2s start=2,3s,3s")
	r.stop = 4 * time.Second
	r.edit("img:v3")
	r.seconds(10)
	r.want("stop=2,4s,4s start=2,3s,3s")
	if again, got := r.second(), r.wrote("patch-revision"); again != 0 || len(got) != 2 {
		t.Errorf("the set comes back after %v, and revisions were patched %d times, wanted once for each rollout", again, len(got))
	}
}

func TestDurationsOutliveTheManagerAndItsRevision(t *testing.T) {
	r := newRoll(t, 20, maxUnavailable(10))
	r.edit("img:v2")
	r.seconds(30)
	r.want("stop=20,2s,2s start=20,3s,3s")
	clear(r.c.states) // another process
	r.stop = 7 * time.Second
	r.edit("img:v3")
	r.seconds(2)
	if got := r.c.states[r.key].durations.result(); got.Stop.Pods != 20 || got.Stop.Usual != 2*time.Second {
		t.Errorf("before the first pod has stopped, what is known is %+v", got)
	}
	r.seconds(120)
	r.want("stop=20,7s,7s start=20,3s,3s")
}

func TestFewPodsDoNotReplaceWhatIsKnown(t *testing.T) {
	d := durations{known: everynode.Durations{Stop: everynode.Duration{Pods: 50, Usual: time.Second, Long: time.Second}}}
	for i := range fewSamples {
		if got := d.result().Stop.Pods; got != 50 {
			t.Fatalf("after %d pods the result is that of %d", i, got)
		}
		d.sample(work{kind: stopping}, time.Time{}.Add(time.Minute))
	}
	if got := d.result().Stop; got.Pods != fewSamples || got.Usual != time.Minute {
		t.Errorf("after %d pods the result is %+v", fewSamples, got)
	}
	for range 2 * maxSamples {
		d.sample(work{kind: stopping}, time.Time{}.Add(time.Second))
	}
	if got := d.result().Stop; got.Pods != maxSamples || got.Long != time.Second {
		t.Errorf("after many pods the result is %+v", got)
	}
}

func TestSamplesHaveBounds(t *testing.T) {
	var d durations
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d.sample(work{since: now.Add(time.Second)}, now) // a clock that was set back
	d.sample(work{since: now.Add(-2 * time.Hour)}, now)
	if got := d.result(); got != (everynode.Durations{}) || !d.unsaved.IsZero() {
		t.Errorf("nonsense is taken as %+v", got)
	}
}

func TestNodesThatAreNotReadyAreNotMeasured(t *testing.T) {
	r := newRoll(t, 3, maxUnavailable(3))
	r.edit("img:v2")
	r.second()
	r.index.PutNode(clustercache.Node{Name: "n2", RV: r.next(), Ready: false})
	r.seconds(2)
	r.index.PutNode(clustercache.Node{Name: "n2", RV: r.next(), Ready: true})
	r.seconds(20)
	r.want("stop=2,2s,2s start=2,3s,3s")
}

func TestPodsThatNeverStartAreNotMeasured(t *testing.T) {
	r := newRoll(t, 4, maxUnavailable(4))
	r.start = 48 * time.Hour
	r.edit("img:bad")
	r.seconds(100)
	r.want("stop=4,2s,2s")
	r.start = time.Second
	r.edit("img:v3") // the pods that never started are replaced
	r.seconds(100)
	if got := r.c.states[r.key].durations; got.samples[starting] == nil || slices.Max(got.samples[starting]) > time.Second || len(got.open) > 0 {
		t.Errorf("the samples are %v, and %d nodes are open", got.samples, len(got.open))
	}
}

func TestSurgeIsMeasured(t *testing.T) {
	r := newRoll(t, 4, func(ds *appsv1.DaemonSet) {
		none, surge := intstr.FromInt32(0), intstr.FromInt32(2)
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &none, MaxSurge: &surge},
		}
	})
	r.edit("img:v2")
	r.seconds(30)
	r.want("stop=4,2s,2s start=4,3s,3s")
}

func TestChangesInPlaceAreMeasured(t *testing.T) {
	var d durations
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := rollout.Node{Name: "n", Ready: true, Fit: rollout.MustRun, Pods: []rollout.Pod{{UID: "u", Ready: true, InPlace: rollout.InPlacePatched}}}
	s := rollout.Snapshot{Nodes: []rollout.Node{node}, Revisions: []rollout.Revision{{Name: "new"}}}
	d.begin(&s, &rollout.Action{Kind: rollout.Mark, UID: "u", Reason: rollout.UpdatingInPlace}, began)
	if len(d.open) > 0 {
		t.Error("a pod that is only marked has not been changed yet")
	}
	d.begin(&s, &rollout.Action{Kind: rollout.Patch, UID: "u", Reason: rollout.UpdatingInPlace}, began)
	for i, phase := range []rollout.InPlace{rollout.InPlacePatched, rollout.InPlaceArrived, rollout.InPlaceNone} {
		node.Pods[0].InPlace = phase
		if goes := d.goesOn(&s, &node, d.open["n"], began.Add(time.Duration(i)*time.Second)); goes != (phase != rollout.InPlaceNone) {
			t.Errorf("in phase %s it goes on: %t", phase, goes)
		}
	}
	if got, want := d.result(), (everynode.Duration{Pods: 1, Usual: 2 * time.Second, Long: 2 * time.Second}); got.Change != want || got.Start.Pods+got.Stop.Pods > 0 {
		t.Errorf("measured %+v", got)
	}
}

func TestRefusedDurationsFailNoPass(t *testing.T) {
	r := newRoll(t, 2, maxUnavailable(2))
	tries := 0
	r.before = func(verb, name string) error {
		if verb == "patch-revision" {
			tries++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, name, errors.New("no"))
		}
		return nil
	}
	r.edit("img:v2")
	r.seconds(30) // each pass must succeed
	if got := r.status("updatedNumberScheduled"); got != 2 || tries != 1 {
		t.Errorf("%d pods are updated, and the durations were written %d times, wanted 1", got, tries)
	}
	r.before = nil
	r.seconds(60)
	r.want("stop=2,2s,2s start=2,3s,3s")
}

func TestExternalSetsAreNotMeasured(t *testing.T) {
	p := &pass{w: &dialect.Workload{Set: rollout.Set{ExternalController: true}}, state: &state{}}
	p.measure(&rollout.Snapshot{Revisions: []rollout.Revision{{Name: "a"}}}, &rollout.Plan{}, time.Time{})
	p.saveDurations(context.Background(), &clustercache.Resolved{}, &rollout.Plan{})
	if d := p.state.durations; d.revision != "" || d.loaded {
		t.Errorf("measured: %+v", d)
	}
}

// TestDurationsNextToAnotherController: where a policy updates pods that another controller creates, how long it takes for that counts as part of the start.
func TestDurationsNextToAnotherController(t *testing.T) {
	e, r := alongsideWorld(t)
	p := canaryPolicy()
	p.Spec.Waves[0].After = nil
	r.Policies = []*policy.Policy{policy.Read(p)}
	e.edit("img:v2")
	for i := range 300 {
		if i%5 == 0 { // so it takes some seconds until it creates a pod
			e.upstream()
		}
		_ = e.pass()
		e.live()
		e.clock.Step(time.Second)
	}
	d := everynode.ParseDurations(e.current().Annotations[everynode.MeasuredDurations])
	if d.Stop.Pods != 4 || d.Start.Pods != 4 || d.Start.Usual < 2*time.Second || d.Change.Pods != 0 {
		t.Errorf("measured %+v in %v", d, e.current().Annotations)
	}
	e.forgetLog()
	if e.lasts(time.Minute); len(e.log) > 0 {
		t.Errorf("at rest it writes %v", e.log)
	}
}

// TestMeasuringCostsNothingAtRest: nodes that are not being updated are not looked at.
func TestMeasuringCostsNothingAtRest(t *testing.T) {
	p := &pass{w: &dialect.Workload{}, state: &state{}}
	s := rollout.Snapshot{Nodes: make([]rollout.Node, 1000), Revisions: []rollout.Revision{{Name: "a"}}}
	if allocations := testing.AllocsPerRun(10, func() { p.measure(&s, &rollout.Plan{}, time.Time{}) }); allocations > 0 {
		t.Errorf("a pass allocates %v times", allocations)
	}
}

func TestDurationsOfAnotherRevisionAreNotCopied(t *testing.T) {
	of := map[string]string{"a": "b", everynode.MeasuredDurations: "stop=1,1s,1s", everynode.Committed: "1 x"}
	if got := unmarked(of); len(got) != 1 || got["a"] != "b" || len(of) != 3 {
		t.Errorf("copied %v of %v", got, of)
	}
}
