// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// served is what the API server says of the definitions.
type served struct {
	discovery.ServerResourcesInterface
	mu  sync.Mutex
	err error
}

func (s *served) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *served) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: v1alpha1.ResourcePolicies}, {Name: v1alpha1.ResourceApprovals}}}, s.err
}

var errAbsent = apierrors.NewNotFound(schema.GroupResource{}, "everynode.dev/v1alpha1")

// agents is the set of these tests.
var agents = policy.Set{Namespace: "ns", Name: "agents"}

type bench struct {
	*Store
	t       *testing.T
	served  *served
	client  *fake.FakeDynamicClient
	mu      sync.Mutex
	changes int
	patches []string
	// refuses is what the patch of an object named so is answered with.
	refuses map[string]error
	refused int
	// drops is the name of an object of which the API server drops the status.
	drops string
	// hangs ends the patches in the namespace ns, if it is not nil, and hanging is how many have begun.
	hangs   <-chan struct{}
	hanging int
	// sent are the notices that were sent, each with how many statuses had been written.
	sent []string
	// unread is whether the daemon sets have not been read, and asked how often it was asked which of them a policy selects.
	unread bool
	asked  int
}

func newBench(t *testing.T, says error, objects ...runtime.Object) *bench {
	t.Helper()
	b := &bench{t: t, served: &served{err: says}}
	gv := v1alpha1.GroupVersion()
	b.client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		gv.WithResource(v1alpha1.ResourcePolicies): "RolloutPolicyList", gv.WithResource(v1alpha1.ResourceApprovals): "RolloutApprovalList",
	}, objects...)
	b.client.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		patch, _ := a.(clienttesting.PatchAction)
		if err := b.refuses[patch.GetName()]; err != nil {
			b.refused++
			return true, nil, err
		}
		if patch.GetName() == b.drops {
			return true, object(v1alpha1.KindApproval, b.drops, nil), nil
		}
		b.patches = append(b.patches, a.GetResource().Resource+" "+a.GetSubresource()+" "+string(patch.GetPatch()))
		return false, nil, nil
	})
	b.Store = New(Options{
		Client: hanging{b.client, b}, Discovery: b.served, Clock: clock.RealClock{},
		Changed: func(string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.changes++
		},
		Selected: func(p *policy.Policy) ([]policy.Set, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.asked++
			set := agents
			if set.Namespace = p.Namespace; b.unread || !p.Selects(set) {
				return nil, !b.unread
			}
			return []policy.Set{set}, true
		},
		Check: func(p *v1alpha1.RolloutPolicy) (problems []string) {
			for range p.Spec.Analyses {
				problems = append(problems, "spec.analyses[0].success: bad")
			}
			return problems
		},
		Send: func(_ context.Context, notices []policy.Notice) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for i := range notices {
				b.sent = append(b.sent, fmt.Sprintf("%s after %d writes", notices[i].Wave, len(b.patches)))
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return b
}

// until waits for something.
func (b *bench) until(what string, met func() bool) {
	b.t.Helper()
	for range 500 {
		if met() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.t.Fatal("waited for this: " + what)
}

func (b *bench) written() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.patches...)
}

// refuse sets what the patches of objects are answered with.
func (b *bench) refuse(all map[string]error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses = maps.Clone(all)
}

func (b *bench) refusals() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

func (b *bench) changed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// stored is what the cluster has of an object.
func (b *bench) stored(resource, name string) map[string]any {
	u, err := b.client.Resource(v1alpha1.GroupVersion().WithResource(resource)).Namespace("ns").Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return u.Object
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "everynode.dev/v1alpha1", "kind": kind, "metadata": map[string]any{"namespace": "ns", "name": name, "uid": "uid-" + name}, "spec": spec,
	}}
}

