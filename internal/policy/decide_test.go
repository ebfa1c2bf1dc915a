// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

const noon = rollout.Time(1_800_000_000_000_000_000)

// world is a cluster in which pods are replaced at once.
type world struct {
	t         *testing.T
	s         rollout.Snapshot
	labels    map[string]map[string]string
	policies  []*policy.Policy
	marks     []int64
	approvals []v1alpha1.RolloutApproval
	last      *v1alpha1.SetStatus
	restored  bool
	unread    bool
	elapsed   time.Duration
	out       policy.Result
	events    []string
}

// read reads a policy from the fields of its specification.
func read(t *testing.T, spec string) *policy.Policy {
	t.Helper()
	p := &v1alpha1.RolloutPolicy{}
	p.Name, p.Namespace = "agents", "default"
	p.Spec.Targets = []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return policy.Read(p)
}

// newWorld has nodes a to j with pods of v1, and the template v2.
func newWorld(t *testing.T, spec string) *world {
	w := &world{t: t, labels: map[string]map[string]string{}, marks: []int64{1, 0}, policies: []*policy.Policy{read(t, spec)}}
	w.s = rollout.Snapshot{
		Now: noon, Set: rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: rollout.Quantity{Value: 10}, Update: 1},
		Revisions: []rollout.Revision{{Name: "v1", Number: 1}, {Name: "v2", Number: 2, Created: noon}},
	}
	for _, name := range strings.Split("abcdefghij", "") {
		w.join(name, 0, 0)
	}
	return w
}

func (w *world) join(name string, joined rollout.Time, revision int) {
	n := rollout.Node{Name: name, Fit: rollout.MustRun, Ready: true, Joined: joined, Last: rollout.NoRevision}
	w.s.Nodes = append(w.s.Nodes, n)
	slices.SortFunc(w.s.Nodes, func(a, b rollout.Node) int { return strings.Compare(a.Name, b.Name) })
	w.put(name, revision, true)
}

// put gives a node a pod.
func (w *world) put(name string, revision int, ready bool) {
	n := w.node(name)
	n.Pods = []rollout.Pod{{Name: name, UID: name, Revision: revision, Phase: rollout.Running, Scheduled: true, Ready: ready, ReadySince: w.s.Now, Created: w.s.Now}}
}

func (w *world) node(name string) *rollout.Node {
	for i := range w.s.Nodes {
		if w.s.Nodes[i].Name == name {
			return &w.s.Nodes[i]
		}
	}
	w.t.Fatalf("no node %s", name)
	return nil
}

// pass lets time pass and decides.
func (w *world) pass(d time.Duration) { w.jump(d, d) }

// jump is pass with a clock on the wall that shows another duration.
func (w *world) jump(wall, elapsed time.Duration) {
	w.t.Helper()
	w.s.Now = w.s.Now.Add(wall)
	in := &policy.Input{
		Snapshot: &w.s, Set: policy.Set{Namespace: "default", Name: "agent"}, Policies: w.policies, Unread: w.unread,
		Approvals: w.approvals, Last: w.last, Restored: w.restored, Elapsed: elapsed,
	}
	for i := range w.s.Nodes {
		in.Labels = append(in.Labels, w.labels[w.s.Nodes[i].Name])
	}
	for i := range w.s.Revisions {
		in.Revisions = append(in.Revisions, policy.Revision{Name: "agent-" + w.s.Revisions[i].Name, Committed: w.marks[i], Same: i})
	}
	w.out = policy.Decide(in)
	w.restored = false
	w.last = w.out.Status
	if w.out.Commit >= 0 {
		w.marks[w.out.Commit] = w.out.CommitNumber
	}
	if w.out.Release {
		w.marks = make([]int64, len(w.marks))
	}
	for _, a := range w.out.Judged {
		i := slices.IndexFunc(w.approvals, func(b v1alpha1.RolloutApproval) bool { return b.Name == a.Name })
		w.approvals[i] = a
	}
	for _, e := range w.out.Events {
		w.events = append(w.events, e.Reason)
	}
}

// roll carries the plan out at once: pods are replaced and ready. It returns the nodes on which something happened.
func (w *world) roll() string {
	w.s.Gate = w.out.Gate
	var touched []string
	for _, a := range rollout.Decide(w.s).Actions {
		name := w.s.Nodes[a.Node].Name
		revision := w.s.Set.Update
		if a.Kind == rollout.Create {
			revision = a.Revision
		}
		w.put(name, revision, true)
		touched = append(touched, name)
	}
	w.s.Gate = nil
	return strings.Join(touched, "")
}

