// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

const noon = rollout.Time(1_800_000_000_000_000_000)

// world is a cluster in which pods are replaced at once.
type world struct {
	claims    func(revision, than int) bool // nil if it is not known what a quota counts of a pod
	fits      func(revision int) []rollout.Fit
	alike     func(revision, as int) bool // nil if it is not known how pods are scheduled
	t         *testing.T
	s         rollout.Snapshot
	labels    map[string]map[string]string
	policies  []*policy.Policy
	marks     []int64
	failed    []*everynode.Failure
	watch     *policy.Watch
	memory    *policy.Memory
	stored    *v1alpha1.SetStatus
	approvals []v1alpha1.RolloutApproval
	// refuses is whether no state of an approval can be written; unstored are the names of those that have not been.
	refuses    bool
	unstored   map[string]bool
	last       *v1alpha1.SetStatus
	passes     int // decisions with a last status
	restored   bool
	unread     bool
	out        policy.Result
	events     []string
	messages   []string // of the events
	notices    []policy.Notice
	neighbours *policy.Neighbours
	answers    []policy.Answer
	measuring  policy.Measuring
	// measured is when the last answer was measured, since noon: each is a minute after the one before.
	measured time.Duration
	// template is what is known of the template of a set of which another controller creates the pods.
	template *policy.Template
	// foreign is the index of a revision of a stranger; 0 for none.
	foreign int
	// generation is that of the set, and described the revision that its template described at the last decision.
	generation int64
	described  string
	// same has the index of the revision that represents one with the same template.
	same map[int]int
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
	w := &world{t: t, measuring: policy.MeasuredHere, unstored: map[string]bool{}, labels: map[string]map[string]string{}, marks: []int64{1, 0}, failed: make([]*everynode.Failure, 2), policies: []*policy.Policy{read(t, spec)}}
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

// isCut is a node that has not been ready for an hour, with a pod that no kubelet ends.
func (w *world) isCut(name string) {
	n := w.node(name)
	n.Ready, n.Since, n.Pods[0].Deleting = false, w.s.Now.Add(-time.Hour), true
}

// pass lets time pass and decides.
func (w *world) pass(d time.Duration) { w.jump(d, d) }

// jump is pass with a clock on the wall that shows another duration.
func (w *world) jump(wall, elapsed time.Duration) {
	w.t.Helper()
	w.s.Now = w.s.Now.Add(wall)
	if u := w.s.Set.Update; u >= 0 && w.s.Revisions[u].Name != w.described {
		w.generation, w.described = w.generation+1, w.s.Revisions[u].Name
	}
	in := &policy.Input{
		Snapshot: &w.s, UID: "agent", Generation: w.generation, Set: policy.Set{Namespace: "default", Name: "agent"}, Policies: w.policies, Unread: w.unread,
		Approvals: w.approvals, Unstored: w.unstored, Last: w.last, Restored: w.restored, Elapsed: elapsed, Neighbours: w.neighbours, Watch: w.watch,
		Stored: w.stored, Answers: w.answers, Measuring: w.measuring, Template: w.template, ClaimsMore: w.claims, Fits: w.fits, ScheduledAlike: w.alike,
	}
	w.answers = nil
	for i := range w.s.Nodes {
		in.Labels = append(in.Labels, w.labels[w.s.Nodes[i].Name])
	}
	for i := range w.s.Revisions {
		same, copied := w.same[i]
		if !copied {
			same = i
		}
		in.Revisions = append(in.Revisions, policy.Revision{
			Name: "agent-" + w.s.Revisions[i].Name, Committed: w.marks[i], Failed: w.failed[min(i, 1)], Same: same, Foreign: w.foreign != 0 && i == w.foreign,
		})
	}
	in.Memory = w.memory
	if w.restored || w.last == nil {
		in.Memory = nil
	}
	if w.restored {
		in.Watch = nil
	}
	w.survives(*in)
	w.out = policy.Decide(in)
	w.watch, w.memory = w.out.Watch, w.out.Memory
	if w.out.Fail != nil {
		w.failed[1] = w.out.Fail
	} else if w.out.Retry {
		w.failed[1] = nil
	}
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
		if w.refuses {
			w.unstored[a.Name] = true
		}
	}
	w.notices = append(w.notices, w.out.Notices...)
	for _, e := range w.out.Events {
		w.events, w.messages = append(w.events, e.Reason), append(w.messages, e.Message)
	}
	if len(w.out.Judged) > 0 && !w.refuses {
		w.jump(0, 0) // what has been stored requests a decision
	}
}

