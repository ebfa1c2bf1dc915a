// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// healthOf returns which of the three conditions is True, and its reason; it requires that it is one alone, or none with all absent.
func healthOf(t *testing.T, conditions []appsv1.DaemonSetCondition) string {
	t.Helper()
	var is []string
	count := 0
	for _, c := range conditions {
		switch c.Type {
		case kruise.Ready, kruise.Reconciling, kruise.Stalled:
			count++
			if c.Status == corev1.ConditionTrue {
				is = append(is, string(c.Type)+" "+c.Reason)
			}
		}
	}
	if count != 0 && (count != 3 || len(is) != 1) {
		t.Errorf("the conditions are %v", conditions)
	}
	return strings.Join(is, ", ")
}

func governed(phase v1alpha1.Phase, settled bool, verdicts ...rollout.VerdictKind) kruise.Observation {
	o := world(verdicts...)
	for i := range o.Snapshot.Nodes {
		o.Snapshot.Nodes[i].Pods = []rollout.Pod{{Ready: true}}
	}
	o.Governed = &dialect.Governed{Phase: phase, Settled: settled, Message: "Why."}
	return o
}

func TestHealth(t *testing.T) {
	unserved := world(rollout.UpToDate, rollout.WaitPaused)
	unserved.Snapshot.Nodes[1].Pods[0].Ready = false
	invalid := world(rollout.UpToDate)
	invalid.Problems = []dialect.Problem{{Reason: "InvalidSpec", Message: "Field x.", Fatal: true}}
	warned := world(rollout.UpToDate)
	warned.Problems = []dialect.Problem{{Reason: "InvalidAnnotation", Message: "An annotation."}}
	refused := world(rollout.UpToDate)
	refused.Failure = errors.New("the server says no")
	gone := governed(v1alpha1.PhaseStalled, false, rollout.WaitPolicy)
	unread := governed("", false, rollout.WaitPolicy)
	unread.Governed = nil
	for name, e := range map[string]struct {
		o    kruise.Observation
		want string
	}{
		"complete":                               {world(rollout.UpToDate, rollout.NotWanted, rollout.Stays, rollout.WaitCollection), "Ready Complete"},
		"no nodes":                               {world(), "Ready Complete"},
		"a node that keeps a pod":                {world(rollout.UpToDate, rollout.WaitEligible), "Ready Complete"},
		"nothing is known yet":                   {world(rollout.NotEvaluated), "Reconciling InProgress"},
		"rolling":                                {world(rollout.UpToDate, rollout.WaitAvailable, rollout.WaitBudget), "Reconciling InProgress"},
		"acting":                                 {world(rollout.UpToDate, rollout.Recreating), "Reconciling InProgress"},
		"others use the budget":                  {world(rollout.WaitBudget), "Reconciling InProgress"},
		"a hook holds a pod":                     {world(rollout.WaitHook, rollout.WaitPartition), "Reconciling InProgress"},
		"paused":                                 {world(rollout.UpToDate, rollout.WaitPaused), "Ready Held"},
		"paused, but the last node is in flight": {world(rollout.WaitAvailable, rollout.WaitPaused), "Reconciling InProgress"},
		"paused, and an old pod fails":           {unserved, "Reconciling Unavailable"},
		"partition":                              {world(rollout.UpToDate, rollout.WaitPartition), "Ready Held"},
		"partition of pods that are missing":     {world(rollout.UpToDate, rollout.WaitProgressive), "Ready Held"},
		"selector":                               {world(rollout.UpToDate, rollout.WaitSelector), "Ready Held"},
		"OnDelete":                               {world(rollout.UpToDate, rollout.WaitOnDelete), "Ready Held"},
		"invalid":                                {invalid, "Stalled InvalidSpec"},
		"invalid, and nothing decided":           {kruise.Observation{Now: at(1), Problems: invalid.Problems}, "Stalled InvalidSpec"},
		"an annotation is invalid":               {warned, "Ready Complete"},
		"not decided yet":                        {kruise.Observation{Now: at(1)}, ""},
		"blocked a moment ago":                   {world(rollout.Blocked), "Reconciling Blocked"},
		"failing a moment ago":                   {world(rollout.WaitBackoff), "Reconciling PodsFailing"},
		"revision refused a moment ago":          {refused, "Reconciling Blocked"},
		"policy: wave":                           {governed(v1alpha1.PhaseRolling, false, rollout.UpToDate, rollout.WaitWave), "Reconciling Policy"},
		"policy: soak":                           {governed(v1alpha1.PhaseSoaking, false, rollout.UpToDate, rollout.WaitSoak), "Reconciling Policy"},
		"policy: soak is enough":                 {governed(v1alpha1.PhaseSoaking, true, rollout.UpToDate, rollout.WaitSoak), "Ready Policy"},
		"policy: suspended":                      {governed(v1alpha1.PhaseSuspended, false, rollout.WaitSuspended), "Reconciling Policy"},
		"policy: undoing":                        {governed(v1alpha1.PhaseUndoing, false, rollout.UpToDate), "Reconciling Policy"},
		"policy: undone":                         {governed(v1alpha1.PhaseFailed, false, rollout.UpToDate), "Stalled PolicyFailed"},
		"policy: rejected":                       {governed(v1alpha1.PhaseRejected, false, rollout.WaitRejected), "Stalled PolicyRejected"},
		"policy: deleted in the middle":          {gone, "Stalled PolicyStalled"},
		"policy: invalid at rest":                {governed(v1alpha1.PhaseStalled, false, rollout.UpToDate), "Ready Complete"},
		"policy: not read yet":                   {unread, "Reconciling Policy"},
		"policy: complete":                       {governed(v1alpha1.PhaseComplete, false, rollout.UpToDate), "Ready Complete"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := healthOf(t, kruise.Conditions(nil, e.o)); got != e.want {
				t.Errorf("got %q, want %q", got, e.want)
			}
		})
	}
}