// verdicts are those of all nodes, each in one word, joined.
func (w *world) verdicts() string {
	w.s.Gate = w.out.Gate
	defer func() { w.s.Gate = nil }()
	var out []string
	for i, v := range rollout.Decide(w.s).Verdicts {
		out = append(out, w.s.Nodes[i].Name+":"+v.Kind.String())
	}
	return strings.Join(out, " ")
}

func (w *world) want(rolled string, phase v1alpha1.Phase, wave string) {
	w.t.Helper()
	got := w.roll()
	if got != rolled || w.out.Status.Phase != phase || w.out.Status.Wave != wave {
		w.t.Fatalf("rolled %q in phase %s, wave %q, want %q, %s, %q\n%s\n%+v", got, w.out.Status.Phase, w.out.Status.Wave, rolled, phase, wave, w.verdicts(), w.out.Status.Waves)
	}
}

func (w *world) approve(name, wave, revision string, decision v1alpha1.Decision) {
	a := v1alpha1.RolloutApproval{Spec: v1alpha1.RolloutApprovalSpec{Policy: "agents", Set: "agent", Wave: wave, Revision: "agent-" + revision, Decision: decision, By: "ada"}}
	a.Name = name
	w.approvals = append(w.approvals, a)
}

const threeWaves = `
waves:
- {name: canary, nodes: {count: 1}, soak: 10s, after: [{type: Approval, remindAfter: 1h}]}
- {name: half, nodes: {percent: 50}, soak: 5s}
`

func TestWaves(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	if got := w.verdicts(); got != "a:up-to-date b:wait-soak c:wait-soak d:wait-soak e:wait-soak f:wait-wave g:wait-wave h:wait-wave i:wait-wave j:wait-wave" {
		t.Error(got)
	}
	if w.out.Wake != w.s.Now.Add(10*time.Second) || w.out.Status.Next.Action != v1alpha1.ActionEndSoak {
		t.Errorf("wake %v, next %+v", w.out.Wake.Sub(w.s.Now), w.out.Status.Next)
	}
	w.pass(9 * time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.approve("other", "canary", "v9", v1alpha1.Approve)
	w.approve("half", "half", "v2", v1alpha1.Approve)
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	w.want("bcde", v1alpha1.PhaseRolling, "half")
	w.pass(time.Second)
	w.want("", v1alpha1.PhaseSoaking, "half")
	w.pass(5 * time.Second)
	w.want("fghij", v1alpha1.PhaseRolling, "remaining")
	w.pass(0)
	if w.out.Commit != 1 || w.marks[1] != 2 {
		t.Fatalf("commits %d as %d", w.out.Commit, w.marks[1])
	}
	w.pass(0)
	w.want("", v1alpha1.PhaseComplete, "")
	want := "RolloutStarted RolloutWaveStarted RolloutSoakStarted RolloutApprovalNeeded RolloutApprovalMissing RolloutWavePassed RolloutWaveStarted " +
		"RolloutSoakStarted RolloutWavePassed RolloutWaveStarted RolloutWavePassed RolloutCommitted"
	if got := strings.Join(w.events, " "); got != want {
		t.Errorf("events\n%s, want\n%s", got, want)
	}
}

func TestSoakStartsAgain(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.pass(9 * time.Second)
	w.put("a", 1, false)
	w.pass(500 * time.Millisecond)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.put("a", 1, true)
	w.pass(0)
	w.pass(9 * time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(time.Second)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
	if !slices.Contains(w.events, policy.ReasonSoakRestarted) {
		t.Error(w.events)
	}
}

func TestClocksNeverShortenASoak(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}, soak: 10s}]")
	w.pass(0)
	w.roll()
	w.pass(0)
	w.jump(time.Hour, time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.jump(-2*time.Hour, time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.jump(0, 7*time.Second)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.restored = true // a new leader, which does not know how long nobody looked
	w.jump(time.Hour, 0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.jump(0, time.Second)
	w.want("cdefghij", v1alpha1.PhaseRolling, "remaining")
}

func TestLostStatusReleasesNothing(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	w.roll()
	w.pass(0)
	w.pass(10 * time.Second)
	w.want("bcde", v1alpha1.PhaseRolling, "half")
	w.last = nil
	w.put("c", 0, true)
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.pass(10 * time.Second)
	w.want("c", v1alpha1.PhaseRolling, "half")
}

func TestTemplateChangesInMidRoll(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(0)
	w.roll()
	w.pass(0)
	w.pass(10 * time.Second)
	w.want("bcde", v1alpha1.PhaseRolling, "half")
	w.s.Revisions = append(w.s.Revisions, rollout.Revision{Name: "v3", Number: 3, Created: w.s.Now})
	w.s.Set.Update, w.marks = 2, append(w.marks, 0)
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	// Back to v2, which was approved: that was another rollout.
	w.s.Set.Update, w.s.Revisions[1].Number = 1, 4
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.pass(10 * time.Second)
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
}

func TestUndoByTheUserSkipsWaves(t *testing.T) {
	w := newWorld(t, threeWaves+"windows: [{schedule: '0 0 1 1 *', duration: 1s}]")
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, 1, true)
	}
	w.pass(0)
	w.want("", v1alpha1.PhaseSoaking, "canary")
	w.s.Set.Update, w.s.Revisions[0].Number = 0, 3
	w.pass(0)
	w.want("abc", v1alpha1.PhaseUndoing, "")
	if !slices.Contains(w.events, policy.ReasonRolloutUndone) {
		t.Error(w.events)
	}
	w.pass(0)
	w.want("", v1alpha1.PhaseComplete, "")
}