func agentsPolicy(more ...string) *unstructured.Unstructured {
	spec := map[string]any{"targets": []any{map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agents"}}}
	if len(more) == 2 {
		spec[more[0]] = more[1]
	}
	return object(v1alpha1.KindPolicy, "p", spec)
}

func TestNothingIsKnownBeforeThePoliciesAreRead(t *testing.T) {
	b := newBench(t, errors.New("the API server is starting"), agentsPolicy())
	if b.Await(t.Context(), 50*time.Millisecond) || !b.Of(agents).Unread {
		t.Error("without an answer the policies count as read")
	}
	b.served.set(nil)
	b.until("the policies are read", func() bool { return !b.Of(agents).Unread })
	if got := b.Of(agents); len(got.Policies) != 1 || got.Policies[0].Name != "p" {
		t.Errorf("%+v", got)
	}
	if got := b.Of(policy.Set{Namespace: "other", Name: "agents"}); len(got.Policies) != 0 {
		t.Errorf("a policy applies in another namespace: %+v", got)
	}
}

func TestClusterWithoutTheDefinitions(t *testing.T) {
	b := newBench(t, errAbsent, agentsPolicy())
	if !b.Await(t.Context(), 5*time.Second) {
		t.Fatal("the absence of the definitions is not known")
	}
	if got := b.Of(agents); got.Unread || len(got.Policies) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestStatusIsWrittenOnce(t *testing.T) {
	b := newBench(t, nil, agentsPolicy())
	b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
	time.Sleep(50 * time.Millisecond)
	if got := b.written(); len(got) != 0 {
		t.Fatalf("a status is written before the loop has reported: %q", got)
	}
	status := &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Enforcement: v1alpha1.EnforcementFull, Phase: v1alpha1.PhaseComplete}
	b.Report(agents, b.Of(agents).Policies, status, nil)
	b.until("the status is written", func() bool { return len(b.written()) > 0 })
	if got := b.written()[0]; !strings.HasPrefix(got, "rolloutpolicies status ") || !strings.Contains(got, `"type":"Ready"`) || !strings.Contains(got, `"uid":"uid-p"`) {
		t.Error(got)
	}
	if got := b.Policies(); len(got) != 1 || len(got[0].Status.Sets) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestNothingIsForgottenBeforeTheSetsAreRead: a new leader may read policies before daemon sets. Then it does not know of which sets the status is.
func TestNothingIsForgottenBeforeTheSetsAreRead(t *testing.T) {
	p := agentsPolicy()
	p.Object["status"] = map[string]any{"sets": []any{map[string]any{"apiVersion": "apps/v1", "name": "agents", "committedRevision": "r1"}}}
	b := newBench(t, nil)
	b.mu.Lock()
	b.unread = true
	b.mu.Unlock()
	if _, err := b.client.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourcePolicies)).Namespace("ns").Create(b.t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
	b.until("it was found out which sets it selects", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.asked > 0
	})
	if got := b.written(); len(got) != 0 {
		t.Errorf("before the daemon sets are read, it writes %q", got)
	}
	b.mu.Lock()
	b.unread = false
	b.mu.Unlock()
	b.WriteAll()
	status := &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Phase: v1alpha1.PhaseComplete}
	b.Report(agents, b.Of(agents).Policies, status, nil)
	b.until("the status is written", func() bool { return len(b.written()) > 0 })
	if got := b.written()[0]; !strings.Contains(got, `"phase":"Complete"`) {
		t.Error(got)
	}
}

func TestApprovalsAreJudged(t *testing.T) {
	b := newBench(t, nil, agentsPolicy(), object(v1alpha1.KindApproval, "yes", map[string]any{"policy": "p", "set": "agents", "revision": "r", "decision": "Approve"}))
	b.until("all is read", func() bool { return len(b.Of(agents).Approvals) == 1 })
	judged := b.Of(agents).Approvals
	judged[0].Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: 3}
	b.Report(agents, nil, nil, judged)
	if got := b.Of(agents).Approvals[0].Status.TargetNumber; got != 3 {
		t.Errorf("the next pass sees %d", got)
	}
	b.until("the status is written", func() bool { return len(b.written()) > 0 })
	if got := b.written()[0]; !strings.HasPrefix(got, "rolloutapprovals status ") || !strings.Contains(got, `"targetNumber":3`) {
		t.Error(got)
	}
}