// TestTroubleStallsWithTime: a pod that crashes once while it waits for another is no failure, as a Deployment is given ten minutes.
func TestTroubleStallsWithTime(t *testing.T) {
	const late = int(rollout.StallAfter / 1e9)
	crashing := func(now, since int, verdicts ...rollout.VerdictKind) kruise.Observation {
		o := world(verdicts...)
		o.Now, o.Snapshot.Now = at(now), rollout.Time(at(now).UnixNano())
		o.Snapshot.Nodes[0].Pods = []rollout.Pod{{Trouble: "container a: CrashLoopBackOff", ReadySince: rollout.Time(at(since).UnixNano())}}
		return o
	}
	for name, e := range map[string]struct {
		o    kruise.Observation
		want string
	}{
		"soon":                     {crashing(late-1, 0, rollout.WaitAvailable), "Reconciling PodsFailing"},
		"late":                     {crashing(late, 0, rollout.WaitAvailable), "Stalled PodsFailing"},
		"late, and others wait":    {crashing(late, 0, rollout.WaitAvailable, rollout.WaitBudget), "Stalled PodsFailing"},
		"late, and others proceed": {crashing(late, 0, rollout.WaitAvailable, rollout.Recreating), "Reconciling InProgress"},
		"ready in between":         {crashing(late, late/2, rollout.WaitAvailable), "Reconciling PodsFailing"},
	} {
		if got := healthOf(t, kruise.Conditions(nil, e.o)); got != e.want {
			t.Errorf("%s: got %q, want %q", name, got, e.want)
		}
	}
	blocked := func(now int) kruise.Observation { // what is refused has no time of its own: the condition has it
		o := world(rollout.Blocked)
		o.Now, o.Snapshot.Now = at(now), rollout.Time(at(now).UnixNano())
		return o
	}
	conditions := kruise.Conditions(nil, blocked(0))
	for now, want := range map[int]string{late - 1: "Reconciling Blocked", late: "Stalled Blocked"} {
		if got := healthOf(t, kruise.Conditions(conditions, blocked(now))); got != want {
			t.Errorf("blocked for %d s: got %q, want %q", now, got, want)
		}
	}
}