func TestWithoutPolicy(t *testing.T) {
	t.Run("never governed", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.policies, w.marks = nil, []int64{0, 0}
		if w.pass(0); w.out.Gate != nil || w.out.Status != nil {
			t.Errorf("%+v", w.out)
		}
	})
	t.Run("deleted in the middle", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.pass(0)
		w.roll()
		w.policies = nil
		w.node("c").Pods = nil
		w.pass(time.Hour)
		if got := w.roll(); got != "c" || w.node("c").Pods[0].Revision != 0 {
			t.Errorf("rolled %q", got)
		}
		w.pass(time.Hour)
		if !strings.Contains(w.verdicts(), "j:wait-policy") {
			t.Error(w.verdicts())
		}
		w.marks = []int64{0, 0} // a user removes the mark
		w.pass(0)
		if got := w.roll(); got != "bcdefghij" {
			t.Errorf("rolled %q", got)
		}
	})
	t.Run("deleted at rest", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.s.Set.Update, w.policies = 0, nil
		if w.pass(0); !w.out.Release || w.marks[0] != 0 {
			t.Error("the mark stays")
		}
	})
	t.Run("not read", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.policies, w.unread = nil, true
		w.pass(0)
		if got := w.roll(); got != "" {
			t.Errorf("rolled %q", got)
		}
		w.marks = []int64{0, 0}
		w.pass(0)
		if got := w.roll(); got != "" {
			t.Errorf("without a mark, rolled %q", got)
		}
	})
	t.Run("first policy in mid-roll", func(t *testing.T) {
		w := newWorld(t, threeWaves)
		w.put("b", 1, true)
		w.marks = []int64{0, 0}
		w.pass(0)
		if got := w.roll(); got != "" || w.marks[0] != 1 {
			t.Errorf("rolled %q before the mark was written, marks %v", got, w.marks)
		}
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
	})
}

func TestConflictAndSuspension(t *testing.T) {
	w := newWorld(t, threeWaves)
	w.policies = append(w.policies, read(t, "joiningNodes: Latest"))
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "")
	if !strings.Contains(w.verdicts(), "a:wait-conflict") {
		t.Error(w.verdicts())
	}
	w = newWorld(t, "suspend: true")
	w.pass(0)
	w.want("", v1alpha1.PhaseSuspended, "remaining")
	w.policies = []*policy.Policy{read(t, "windows: [{schedule: nonsense, duration: 1h}]")}
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "")
	w.s.Set.Strategy = rollout.OnDelete
	w.pass(0)
	if w.out.Status.Enforcement != v1alpha1.EnforcementNone || w.out.Status.Phase != v1alpha1.PhaseStalled || w.out.Gate != nil {
		t.Errorf("%+v", w.out.Status)
	}
}

func TestRejectAndPromote(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 1}, soak: 1h}]")
	w.pass(0)
	w.roll()
	w.pass(0)
	w.approve("now", "canary", "v2", v1alpha1.Promote)
	w.pass(0)
	if w.out.Status.Wave != "remaining" || w.out.Status.Waves[0].ApprovedBy != "ada" {
		t.Fatalf("%+v", w.out.Status)
	}
	w.approve("no", "", "v2", v1alpha1.Reject)
	w.pass(0)
	w.want("", v1alpha1.PhaseRejected, "")
	if w.out.Status.RejectedRevision != "agent-v2" {
		t.Errorf("%+v", w.out.Status)
	}
	w.approvals = w.approvals[:1]
	w.pass(0)
	w.want("bcdefghij", v1alpha1.PhaseRolling, "remaining")
}

