// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// node is a node with its verdict; the first letter of the name says how it is: r ready, d down, s no new pod may come, l none may run.
type node struct {
	name string
	kind rollout.VerdictKind
}

func scene(nodes ...node) (*rollout.Snapshot, *rollout.Plan) {
	s, p := &rollout.Snapshot{}, &rollout.Plan{}
	for _, n := range nodes {
		fit := map[byte]rollout.Fit{'r': rollout.MustRun, 'd': rollout.MustRun, 's': rollout.MayStay, 'l': rollout.MustLeave}[n.name[0]]
		s.Nodes = append(s.Nodes, rollout.Node{Name: n.name, Fit: fit, Ready: n.name[0] != 'd'})
		p.Verdicts = append(p.Verdicts, rollout.Verdict{Kind: n.kind})
		if fit == rollout.MustRun {
			p.Status.Desired++
		}
	}
	return s, p
}

func TestOutcome(t *testing.T) {
	ok := node{"r1", rollout.UpToDate}
	for name, c := range map[string]struct {
		nodes  []node
		ignore bool
		state  inspect.State
		why    string
	}{
		"no nodes":                      {nil, false, inspect.Finished, "0 of 0 nodes are updated and available"},
		"all done":                      {[]node{ok, {"r2", rollout.UpToDate}}, false, inspect.Finished, "2 of 2 nodes are updated and available"},
		"one waits":                     {[]node{ok, {"r2", rollout.WaitBudget}}, false, inspect.Rolling, "1 of 2 nodes are updated and available, 1 left (r2)"},
		"one is acted on":               {[]node{ok, {"r2", rollout.Creating}}, false, inspect.Rolling, "1 left (r2)"},
		"not evaluated is not done":     {[]node{{"r1", rollout.NotEvaluated}}, false, inspect.Rolling, "0 of 1"},
		"what the set keeps is done":    {[]node{ok, {"r2", rollout.WaitPartition}, {"r3", rollout.WaitSelector}, {"r4", rollout.WaitEligible}, {"r5", rollout.WaitProgressive}}, false, inspect.Finished, "1 of 5 nodes are updated and available, 4 excluded by the set itself (r2, r3, r4, r5)"},
		"a pause is not":                {[]node{ok, {"r2", rollout.WaitPaused}}, false, inspect.Rolling, "1 left (r2)"},
		"nodes that need no pod":        {[]node{ok, {"s2", rollout.Stays}, {"l3", rollout.Removing}, {"l4", rollout.WaitTerminating}}, false, inspect.Finished, "1 of 1"},
		"a node that is down":           {[]node{ok, {"d2", rollout.WaitTerminating}}, false, inspect.Rolling, "1 of 2 nodes are updated and available, 1 left and not ready (d2)"},
		"a node that is down, ignored":  {[]node{ok, {"d2", rollout.WaitTerminating}}, true, inspect.Finished, "1 left and not ready (d2)"},
		"down and not down":             {[]node{ok, {"d2", rollout.WaitBudget}, {"r3", rollout.WaitBudget}}, true, inspect.Rolling, "2 left (d2, r3), 1 of them not ready"},
		"a node that is down, but done": {[]node{ok, {"d2", rollout.UpToDate}}, false, inspect.Finished, "2 of 2"},
		"owners decide":                 {[]node{ok, {"r2", rollout.WaitNodeOwner}}, false, inspect.Rolling, "1 left (r2), updated when the owners of the nodes upgrade them"},
		"owners decide about some":      {[]node{{"r1", rollout.WaitTerminating}, {"r2", rollout.WaitNodeOwner}}, false, inspect.Rolling, "2 left (r1, r2), 1 of them updated when the owners of the nodes upgrade them"},
	} {
		s, p := scene(c.nodes...)
		got := inspect.OutcomeOf(&dialect.Workload{}, s, p, c.ignore)
		if got.State != c.state || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %s, %s; want %s, %s", name, got.State, got.Why, c.state, c.why)
		}
	}
	s, p := scene(ok)
	w := &dialect.Workload{Problems: []dialect.Problem{{Message: "harmless"}, {Message: "Field x is wrong.", Fatal: true}}}
	if got := inspect.OutcomeOf(w, s, p, true); got.State != inspect.Failed || got.Why != "Field x is wrong." {
		t.Errorf("a set that is refused: %+v", got)
	}
}