// TestNodesThatAreDownHideNoFailure: what waits for a node that is not ready does not continue. So a version that fails elsewhere is Stalled also while a node is down.
func TestNodesThatAreDownHideNoFailure(t *testing.T) {
	const late = int(rollout.StallAfter / 1e9)
	seen := func(now int, down rollout.VerdictKind, ready bool, other rollout.VerdictKind) kruise.Observation {
		o := world(other, down, rollout.WaitBudget)
		o.Now, o.Snapshot.Now = at(now), rollout.Time(at(now).UnixNano())
		o.Snapshot.Nodes[0].Pods = []rollout.Pod{{Trouble: "container a: ErrImagePull", ReadySince: rollout.Time(at(0).UnixNano())}}
		o.Snapshot.Nodes[1].Ready = ready
		return o
	}
	for _, down := range []rollout.VerdictKind{rollout.WaitAvailable, rollout.WaitTerminating, rollout.WaitInPlace, rollout.WaitUnreachable} {
		for other, reason := range map[rollout.VerdictKind]string{rollout.WaitAvailable: "PodsFailing", rollout.WaitBackoff: "PodsFailing", rollout.Blocked: "Blocked"} {
			first := kruise.Conditions(nil, seen(1, down, false, other))
			if got := healthOf(t, first); got != "Reconciling "+reason {
				t.Errorf("%s, and %s on a node that is down, at first: %q", other, down, got)
			}
			if got := healthOf(t, kruise.Conditions(first, seen(1+late, down, false, other))); got != "Stalled "+reason {
				t.Errorf("%s, and %s on a node that is down, ten minutes later: %q", other, down, got)
			}
			if got := healthOf(t, kruise.Conditions(first, seen(1+late, down, true, other))); got != "Reconciling InProgress" {
				t.Errorf("%s, and %s on a node that is ready: %q", other, down, got)
			}
		}
		if got := healthOf(t, kruise.Conditions(nil, seen(1+late, down, false, rollout.UpToDate))); got != "Reconciling InProgress" {
			t.Errorf("only a node is down, and has %s: %q", down, got)
		}
	}
	if got := healthOf(t, kruise.Conditions(nil, seen(1+late, rollout.Recreating, false, rollout.WaitAvailable))); got != "Reconciling InProgress" {
		t.Errorf("a write is made for the node that is down: %q", got)
	}
}

// TestPodsThatNeverEndOrStartHideNoFailure: a pod that terminates for ever, or runs and never becomes ready, does not continue after ten minutes. It alone stalls nothing.
func TestPodsThatNeverEndOrStartHideNoFailure(t *testing.T) {
	const late = int(rollout.StallAfter / 1e9)
	seen := func(now int, kind rollout.VerdictKind, pod rollout.Pod, other rollout.VerdictKind) kruise.Observation {
		o := world(other, kind, rollout.WaitBudget)
		o.Now, o.Snapshot.Now = at(now), rollout.Time(at(now).UnixNano())
		o.Snapshot.Nodes[0].Pods = []rollout.Pod{{Trouble: "container a: ErrImagePull", ReadySince: rollout.Time(at(0).UnixNano())}}
		o.Snapshot.Nodes[1].Pods = []rollout.Pod{pod}
		return o
	}
	began := rollout.Time(at(1).UnixNano())
	for name, c := range map[string]struct {
		kind rollout.VerdictKind
		pod  rollout.Pod
	}{
		"terminates":       {rollout.WaitTerminating, rollout.Pod{Deleting: true, DeletedAt: began, Ready: true}},
		"is not ready":     {rollout.WaitAvailable, rollout.Pod{ReadySince: began}},
		"has no status":    {rollout.WaitAvailable, rollout.Pod{Created: began}},
		"changes for long": {rollout.WaitInPlace, rollout.Pod{InPlace: rollout.InPlacePatched, ReadySince: began}},
	} {
		for other, reason := range map[rollout.VerdictKind]string{rollout.WaitAvailable: "PodsFailing", rollout.WaitBackoff: "PodsFailing", rollout.Blocked: "Blocked"} {
			first := kruise.Conditions(nil, seen(1, c.kind, c.pod, other))
			if got := healthOf(t, first); got != "Reconciling InProgress" {
				t.Errorf("%s, and a pod %s, at first: %q", other, name, got)
			}
			if got := healthOf(t, kruise.Conditions(first, seen(late, c.kind, c.pod, other))); got != "Reconciling InProgress" {
				t.Errorf("%s, and a pod %s, a second before: %q", other, name, got)
			}
			last := seen(1+late, c.kind, c.pod, other)
			if got := healthOf(t, kruise.Conditions(first, last)); got != "Stalled "+reason {
				t.Errorf("%s, and a pod %s, ten minutes later: %q", other, name, got)
			}
			last.Snapshot.Now, last.Snapshot.Nodes[0].Pods = began, nil
			if next := last.Snapshot.StallsNext(); next != rollout.Time(at(1+late).UnixNano()) {
				t.Errorf("a pod %s: the set is looked at again at %d", name, next)
			}
		}
		if got := healthOf(t, kruise.Conditions(nil, seen(24*3600, c.kind, c.pod, rollout.UpToDate))); got != "Reconciling InProgress" {
			t.Errorf("only a pod %s: %q", name, got)
		}
	}
	old := seen(1+late, rollout.WaitAvailable, rollout.Pod{ReadySince: began, Revision: 1}, rollout.WaitBackoff)
	if got := healthOf(t, kruise.Conditions(nil, old)); got != "Reconciling InProgress" {
		t.Errorf("an old pod that is not ready, and a new one that is to come: %q", got)
	}
}

