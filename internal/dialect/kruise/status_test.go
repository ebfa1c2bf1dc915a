// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

func at(second int) metav1.Time { return metav1.Unix(int64(1767225600+second), 0) }

func TestStatusPatch(t *testing.T) {
	condition := appsv1.DaemonSetCondition{Type: kruise.Paused, Status: "False", Reason: kruise.ReasonNotPaused, LastTransitionTime: at(0)}
	other := appsv1.DaemonSetCondition{Type: "Mine", Status: "True", LastTransitionTime: at(1)}
	const numbers = `"currentNumberScheduled":0,"desiredNumberScheduled":3,"numberAvailable":0,"numberMisscheduled":0,"numberReady":0,"numberUnavailable":0`
	const observed = numbers + `,"observedGeneration":4`
	numbersOnly := base.Status{Numbers: rollout.Status{Desired: 3}, ObservedGeneration: 4}
	named := func(hash string) base.Status {
		s := numbersOnly
		s.UpdateRevision = hash
		return s
	}
	was := &dialect.Workload{UID: "u1", ResourceVersion: "9", Status: rollout.Status{Desired: 3}, ObservedGeneration: 4, UpdateRevision: "7f9c", Conditions: []appsv1.DaemonSetCondition{condition}}
	for name, e := range map[string]struct {
		w    *dialect.Workload
		s    kruise.Status
		want string
	}{
		"first": {&dialect.Workload{}, kruise.Status{Status: named("7f9c"), Conditions: []appsv1.DaemonSetCondition{condition}},
			`{"status":{"conditions":[{"type":"Paused","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"NotPaused"}],` + observed + `,"updateRevision":"7f9c","updatedNumberScheduled":0}}`},
		"nothing changed": {was, kruise.Status{Status: named("7f9c"), Conditions: []appsv1.DaemonSetCondition{condition}}, ``},
		"nothing known":   {was, kruise.Status{Status: numbersOnly}, ``},
		"revision":        {was, kruise.Status{Status: named("aaaa")}, `{"metadata":{"resourceVersion":"9","uid":"u1"},"status":{` + observed + `,"updateRevision":"aaaa","updatedNumberScheduled":0}}`},
		"a generation, and the revision that belongs to it": {&dialect.Workload{UID: "u1", ResourceVersion: "9", UpdateRevision: "7f9c"}, kruise.Status{Status: named("7f9c")},
			`{"metadata":{"resourceVersion":"9","uid":"u1"},"status":{` + observed + `,"updateRevision":"7f9c","updatedNumberScheduled":0}}`},
		"numbers": {&dialect.Workload{UID: "u1", ResourceVersion: "9", ObservedGeneration: 4, UpdateRevision: "7f9c"}, kruise.Status{Status: named("7f9c")},
			`{"metadata":{"uid":"u1"},"status":{` + numbers + `,"updatedNumberScheduled":0}}`},
		"condition": {was, kruise.Status{Status: numbersOnly, Conditions: []appsv1.DaemonSetCondition{condition, other}},
			`{"metadata":{"uid":"u1"},"status":{"conditions":[{"type":"Paused","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"NotPaused"},{"type":"Mine","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"}],` + numbers + `,"updatedNumberScheduled":0}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := kruise.StatusPatch(e.w, e.s)
			if string(got) != e.want || changed != (e.want != "") {
				t.Errorf("got  %s (%v)\nwant %s", got, changed, e.want)
			}
		})
	}
}

// world is a decision about nodes with the given verdicts; n1 is the first.
func world(verdicts ...rollout.VerdictKind) kruise.Observation {
	o := kruise.Observation{Now: at(100), Snapshot: &rollout.Snapshot{}, Plan: &rollout.Plan{}}
	o.Snapshot.Now = rollout.Time(at(100).UnixNano())
	o.Snapshot.Set.Strategy = rollout.RollingUpdate
	o.Plan.Budget.Limit = 1
	for i, kind := range verdicts {
		node := rollout.Node{Name: "n" + string(rune('1'+i)), Fit: rollout.MustRun, Ready: true}
		o.Plan.Status.Desired++
		switch kind {
		case rollout.UpToDate:
			o.Plan.Status.Updated++
			o.Plan.Status.Available++
			node.Pods = []rollout.Pod{{Ready: true}}
		case rollout.WaitBudget, rollout.WaitOnDelete, rollout.WaitPaused, rollout.WaitPartition, rollout.WaitSelector:
			o.Plan.Status.Available++
			node.Pods = []rollout.Pod{{Ready: true}}
		case rollout.Blocked:
			node.Blocked = "pod name agent-x is taken by somebody else"
			o.Plan.Status.Unavailable++
		default:
			o.Plan.Status.Unavailable++
		}
		o.Snapshot.Nodes = append(o.Snapshot.Nodes, node)
		o.Plan.Verdicts = append(o.Plan.Verdicts, rollout.Verdict{Kind: kind})
	}
	return o
}

// show returns the conditions, without those that TestHealth is about.
func show(conditions []appsv1.DaemonSetCondition) string {
	var b strings.Builder
	for _, c := range conditions {
		if c.Type == kruise.Ready || c.Type == kruise.Reconciling || c.Type == kruise.Stalled {
			continue
		}
		b.WriteString(string(c.Type) + "=" + string(c.Status) + " " + c.Reason)
		if c.Message != "" {
			b.WriteString(" (" + c.Message + ")")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestConditions(t *testing.T) {
	paused := world(rollout.UpToDate)
	paused.Paused = true
	surge := world(rollout.UpToDate, rollout.WaitAvailable)
	surge.Plan.Budget.Surge = true
	slow := world(rollout.UpToDate, rollout.UpToDate, rollout.UpToDate)
	slow.Plan.Budget.Limit = 0
	slow.Snapshot.Set.MinReady = time.Minute
	slow.Plan.Status.Available, slow.Plan.Status.Unavailable = 1, 2
	slow.Snapshot.Nodes[1].Pods[0].ReadySince = slow.Snapshot.Now.Add(-time.Minute)
	slow.Snapshot.Nodes[2].Pods[0].ReadySince = slow.Snapshot.Now.Add(-time.Second)
	invalid := world(rollout.UpToDate)
	invalid.Problems = []dialect.Problem{{Reason: "InvalidAnnotation", Message: "An annotation."}, {Reason: "InvalidSpec", Message: "Field x.", Fatal: true}}
	undecided := kruise.Observation{Now: at(1), Problems: invalid.Problems[1:]}
	for name, e := range map[string]struct {
		o    kruise.Observation
		want string
	}{
		"complete": {world(rollout.UpToDate, rollout.UpToDate), `
Progressing=False Complete (2 of 2 nodes have a pod of the newest revision)
Available=True Nodes (2 of 2 nodes have an available pod, at least 1 must)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"no nodes": {world(), `
Progressing=False Complete (0 of 0 nodes have a pod of the newest revision)
Available=True Nodes (0 of 0 nodes have an available pod, at least 0 must)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"rolling": {world(rollout.UpToDate, rollout.WaitAvailable, rollout.WaitBudget, rollout.WaitBudget, rollout.WaitBudget), `
Progressing=True InProgress (1 of 5 nodes have a pod of the newest revision; in progress: n2: <wait-available>; waiting for their turn: 3 nodes)
Available=True Nodes (4 of 5 nodes have an available pod, at least 4 must)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"too many unavailable": {world(rollout.WaitAvailable, rollout.WaitAvailable, rollout.WaitAvailable, rollout.WaitAvailable, rollout.UpToDate), `
Progressing=True InProgress (1 of 5 nodes have a pod of the newest revision; in progress: n1: <wait-available>; n2: <wait-available>; n3: <wait-available>; and 1 node more)
Available=False Nodes (1 of 5 nodes have an available pod, at least 4 must; without: n1, n2, n3, and others)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"somebody else uses the budget": {world(rollout.WaitBudget, rollout.WaitBudget, rollout.WaitBudget, rollout.WaitBudget), `
Progressing=True InProgress (0 of 4 nodes have a pod of the newest revision; next: n1: <wait-budget>; n2: <wait-budget>; n3: <wait-budget>; and 1 node more)
Available=True Nodes (4 of 4 nodes have an available pod, at least 3 must)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"blocked, and others wait for it": {world(rollout.Blocked, rollout.WaitBudget), `
Progressing=False Blocked (0 of 2 nodes have a pod of the newest revision; blocked: n1: pod name agent-x is taken by somebody else; waiting for their turn: 1 node)
Available=True Nodes (1 of 2 nodes have an available pod, at least 1 must)
Degraded=True Blocked (n1: pod name agent-x is taken by somebody else)
Paused=False NotPaused
`},
		"surge": {surge, `
Progressing=True InProgress (1 of 2 nodes have a pod of the newest revision; in progress: n2: <wait-available>)
Available=False Nodes (1 of 2 nodes have an available pod, at least 2 must; without: n2)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"not ready for long enough": {slow, `
Progressing=False Complete (3 of 3 nodes have a pod of the newest revision)
Available=False Nodes (1 of 3 nodes have an available pod, at least 3 must; without: n1, n3)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"held": {world(rollout.UpToDate, rollout.WaitOnDelete), `
Progressing=False Held (1 of 2 nodes have a pod of the newest revision; held back: n2: <wait-on-delete>)
Available=True Nodes (2 of 2 nodes have an available pod, at least 1 must)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"held in several ways": {world(rollout.WaitPaused, rollout.WaitPartition, rollout.WaitSelector, rollout.WaitProgressive), `
Progressing=False Held (0 of 4 nodes have a pod of the newest revision; held back: n1: <wait-paused>; n2: <wait-partition>; n3: <wait-selector>; and 1 node more)
Available=True Nodes (3 of 4 nodes have an available pod, at least 3 must)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"waits for a hook": {world(rollout.UpToDate, rollout.WaitHook, rollout.WaitPartition), `
Progressing=True InProgress (1 of 3 nodes have a pod of the newest revision; in progress: n2: <wait-hook>)
Available=True Nodes (2 of 3 nodes have an available pod, at least 2 must)
Degraded=False AsExpected
Paused=False NotPaused
`},
		"blocked": {world(rollout.UpToDate, rollout.Blocked), `
Progressing=False Blocked (1 of 2 nodes have a pod of the newest revision; blocked: n2: pod name agent-x is taken by somebody else)
Available=True Nodes (1 of 2 nodes have an available pod, at least 1 must)
Degraded=True Blocked (n2: pod name agent-x is taken by somebody else)
Paused=False NotPaused
`},
		"failing": {world(rollout.WaitBackoff, rollout.UpToDate), `
Progressing=False PodsFailing (1 of 2 nodes have a pod of the newest revision; failing: n1: <wait-backoff>)
Available=True Nodes (1 of 2 nodes have an available pod, at least 1 must)
Degraded=True PodsFailing (n1: <wait-backoff>)
Paused=False NotPaused
`},
		"paused": {paused, `
Progressing=False Complete (1 of 1 node have a pod of the newest revision)
Available=True Nodes (1 of 1 node have an available pod, at least 0 must)
Degraded=False AsExpected
Paused=True Paused (Updates are paused by spec.updateStrategy.rollingUpdate.paused; missing pods are created all the same.)
`},
		"invalid":         {invalid, "\nProgressing=False Complete (1 of 1 node have a pod of the newest revision)\nAvailable=True Nodes (1 of 1 node have an available pod, at least 0 must)\nDegraded=True InvalidSpec (Field x.)\nPaused=False NotPaused\n"},
		"undecided":       {undecided, "\nProgressing=False InvalidSpec (nothing is done before this is fixed: Field x.)\nDegraded=True InvalidSpec (Field x.)\nPaused=False NotPaused\n"},
		"not decided yet": {kruise.Observation{Now: at(1)}, "\nDegraded=False AsExpected\nPaused=False NotPaused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := e.want[1:]
			for _, kind := range rollout.VerdictKinds() {
				want = strings.ReplaceAll(want, "<"+kind.String()+">", kind.Sentence())
			}
			if got := show(kruise.Conditions(nil, e.o)); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestEveryVerdictIsReported: whatever a node waits for, or is done to it, the condition Progressing names the node and says what.
func TestEveryVerdictIsReported(t *testing.T) {
	for _, kind := range rollout.VerdictKinds() {
		o := world(kind)
		told := show(kruise.Conditions(nil, o))
		want := "n1: " + kind.Sentence()
		if kind == rollout.Blocked {
			want = "n1: " + o.Snapshot.Nodes[0].Blocked
		}
		left := kind == rollout.WaitCollection // to the pod garbage collector: nothing that the set works on
		open := (kind.Waits() || kind.Acts() || kind == rollout.NotEvaluated) && !left
		complete := strings.Contains(told, kruise.ReasonComplete)
		if ends := !open || kind == rollout.WaitEligible; complete != ends || strings.Contains(told, want) != open {
			t.Errorf("%s: %s", kind, told)
		}
	}
	o := world(rollout.Recreating)
	o.Plan.Verdicts[0].Detail = rollout.DetailFieldRef
	if told := show(kruise.Conditions(nil, o)); !strings.Contains(told, rollout.DetailFieldRef.Sentence()) {
		t.Errorf("why the pod is recreated is not told: %s", told)
	}
}

// TestASpecificationThatBecomesInvalidStopsProgress shows that a condition from before does not stay True for ever.
func TestASpecificationThatBecomesInvalidStopsProgress(t *testing.T) {
	rolling := kruise.Conditions(nil, world(rollout.WaitAvailable))
	problems := []dialect.Problem{{Reason: "InvalidAnnotation", Message: "An annotation."}, {Reason: "InvalidSpec", Message: "Field x.", Fatal: true}}
	told := show(kruise.Conditions(rolling, kruise.Observation{Now: at(200), Problems: problems}))
	for _, want := range []string{"Progressing=False InvalidSpec (nothing is done before this is fixed: Field x.)\n", "Available=True Nodes", "Degraded=True InvalidSpec (Field x.)\n"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not told:\n%s", want, told)
		}
	}
	if told := show(kruise.Conditions(rolling, kruise.Observation{Now: at(200), Problems: problems[:1]})); !strings.Contains(told, "Progressing=True") {
		t.Errorf("an annotation does not end the progress:\n%s", told)
	}
}

// TestConditionTimes shows that a time changes with the status of its condition only, and that others' conditions stay.
func TestConditionTimes(t *testing.T) {
	foreign := appsv1.DaemonSetCondition{Type: "Mine", Status: "True", LastTransitionTime: at(7)}
	first := kruise.Conditions([]appsv1.DaemonSetCondition{foreign}, world(rollout.WaitAvailable))
	later := world(rollout.WaitTerminating)
	later.Now = at(200)
	second := kruise.Conditions(first, later)
	last := world(rollout.UpToDate)
	last.Now = at(300)
	third := kruise.Conditions(second, last)
	if first[0] != foreign || third[0] != foreign {
		t.Errorf("somebody else's condition has changed: %v, %v", first, third)
	}
	for i, want := range []metav1.Time{at(100), at(100), at(300)} {
		got := [][]appsv1.DaemonSetCondition{first, second, third}[i][1]
		if got.Type != kruise.Progressing || !got.LastTransitionTime.Equal(&want) {
			t.Errorf("decision %d: %v, want time %v", i, got, want)
		}
	}
	if first[1].Message == second[1].Message {
		t.Errorf("the message stays while the reason to wait changes: %s", second[1].Message)
	}
}