func TestJoiningNodes(t *testing.T) {
	for spec, revision := range map[string]int{"": 0, "joiningNodes: Latest": 1} {
		w := newWorld(t, threeWaves+spec)
		w.pass(0)
		w.want("a", v1alpha1.PhaseRolling, "canary")
		w.join("A", w.s.Now.Add(time.Second), 0) // sorts first, and takes no place of the canary
		w.node("A").Pods = nil
		w.pass(2 * time.Second)
		w.want("A", v1alpha1.PhaseSoaking, "canary")
		if got := w.node("A").Pods[0].Revision; got != revision {
			t.Errorf("%q: it got revision %d", spec, got)
		}
	}
}

func TestUnreachableNodes(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {count: 2}}]")
	w.node("a").Ready, w.node("a").Since = false, noon
	w.put("b", 1, true)
	w.s.Set.MaxUnavailable.Value = 0
	w.node("a").Blocked = "down"
	w.pass(time.Hour)
	w.want("", v1alpha1.PhaseRolling, "canary")
	w.policies = []*policy.Policy{read(t, "{unreachableAfter: 2h, waves: [{name: canary, nodes: {count: 2}}]}")}
	w.pass(time.Minute)
	if w.out.Status.Wave != "canary" || w.out.Wake != noon.Add(2*time.Hour) {
		t.Errorf("%+v, wake %v", w.out.Status, w.out.Wake.Sub(noon))
	}
	w.pass(time.Hour)
	if w.out.Status.Wave != "remaining" || w.out.Status.Waves[0].Nodes != 1 {
		t.Errorf("%+v", w.out.Status)
	}
	w.last = nil
	w.node("b").Ready, w.node("b").Since = false, noon
	if w.pass(time.Hour); w.out.Status.Wave != "canary" {
		t.Errorf("a wave without any reachable node passes: %+v", w.out.Status)
	}
}

func TestPace(t *testing.T) {
	w := newWorld(t, "pace: {maxUpgrading: 20%}")
	w.pass(0)
	w.want("ab", v1alpha1.PhaseRolling, "remaining")
	w = newWorld(t, "pace: {minTimeBetween: 10s}")
	w.pass(0)
	w.want("a", v1alpha1.PhaseRolling, "remaining")
	start := *w.out.Status
	w.last = &start
	w.pass(0)
	w.last = nil // a new leader sees it by the pods
	w.pass(9 * time.Second)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	w.pass(time.Second)
	w.want("b", v1alpha1.PhaseRolling, "remaining")
}

func TestOrderAndGrowth(t *testing.T) {
	w := newWorld(t, "order: {topologyKey: zone, domains: OneAtATime}")
	for i, name := range strings.Split("abcdefghij", "") {
		w.labels[name] = map[string]string{"zone": fmt.Sprint(i % 2)}
	}
	w.pass(0)
	w.want("acegi", v1alpha1.PhaseRolling, "remaining")
	w.put("a", 1, false)
	w.pass(0)
	w.want("", v1alpha1.PhaseRolling, "remaining")
	if !strings.Contains(w.verdicts(), "b:wait-order") {
		t.Error(w.verdicts())
	}
	w.put("a", 1, true)
	w.pass(0)
	w.want("bdfhj", v1alpha1.PhaseRolling, "remaining")

	w = newWorld(t, "waves: [{name: all, nodes: {percent: 100}, growth: {start: 10%, factor: 3}}]")
	for _, step := range []string{"a", "bcd", "efghij"} {
		w.pass(0)
		w.want(step, v1alpha1.PhaseRolling, "all")
	}
}

func TestSelectorsAndSpread(t *testing.T) {
	w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'yes'}}}}, {name: three, nodes: {count: 3, spreadBy: [zone]}}]")
	w.pass(0)
	w.want("", v1alpha1.PhaseStalled, "canary")
	w.labels["d"] = map[string]string{"canary": "yes"}
	for name, zone := range map[string]string{"a": "1", "b": "1", "c": "1", "e": "2", "f": "3"} {
		w.labels[name] = map[string]string{"zone": zone}
	}
	w.pass(0)
	w.want("d", v1alpha1.PhaseRolling, "canary")
	w.pass(0)
	w.want("aef", v1alpha1.PhaseRolling, "three")
}

func TestWindowGatesStartsOnly(t *testing.T) {
	at := time.Unix(0, int64(noon)).UTC()
	w := newWorld(t, fmt.Sprintf("windows: [{schedule: '%d %d * * *', duration: 10m}]", at.Minute(), at.Add(-time.Hour).Hour()))
	w.pass(0)
	w.want("", v1alpha1.PhaseWaitingForWindow, "remaining")
	if next := w.out.Status.Next; next == nil || next.Action != v1alpha1.ActionOpenWindow || w.out.Wake == 0 {
		t.Fatalf("%+v", next)
	}
	w.pass(w.out.Wake.Sub(w.s.Now))
	w.want("abcdefghij", v1alpha1.PhaseRolling, "remaining")
}