// survives decides with each field of the last status missing: other clients can edit a status, and an older definition drops what it does not know.
func (w *world) survives(in policy.Input) {
	if w.last == nil {
		return
	}
	in.Watch, in.Memory = nil, nil
	fields := reflect.TypeFor[v1alpha1.SetStatus]()
	w.passes++
	for i := range 2 * fields.NumField() {
		if w.passes > 4 && w.passes%fields.NumField() != i/2 { // in a long story, one field for each decision
			continue
		}
		in.Last, in.Restored = w.last.DeepCopy(), i%2 == 0
		reflect.ValueOf(in.Last).Elem().Field(i / 2).SetZero()
		func() {
			defer func() {
				if r := recover(); r != nil {
					w.t.Fatalf("without %s in the last status: %v\n%s", fields.Field(i/2).Name, r, debug.Stack())
				}
			}()
			policy.Decide(&in)
		}()
	}
}

// forget deletes the ControllerRevision v1.
func (w *world) forget() {
	w.s.Revisions, w.marks = w.s.Revisions[1:], w.marks[1:]
	w.s.Set.Update--
	for i := range w.s.Nodes {
		for k := range w.s.Nodes[i].Pods {
			w.s.Nodes[i].Pods[k].Revision-- // 0 becomes rollout.NoRevision
		}
	}
}

// change gives the template another revision.
func (w *world) change(name string) {
	w.s.Set.Update = len(w.s.Revisions)
	w.s.Revisions, w.marks = append(w.s.Revisions, rollout.Revision{Name: name, Number: 7, Created: w.s.Now}), append(w.marks, 0)
}

// have are the nodes with a pod of a revision.
func (w *world) have(revision int) (names string) {
	for i := range w.s.Nodes {
		for k := range w.s.Nodes[i].Pods {
			if w.s.Nodes[i].Pods[k].Revision == revision {
				names += w.s.Nodes[i].Name
			}
		}
	}
	return names
}

// roll carries the plan out at once: pods are replaced and ready. It returns the nodes on which something happened.
func (w *world) roll() string {
	s := w.s
	w.out.Enter(&s, nil)
	var touched []string
	for _, a := range rollout.Decide(s).Actions {
		name := w.s.Nodes[a.Node].Name
		revision := s.Set.Update
		if a.Kind == rollout.Create {
			revision = a.Revision
		}
		w.put(name, revision, true)
		touched = append(touched, name)
	}
	return strings.Join(touched, "")
}

// verdicts are those of all nodes, each in one word, joined.
func (w *world) verdicts() string {
	s := w.s
	w.out.Enter(&s, nil)
	var out []string
	for i, v := range rollout.Decide(s).Verdicts {
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
	a.Name, a.CreationTimestamp = name, metav1.NewTime(time.Unix(0, int64(w.s.Now)).Truncate(time.Second))
	w.approvals = append(w.approvals, a)
}

// refuse lets no state of an approval be written, until store.
func (w *world) refuse() { w.refuses = true }

// store writes what could not be written.
func (w *world) store() {
	w.refuses = false
	clear(w.unstored)
}

// lead lets another manager take over: it knows what has been stored.
func (w *world) lead() {
	for i := range w.approvals {
		if w.unstored[w.approvals[i].Name] {
			w.approvals[i].Status = v1alpha1.RolloutApprovalStatus{}
		}
	}
	clear(w.unstored)
	w.restored = true
}