// TestARejectionUnderAnotherPolicy: a rejection also counts under another policy of the set, and its state is stored although its own policy is gone. No other decision does.
func TestARejectionUnderAnotherPolicy(t *testing.T) {
	decision := func(name, decision, of string) *unstructured.Unstructured {
		return object(v1alpha1.KindApproval, name, map[string]any{"policy": "gone", "set": of, "revision": "r", "decision": decision})
	}
	old := decision("old", "Reject", "agents")
	old.Object["status"] = map[string]any{"state": "Void"}
	b := newBench(t, nil, agentsPolicy(), old, decision("yes", "Approve", "agents"), decision("other", "Reject", "others"), decision("no", "Reject", "agents"))
	b.until("the rejection is read", func() bool { return len(b.Of(agents).Approvals) > 0 })
	judged := b.Of(agents).Approvals
	if len(judged) != 1 || judged[0].Name != "no" {
		t.Fatalf("%+v", judged)
	}
	judged[0].Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: 3}
	b.Report(agents, nil, nil, judged)
	b.until("the state is written", func() bool {
		state, _, _ := unstructured.NestedString(b.stored(v1alpha1.ResourceApprovals, "no"), "status", "state")
		return state == "Valid"
	})
}

// TestAnApprovalThatIsRefused: the state of an approval that a webhook refuses to write keeps neither that of others nor the status of the policy from being
// written. The status remembers it, so the next manager does not count the decision again.
func TestAnApprovalThatIsRefused(t *testing.T) {
	approve := map[string]any{"policy": "p", "set": "agents", "revision": "r", "decision": "Approve"}
	objects := []runtime.Object{agentsPolicy(), object(v1alpha1.KindApproval, "a", approve), object(v1alpha1.KindApproval, "b", approve)}
	b := newBench(t, nil, objects...)
	b.mu.Lock()
	b.refuses = map[string]error{"a": apierrors.NewForbidden(schema.GroupResource{}, "a", nil)}
	b.mu.Unlock()
	b.until("all is read", func() bool { return len(b.Of(agents).Approvals) == 2 && len(b.Of(agents).Policies) == 1 })
	judged := b.Of(agents).Approvals
	for i := range judged {
		judged[i].Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: 3}
	}
	status := &v1alpha1.SetStatus{APIVersion: "apps/v1", Name: "agents", Phase: v1alpha1.PhaseComplete}
	b.Report(agents, b.Of(agents).Policies, status, judged)
	const remembered = `"decisions":[{"uid":"uid-a","state":"Valid","targetNumber":3}]`
	has := func(what, text string) func() bool {
		return func() bool {
			return slices.ContainsFunc(b.written(), func(w string) bool { return strings.HasPrefix(w, what) && strings.Contains(w, text) })
		}
	}
	b.until("the other one is written", has("rolloutapprovals", `"uid":"uid-b"`))
	b.until("the status has the one that is refused", has("rolloutpolicies", remembered))
	b.until("both are stored", func() bool { return len(b.Of(agents).Unstored) == 0 })

	// An edit of the approval does not make it new, for this manager or the next.
	edited, _ := objects[1].(*unstructured.Unstructured)
	edited = edited.DeepCopy()
	edited.SetLabels(map[string]string{"edited": "yes"})
	if err := b.resources()[1].put(edited); err != nil {
		t.Fatal(err)
	}
	if got := b.Of(agents).Approvals[0].Status; got.TargetNumber != 3 {
		t.Errorf("after an edit its state is %+v", got)
	}
	stored := agentsPolicy()
	stored.Object["status"] = map[string]any{"decisions": []any{map[string]any{"uid": "uid-a", "state": "Valid", "targetNumber": int64(3)}}}
	next := newBench(t, nil, stored, objects[1], objects[2])
	next.until("all is read", func() bool { return len(next.Of(agents).Approvals) == 2 && len(next.Of(agents).Policies) == 1 })
	if got := next.Of(agents).Approvals[0].Status; got.State != v1alpha1.ApprovalValid || got.TargetNumber != 3 {
		t.Errorf("for the next manager its state is %+v", got)
	}
	next.until("the next manager writes it", func() bool {
		return slices.ContainsFunc(next.written(), func(w string) bool { return strings.HasPrefix(w, "rolloutapprovals") && strings.Contains(w, "uid-a") })
	})
	next.Report(agents, next.Of(agents).Policies, status, nil)
	next.until("the status forgets it", func() bool {
		return slices.ContainsFunc(next.written(), func(w string) bool { return strings.Contains(w, `"decisions":null`) })
	})
}

