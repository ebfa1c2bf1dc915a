// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/policy"
)

// rules is the policies of a world.
type rules struct {
	Governance
	reports []*v1alpha1.SetStatus
}

func (r *rules) Of(policy.Set) Governance { return r.Governance }

func (r *rules) Grouped(string) []*policy.Policy { return policy.Members("", nil) }

func (r *rules) Report(_ policy.Set, _ []*policy.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval) {
	if status != nil {
		r.reports = append(r.reports, status)
	}
	for i := range r.Approvals {
		for _, j := range judged {
			if r.Approvals[i].Name == j.Name {
				r.Approvals[i] = j
			}
		}
	}
}

func (r *rules) last() v1alpha1.SetStatus {
	if len(r.reports) == 0 {
		return v1alpha1.SetStatus{}
	}
	return *r.reports[len(r.reports)-1]
}

// governedWorld has four nodes with pods of v1, under a policy with a canary of one node that soaks for 10 seconds and needs an approval.
func governedWorld(t *testing.T) (*world, *rules) {
	t.Helper()
	p := canaryPolicy()
	w := newWorld(t, 4, func(ds *appsv1.DaemonSet) {
		all := intstr.FromString("100%")
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all}}
	})
	r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(p)}}}
	w.c.Policies = r
	w.settle()
	w.settle()
	return w, r
}

// canaryPolicy has a canary of one node that soaks for 10 seconds and needs an approval.
func canaryPolicy() *v1alpha1.RolloutPolicy {
	count := int32(1)
	return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p-uid"}, Spec: v1alpha1.RolloutPolicySpec{
		Targets: []v1alpha1.Target{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds"}},
		Waves: []v1alpha1.Wave{{
			Name: "canary", Nodes: v1alpha1.WaveNodes{Count: &count}, Soak: &metav1.Duration{Duration: 10 * time.Second}, After: []v1alpha1.Gate{{Type: v1alpha1.GateApproval}},
		}},
	}}
}