// A node on which no new pod may be placed is done when it has no old pod: one that is cut off from the cluster has a taint, and what it runs on it
// still runs, whatever became of the Node object.
func TestOutcomeOfNodesWithATaint(t *testing.T) {
	old, current := rollout.Pod{Name: "old"}, rollout.Pod{Name: "new", Revision: 1}
	leaving, over := old, old
	leaving.Deleting, over.Phase = true, rollout.Failed
	const cut, tainted = "1 of 1 nodes are updated and available, 1 left and not ready (s2)", "1 of 1 nodes are updated and available, 1 with an old pod and a taint that prevents a new one (s2)"
	for name, c := range map[string]struct {
		ready  bool
		kind   rollout.VerdictKind
		pods   []rollout.Pod
		ignore bool
		want   inspect.Outcome
	}{
		"cut off, with an old pod that is deleted": {false, rollout.WaitTerminating, []rollout.Pod{leaving}, false, inspect.Outcome{State: inspect.Rolling, Why: cut, Left: []string{"s2"}, Unreachable: []string{"s2"}}},
		"cut off, with an old pod":                 {false, rollout.WaitUnreachable, []rollout.Pod{old}, false, inspect.Outcome{State: inspect.Rolling, Why: cut, Left: []string{"s2"}, Unreachable: []string{"s2"}}},
		"cut off, with both":                       {false, rollout.Stays, []rollout.Pod{current, leaving}, false, inspect.Outcome{State: inspect.Rolling, Why: cut, Left: []string{"s2"}, Unreachable: []string{"s2"}}},
		"cut off, and ignored":                     {false, rollout.WaitTerminating, []rollout.Pod{leaving}, true, inspect.Outcome{State: inspect.Finished, Why: cut, Left: []string{"s2"}, Unreachable: []string{"s2"}}},
		"cut off, with the new pod":                {false, rollout.Stays, []rollout.Pod{current}, false, inspect.Outcome{State: inspect.Finished, Why: "1 of 1 nodes are updated and available"}},
		"cut off, with a pod that has ended":       {false, rollout.NotWanted, []rollout.Pod{over}, false, inspect.Outcome{State: inspect.Finished, Why: "1 of 1 nodes are updated and available"}},
		"ready, with an old pod":                   {true, rollout.WaitOnDelete, []rollout.Pod{old}, false, inspect.Outcome{State: inspect.Finished, Why: tainted, Kept: []string{"s2"}}},
		"ready, with an old pod that goes":         {true, rollout.WaitTerminating, []rollout.Pod{leaving}, false, inspect.Outcome{State: inspect.Finished, Why: "1 of 1 nodes are updated and available"}},
		"ready, with the new pod":                  {true, rollout.Stays, []rollout.Pod{current}, false, inspect.Outcome{State: inspect.Finished, Why: "1 of 1 nodes are updated and available"}},
	} {
		s, p := scene(node{"r1", rollout.UpToDate}, node{"s2", c.kind})
		s.Set.Update, s.Nodes[1].Ready, s.Nodes[1].Pods = 1, c.ready, c.pods
		if got := inspect.OutcomeOf(&dialect.Workload{}, s, p, c.ignore); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	s, p := scene(node{"r1", rollout.UpToDate}, node{"r2", rollout.WaitPartition}, node{"s3", rollout.WaitEligible})
	s.Set.Update, s.Nodes[2].Pods = 1, []rollout.Pod{old}
	const both = "1 of 2 nodes are updated and available, 1 excluded by the set itself (r2), 1 with an old pod and a taint that prevents a new one (s3)"
	if got := inspect.OutcomeOf(&dialect.Workload{}, s, p, false); got.State != inspect.Finished || got.Why != both {
		t.Errorf("kept by the set, and by a taint: %+v", got)
	}
}

// Of the warnings about a set the newest ones of the last hour are shown, whatever API they came by.
func TestWarnings(t *testing.T) {
	roll := fakecluster.Roll{Name: "agent", Letters: "u"}
	event := func(name string, age time.Duration, uid types.UID) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: corev1.EventTypeWarning, Reason: name,
			LastTimestamp: metav1.NewTime(fakecluster.Now().Add(-age)), InvolvedObject: corev1.ObjectReference{UID: uid},
		}
	}
	normal := event("Normal", time.Second, roll.UID())
	normal.Type = corev1.EventTypeNormal
	series := event("Series", 9*time.Hour, roll.UID())
	series.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(fakecluster.Now().Add(-time.Minute))}
	modern := event("Modern", 0, roll.UID())
	modern.LastTimestamp, modern.EventTime = metav1.Time{}, metav1.NewMicroTime(fakecluster.Now().Add(-2*time.Minute))
	cluster := fakecluster.New(t, append(roll.Objects(t), normal, series, modern,
		event("Old", 2*time.Hour, roll.UID()), event("Other", time.Second, "x"), event("Fourth", 30*time.Minute, roll.UID()), event("Third", 20*time.Minute, roll.UID()))...)
	set, err := resolver.Find(t.Context(), cluster.Options.Given, "agent")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, w := range inspect.Warnings(t.Context(), cluster.Options, cluster.Options.Given, inspect.About{Set: set}) {
		reasons = append(reasons, w.Reason)
	}
	if got := strings.Join(reasons, " "); got != "Series Modern Third" {
		t.Errorf("got %s", got)
	}
	for i, e := range []*corev1.Event{series, modern} { // one of the node that is asked about, and one of another
		e.Annotations = map[string]string{everynode.EventNode: []string{"a", "b"}[i]}
		if _, err := cluster.Options.Given.Kubernetes.CoreV1().Events("default").Update(t.Context(), e, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got := inspect.Warnings(t.Context(), cluster.Options, cluster.Options.Given, inspect.About{Set: set, Node: "a"})
	if len(got) != 3 || got[0].Reason != "Series" || got[1].Reason != "Third" {
		t.Errorf("of one node: %+v", got)
	}
}