// TestAnApprovalThatIsStoredNowhere: while neither of the two statuses can be written, the state of an approval is not stored. When one is, another pass is made.
func TestAnApprovalThatIsStoredNowhere(t *testing.T) {
	for _, first := range []string{"p", "yes"} {
		objects := []runtime.Object{agentsPolicy(), object(v1alpha1.KindApproval, "yes", map[string]any{"policy": "p", "set": "agents", "revision": "r", "decision": "Retry"})}
		b := newBench(t, nil, objects...)
		refuses := map[string]error{"yes": apierrors.NewForbidden(schema.GroupResource{}, "yes", nil), "p": apierrors.NewForbidden(schema.GroupResource{}, "p", nil)}
		b.refuse(refuses)
		b.until("all is read", func() bool { return len(b.Of(agents).Approvals) == 1 && len(b.Of(agents).Policies) == 1 })
		judged := b.Of(agents).Approvals
		judged[0].Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: 3, Attempt: 2}
		b.Report(agents, b.Of(agents).Policies, nil, judged) // the set has no status yet: no decision waits for that
		b.until("both are refused", func() bool { return b.refusals() > 3 })
		if got := b.Of(agents); !got.Unstored["yes"] || got.Approvals[0].Status.Attempt != 2 {
			t.Errorf("%+v is unstored, %+v", got.Unstored, got.Approvals[0].Status)
		}
		judged[0].Status.State = v1alpha1.ApprovalVoid
		b.Report(agents, b.Of(agents).Policies, nil, judged)
		if got := b.Of(agents).Approvals[0].Status.State; got != v1alpha1.ApprovalValid {
			t.Errorf("its first state is replaced by %s", got)
		}
		before := b.changed()
		delete(refuses, first)
		b.refuse(refuses)
		b.until("it is stored in "+first, func() bool { return len(b.Of(agents).Unstored) == 0 })
		b.until("another pass is requested", func() bool { return b.changed() > before })
		b.refuse(nil)
		b.until("the approval has it, and the policy does not keep it", func() bool {
			status, _, _ := unstructured.NestedMap(b.stored(v1alpha1.ResourceApprovals, "yes"), "status")
			decisions, _, _ := unstructured.NestedSlice(b.stored(v1alpha1.ResourcePolicies, "p"), "status", "decisions")
			return status["attempt"] == int64(2) && len(decisions) == 0 && len(b.Of(agents).Unstored) == 0
		})
	}
}

// TestAStateThatIsRefusedAsIfItWereGone: a webhook can deny with the codes of an object that is gone, or is another one. The approval is neither, so the status of the
// policy has its state.
func TestAStateThatIsRefusedAsIfItWereGone(t *testing.T) {
	denial := apierrors.NewNotFound(schema.GroupResource{Resource: "rolloutapprovals"}, "yes")
	denial.ErrStatus.Message = `admission webhook "approvals.example" denied the request: no`
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "rolloutapprovals"}, "yes", errors.New("no"))
	for _, err := range []error{denial, conflict} {
		b := newBench(t, nil, agentsPolicy(), object(v1alpha1.KindApproval, "yes", map[string]any{"policy": "p", "set": "agents", "revision": "r", "decision": "Approve"}))
		b.refuse(map[string]error{"yes": err})
		b.until("all is read", func() bool { return len(b.Of(agents).Approvals) == 1 && len(b.Of(agents).Policies) == 1 })
		judged := b.Of(agents).Approvals
		judged[0].Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: 3, Attempt: 1}
		b.Report(agents, b.Of(agents).Policies, nil, judged)
		b.until("the policy has it", func() bool {
			decisions, _, _ := unstructured.NestedSlice(b.stored(v1alpha1.ResourcePolicies, "p"), "status", "decisions")
			return len(decisions) == 1 && len(b.Of(agents).Unstored) == 0
		})
	}
}