// images counts pods by image.
func (w *world) images(image string) (nodes []string) {
	for _, p := range w.pods {
		if p.Spec.Containers[0].Image == image && p.DeletionTimestamp == nil {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// marks are the numbers of the marks, oldest revision first.
func (w *world) commits() (marks []int64) {
	owned, _ := w.index.History(w.key)
	for _, r := range owned {
		marks = append(marks, r.Committed)
	}
	return marks
}

func (r *rules) approve(wave, revision string) { r.decide(v1alpha1.Approve, wave, revision) }

func (r *rules) decide(decision v1alpha1.Decision, wave, revision string) {
	a := v1alpha1.RolloutApproval{Spec: v1alpha1.RolloutApprovalSpec{Policy: "p", Set: "ds", Wave: wave, Revision: revision, Decision: decision}}
	a.Name, a.Namespace = map[v1alpha1.Decision]string{v1alpha1.Approve: "yes", v1alpha1.Retry: "again"}[decision], "ns"
	a.CreationTimestamp = metav1.Now() // later than everything in the world
	r.Approvals = append(r.Approvals, a)
}

func TestGovernedRoll(t *testing.T) {
	w, r := governedWorld(t)
	if got := r.last(); got.Phase != v1alpha1.PhaseComplete || got.CommittedRevision == "" || !slices.Equal(w.commits(), []int64{1}) {
		t.Fatalf("%+v, marks %v", got, w.commits())
	}
	w.edit("img:v2")
	w.settle()
	for range 30 { // whatever time passes: without an approval nothing moves
		w.clock.Step(time.Second)
		w.mustPass()
	}
	w.settle()
	if got, nodes := r.last(), w.images("img:v2"); got.Phase != v1alpha1.PhaseWaitingForApproval || strings.Join(nodes, "") != "n1" {
		t.Fatalf("%+v, %v", got, nodes)
	}
	r.approve("canary", r.last().TargetRevision)
	w.settle()
	w.settle()
	if got, nodes := r.last(), w.images("img:v2"); got.Phase != v1alpha1.PhaseComplete || len(nodes) != 4 || !slices.Equal(w.commits(), []int64{1, 2}) {
		t.Fatalf("%+v, %v, marks %v", got, nodes, w.commits())
	}
	var told []string
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.Contains(e, " Rollout") {
			told = append(told, strings.Fields(e)[1])
		}
	}
	want := "RolloutStarted RolloutWaveStarted RolloutSoakStarted RolloutApprovalNeeded RolloutWavePassed RolloutWaveStarted RolloutWavePassed RolloutCommitted"
	if got := strings.Join(told, " "); got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// TestPolicyThatIsGone: without its policy nothing more starts, also under another leader that knows nothing, until a person removes the mark.
func TestPolicyThatIsGone(t *testing.T) {
	for _, unread := range []bool{false, true} {
		w, r := governedWorld(t)
		w.edit("img:v2")
		w.settle()
		r.Governance = Governance{Unread: unread}
		w.c.states = map[clustercache.Key]*state{}
		w.clock.Step(time.Hour)
		w.settle()
		if nodes := w.images("img:v2"); strings.Join(nodes, "") != "n1" {
			t.Fatalf("unread %t: %v", unread, nodes)
		}
		w.index.PutNode(clustercache.Node{Name: "n9", RV: w.next(), Ready: true, Created: timeOf(w.clock.Now())})
		w.settle()
		if nodes := w.images("img:v1"); strings.Join(nodes, "") != "n2n3n4n9" {
			t.Fatalf("a node that joins: %v", nodes)
		}
		for _, rev := range w.revisions {
			delete(rev.Annotations, everynode.Committed)
			rev.ResourceVersion = w.next()
			w.seeRevision(rev)
		}
		w.settle()
		if got := len(w.images("img:v2")); unread != (got == 1) || !unread && got != 5 {
			t.Errorf("unread %t: %d nodes have the new revision after the mark was removed", unread, got)
		}
	}
}

// TestMarkThatCannotBeWritten: as long as a set has no mark, a leader that cannot read policies could not know; so nothing starts.
func TestMarkThatCannotBeWritten(t *testing.T) {
	w, r := governedWorld(t)
	for _, rev := range w.revisions {
		delete(rev.Annotations, everynode.Committed)
		rev.ResourceVersion = w.next()
		w.seeRevision(rev)
	}
	w.before = func(verb, name string) error {
		if strings.Contains(verb, "patch-revision") || strings.Contains(verb, "revision") && strings.Contains(verb, "patch") {
			return errors.New("no")
		}
		return nil
	}
	w.edit("img:v2")
	for range 5 {
		_ = w.pass()
		w.kubelets()
		w.clock.Step(time.Second)
	}
	if nodes := w.images("img:v2"); len(nodes) != 0 {
		t.Errorf("%v have the new revision, and nothing is marked (%s)", nodes, r.last().Phase)
	}
	w.before = nil
	w.settle()
	if nodes := w.images("img:v2"); strings.Join(nodes, "") != "n1" {
		t.Errorf("%v", nodes)
	}
}

// TestCopiedMark: an annotation of the set is no mark of a revision.
func TestCopiedMark(t *testing.T) {
	w, _ := governedWorld(t)
	annotations := w.set.GetAnnotations()
	annotations[everynode.Committed] = "99 uid"
	w.set.SetAnnotations(annotations)
	w.edit("img:v2")
	w.settle()
	if marks := w.commits(); !slices.Equal(marks, []int64{1, 0}) {
		t.Errorf("marks %v", marks)
	}
	for _, rev := range w.revisions {
		if rev.Revision == 2 && rev.Annotations[everynode.Committed] != "" {
			t.Errorf("%v", rev.Annotations)
		}
	}
}

// TestCommittedRevisionIsKept: the history is cut, but not the revision that nodes that join get.
func TestCommittedRevisionIsKept(t *testing.T) {
	w, _ := governedWorld(t)
	setHistoryLimit(w, 0)
	for _, image := range []string{"img:v2", "img:v3"} {
		w.edit(image)
		w.settle()
		w.settle()
	}
	if marks := w.commits(); !slices.Contains(marks, 1) {
		t.Errorf("marks %v", marks)
	}
	if got := w.images("img:v1"); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

func setHistoryLimit(w *world, limit int64) {
	spec, _ := w.set.Object["spec"].(map[string]any)
	spec["revisionHistoryLimit"] = limit
	w.set.SetResourceVersion(w.next())
	w.seeSet()
}

// TestPolicyAlongsideAnotherController: a DaemonSet with OnDelete, of which another controller keeps the pods, is updated by deletes, wave by wave, within
// the budget of the policy; without the policy nothing is deleted.
func TestPolicyAlongsideAnotherController(t *testing.T) {
	e := newEdge(t, 6, "external", nil)
	r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(canaryPolicy())}}}
	e.c.Policies = r
	e.roll()
	e.edit("img:v2")
	for range 30 {
		e.roll()
	}
	if got := r.last(); countOf(e.images(), "v2") != 1 || got.Phase != v1alpha1.PhaseWaitingForApproval || got.Enforcement != v1alpha1.EnforcementOnDelete {
		t.Fatalf("%v, %+v", e.images(), got)
	}
	r.approve("canary", r.last().TargetRevision)
	for range 10 {
		e.roll()
	}
	if got := r.last(); countOf(e.images(), "v2") != 6 || got.Phase != v1alpha1.PhaseComplete {
		t.Fatalf("%v, %+v", e.images(), got)
	}
	for _, line := range e.log {
		if verb, _, _ := strings.Cut(line, " "); verb != "delete" && verb != "patch-revision" {
			t.Errorf("an external set writes %q", line)
		}
	}
	r.Governance = Governance{}
	e.edit("img:v3")
	for range 10 {
		e.roll()
	}
	if got := countOf(e.images(), "v3"); got != 0 {
		t.Errorf("without a policy %d pods are replaced", got)
	}
}

// TestPolicyOfASetForOpenYurt: the dialect policy alone deletes no pod of a set whose annotations let the owner of each node decide, and the policy says so.
func TestPolicyOfASetForOpenYurt(t *testing.T) {
	e := newEdge(t, 4, "policy", map[string]string{edgeStrategy: "OTA"})
	r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(canaryPolicy())}}}
	e.c.Policies = r
	e.edit("img:v2")
	for range 30 {
		e.roll()
	}
	if got := r.last(); countOf(e.images(), "v2") != 0 || got.Enforcement != v1alpha1.EnforcementNone || len(got.Blocking) != 1 || got.Blocking[0].Reason != "OpenYurt" {
		t.Errorf("images %v, %+v", e.images(), got)
	}
}

// fleeting is a policy that is deleted after the first time that a pass has asked for it.
type fleeting struct {
	rules
	asked bool
}

func (f *fleeting) Of(policy.Set) Governance {
	if f.asked {
		return Governance{}
	}
	f.asked = true
	return f.Governance
}

// TestPolicyThatGoesInAPass: a DaemonSet with OnDelete next to another controller is not updated without a policy, also if that goes in the middle of a pass, while the
// manager reads the revisions.
func TestPolicyThatGoesInAPass(t *testing.T) {
	e := newEdge(t, 3, "external", nil)
	e.edit("img:v2")
	e.roll()
	e.c.Policies = &fleeting{rules: rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(canaryPolicy())}}}}
	e.log = nil
	for range 5 {
		e.roll()
	}
	if len(e.log) > 0 || countOf(e.images(), "v1") != 3 {
		t.Errorf("without a policy these writes were made: %v; the pods are of %v", e.log, e.images())
	}
}