// TestAnOldWarningStallsNothing: a set that has been Degraded for a day, because of an annotation that has no effect, also has ten minutes when a write is refused.
func TestAnOldWarningStallsNothing(t *testing.T) {
	const day, late = 24 * 3600, int(rollout.StallAfter / 1e9)
	seen := func(now int, failure error, verdicts ...rollout.VerdictKind) kruise.Observation {
		o := world(verdicts...)
		o.Now, o.Snapshot.Now, o.Failure = at(now), rollout.Time(at(now).UnixNano()), failure
		o.Problems = []dialect.Problem{{Reason: "IgnoredField", Message: "An annotation."}}
		return o
	}
	refused := errors.New("the server says no")
	for name, e := range map[string]struct {
		before  rollout.VerdictKind
		failure error
		then    rollout.VerdictKind
		reason  string
	}{
		"complete, then a write is refused":    {rollout.UpToDate, nil, rollout.Blocked, "Blocked"},
		"complete, then pods fail":             {rollout.UpToDate, nil, rollout.WaitBackoff, "PodsFailing"},
		"complete, then a revision is refused": {rollout.UpToDate, refused, rollout.UpToDate, "Blocked"},
		"partition, then a write is refused":   {rollout.WaitPartition, nil, rollout.Blocked, "Blocked"},
		"rolling, then a write is refused":     {rollout.WaitBudget, nil, rollout.Blocked, "Blocked"},
		"rolling, then pods fail":              {rollout.WaitAvailable, nil, rollout.WaitBackoff, "PodsFailing"},
	} {
		conditions := kruise.Conditions(kruise.Conditions(nil, seen(0, nil, e.before)), seen(day, e.failure, e.then))
		if got, want := healthOf(t, conditions), "Reconciling "+e.reason; got != want {
			t.Errorf("%s: at once %q, want %q", name, got, want)
		}
		if got, want := healthOf(t, kruise.Conditions(conditions, seen(day+late, e.failure, e.then))), "Stalled "+e.reason; got != want {
			t.Errorf("%s: after ten minutes %q, want %q", name, got, want)
		}
	}
}

// TestHealthCausesNoWrites: as long as the status of the set and its other conditions stay as they are, so do the three, unless one of them becomes True.
func TestHealthCausesNoWrites(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kinds := rollout.VerdictKinds()
	pick := func() kruise.Observation {
		var verdicts []rollout.VerdictKind
		for range 1 + random.IntN(2) {
			verdicts = append(verdicts, kinds[random.IntN(len(kinds))])
		}
		return world(verdicts...)
	}
	split := func(conditions []appsv1.DaemonSetCondition) (others, ours []appsv1.DaemonSetCondition) {
		for _, c := range conditions {
			if c.Type == kruise.Ready || c.Type == kruise.Reconciling || c.Type == kruise.Stalled {
				ours = append(ours, c)
			} else {
				others = append(others, c)
			}
		}
		return others, ours
	}
	same := 0
	for range 60_000 {
		a, b := pick(), pick()
		before := kruise.Conditions(nil, a)
		after := kruise.Conditions(before, b)
		others, ours := split(before)
		othersAfter, oursAfter := split(after)
		if a.Plan.Status != b.Plan.Status || !reflect.DeepEqual(others, othersAfter) || healthOf(t, before) != healthOf(t, after) {
			continue
		}
		same++
		if !reflect.DeepEqual(ours, oursAfter) {
			t.Fatalf("the conditions change from\n%v\nto\n%v", before, after)
		}
	}
	if same < 200 {
		t.Errorf("only %d pairs have the same status", same)
	}
}

// TestHealthKnowsEveryVerdict: a new verdict is not Ready by accident.
func TestHealthKnowsEveryVerdict(t *testing.T) {
	ready := []rollout.VerdictKind{
		rollout.UpToDate, rollout.NotWanted, rollout.Stays, rollout.WaitOnDelete, rollout.WaitCollection, rollout.WaitPaused, rollout.WaitPartition, rollout.WaitSelector,
		rollout.WaitEligible, rollout.WaitProgressive,
	}
	for _, kind := range rollout.VerdictKinds() {
		got := healthOf(t, kruise.Conditions(nil, world(kind)))
		if is := strings.HasPrefix(got, "Ready "); is != slices.Contains(ready, kind) {
			t.Errorf("%s: %s", kind, fmt.Sprint(got))
		}
	}
}