// TestAStateThatIsChanged: a webhook, or a definition without the field, can store another state than was written. Then the status of the policy has it.
func TestAStateThatIsChanged(t *testing.T) {
	b := newBench(t, nil, agentsPolicy(), object(v1alpha1.KindApproval, "yes", map[string]any{"policy": "p", "set": "agents", "revision": "r", "decision": "Approve"}))
	b.mu.Lock()
	b.drops = "yes"
	b.mu.Unlock()
	b.until("all is read", func() bool { return len(b.Of(agents).Approvals) == 1 && len(b.Of(agents).Policies) == 1 })
	judged := b.Of(agents).Approvals
	judged[0].Status = v1alpha1.RolloutApprovalStatus{State: v1alpha1.ApprovalValid, TargetNumber: 3, Attempt: 1}
	b.Report(agents, b.Of(agents).Policies, nil, judged)
	b.until("the policy has it", func() bool {
		decisions, _, _ := unstructured.NestedSlice(b.stored(v1alpha1.ResourcePolicies, "p"), "status", "decisions")
		return len(decisions) == 1 && len(b.Of(agents).Unstored) == 0
	})
}

// TestPoliciesInConflict: each keeps what it remembers of the set, and one that knows nothing takes over what holds updates, wherever it comes in the order.
func TestPoliciesInConflict(t *testing.T) {
	old := agentsPolicy()
	knows := map[string]any{
		"apiVersion": "apps/v1", "name": "agents", "enforcement": "Full", "phase": "Failed", "targetRevision": "r2", "targetNumber": int64(2), "attempt": int64(3), "committedRevision": "r1",
		"failure": map[string]any{"wave": "canary", "action": "Undo", "message": "no"}, "waves": []any{map[string]any{"name": "canary", "phase": "Passed"}},
	}
	old.Object["status"] = map[string]any{"sets": []any{knows}}
	b := newBench(t, nil, old)
	b.until("the policy is read", func() bool { return len(b.Of(agents).Policies) == 1 })
	for _, name := range []string{"a", "z"} {
		second := agentsPolicy()
		second.SetName(name)
		second.SetUID(types.UID("uid-" + name))
		if err := b.resources()[0].put(second); err != nil {
			t.Fatal(err)
		}
	}
	of := b.Of(agents)
	if len(of.Policies) != 3 || of.Remembered == nil || of.Remembered.Failure == nil {
		t.Fatalf("%d policies, %+v is remembered", len(of.Policies), of.Remembered)
	}
	b.Report(agents, of.Policies, &v1alpha1.SetStatus{
		APIVersion: "apps/v1", Name: "agents", Phase: v1alpha1.PhaseStalled, TargetRevision: "r3", CommittedRevision: "r0", Blocking: []v1alpha1.Blocking{{Reason: "Conflict"}},
	}, nil)
	for _, p := range b.Policies() {
		st := p.Status.Sets[0]
		if st.Phase != v1alpha1.PhaseStalled || st.Blocking[0].Reason != "Conflict" {
			t.Errorf("%s reports %+v", p.Name, st)
		}
		if st.TargetRevision != "r2" || st.TargetNumber != 2 || st.Attempt != 3 || st.CommittedRevision != "r1" || st.Failure == nil {
			t.Errorf("%s has forgotten something: %+v", p.Name, st)
		}
		if (len(st.Waves) > 0) != (p.Name == "p") {
			t.Errorf("%s has the waves %+v", p.Name, st.Waves)
		}
	}
}
