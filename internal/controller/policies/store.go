// SPDX-License-Identifier: Apache-2.0

// Package policies keeps the rollout policies and approvals of a cluster for the loop of daemon sets, and writes their statuses.
//
// # Rule
//
// Until the policies have been read, nothing is known of any set: Of reports them as unread, and the loop starts no update. A cluster without the
// CRDs of policies has none; the store looks for them now and then, so they can be installed later.
package policies

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/policy"
)

// Options are the parts of a Store; all are required.
type Options struct {
	Client    dynamic.Interface
	Discovery discovery.ServerResourcesInterface
	Clock     clock.WithTicker
	// Changed is called when the daemon sets of a namespace need another pass. It must not block.
	Changed func(namespace string)
	// Selected returns the daemon sets that a policy applies to; known reports whether all of them have been read.
	Selected func(p *policy.Policy) (sets []policy.Set, known bool)
	// Check returns why the analyses of a policy cannot be measured.
	Check func(p *v1alpha1.RolloutPolicy) []string
	// Send sends notices. It must not block.
	Send func(ctx context.Context, notices []policy.Notice)
}

// Store is the store. Make one with New.
type Store struct {
	Options
	// queue has the policies whose status is due to be written now or later, and lanes those whose status is to be written now.
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	lanes *lanes

	// rechecks is how often Recheck has begun.
	rechecks atomic.Int64

	mu        sync.Mutex
	known     map[string]bool // whether the objects of a resource have been read, or cannot exist
	policies  table[*entry]
	approvals table[*approval]
	// notes are the messages that were written within noteInterval, by namespace.
	notes map[string]noteCount
}

// approval is one approval.
type approval struct {
	// object is the approval as it was read. If it has no state, judged is the state that this leader or an earlier one has decided.
	object v1alpha1.RolloutApproval
	judged v1alpha1.RolloutApprovalStatus
	// accepted reports whether the API server has accepted the state; the watch has yet to show that.
	accepted bool
	// refused is how often that could not be written.
	refused int
	// seen is when this process read the object for the first time, and noted is what it last wrote into the message of a decision without a state.
	seen  time.Time
	noted string
}

// known returns the approval with its state, and whether the state is stored where the next leader reads it: in the approval, or in the status of a policy.
func (a *approval) known(of *entry) (object v1alpha1.RolloutApproval, stored bool) {
	object = a.object
	if object.Status.State != "" {
		return object, true
	}
	object.Status = a.judged
	return object, of.remembers(a)
}

// concerns reports whether an approval is about a set and one of these policies. A rejection counts under each of them.
func (a *approval) concerns(set policy.Set, policies []*policy.Policy) bool {
	spec := &a.object.Spec
	switch {
	case spec.Set != set.Name:
		return false
	case spec.Decision == v1alpha1.Reject && a.object.Status.State != v1alpha1.ApprovalVoid:
		return true
	default:
		return slices.ContainsFunc(policies, func(p *policy.Policy) bool { return p.Name == spec.Policy })
	}
}

// remembers reports whether the status of a policy has the state of an approval.
func (e *entry) remembers(a *approval) bool {
	return e != nil && a != nil && a.judged.State != "" && slices.Contains(e.object.Status.Decisions, v1alpha1.DecisionState{UID: a.object.UID, RolloutApprovalStatus: a.judged})
}

// entry is one policy.
type entry struct {
	object *v1alpha1.RolloutPolicy
	read   *policy.Policy
	// problem is the reason why the policy, as read, cannot be followed; empty if it can.
	problem string
	// sets are what the loop has reported since this process began; nil for a set of which its passes have nothing to report.
	sets map[setName]*v1alpha1.SetStatus
	// notices are those that have not been sent.
	notices []waiting
}

type setName struct {
	advanced bool
	name     string
}

// New returns a Store. Run fills it.
func New(o Options) *Store {
	return &Store{
		Options:   o,
		lanes:     newLanes(),
		known:     map[string]bool{},
		policies:  table[*entry]{},
		approvals: table[*approval]{},
		notes:     map[string]noteCount{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: "policies", Clock: o.Clock}),
	}
}

// Of implements daemonset.Policies.
func (s *Store) Of(set policy.Set) daemonset.Governance {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := daemonset.Governance{Unread: !s.isRead()}
	for _, e := range s.policies[set.Namespace] {
		if e.object.DeletionTimestamp == nil && e.read.Selects(set) {
			g.Policies = append(g.Policies, e.read)
		}
	}
	if len(g.Policies) == 0 {
		return g
	}
	slices.SortFunc(g.Policies, func(a, b *policy.Policy) int { return cmp.Compare(a.Name, b.Name) })
	g.Stored = stored(s.policies[set.Namespace][g.Policies[0].Name].object, set).DeepCopy()
	g.Remembered = s.remembered(set, g.Policies).DeepCopy()
	for _, a := range s.approvals[set.Namespace] {
		if !a.concerns(set, g.Policies) {
			continue // a namespace may have very many, and the loops of all sets wait for this
		}
		object, stored := a.known(s.policyOf(a))
		g.Approvals = append(g.Approvals, object)
		if object.Status.State != "" && !stored {
			if g.Unstored == nil {
				g.Unstored = map[string]bool{}
			}
			g.Unstored[object.Name] = true
		}
	}
	slices.SortFunc(g.Approvals, func(a, b v1alpha1.RolloutApproval) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return g
}

// stored returns the entry of a set in the status of a policy; nil if there is none.
func stored(of *v1alpha1.RolloutPolicy, set policy.Set) *v1alpha1.SetStatus {
	for i := range of.Status.Sets {
		if st := &of.Status.Sets[i]; st.Name == set.Name && st.APIVersion == set.APIVersion() {
			return st
		}
	}
	return nil
}

// last returns what this process last reported about a set to a policy, or otherwise the entry in its status; nil if there is none.
func (e *entry) last(set policy.Set) *v1alpha1.SetStatus {
	if st := e.sets[setName{set.Advanced, set.Name}]; st != nil {
		return st
	}
	return stored(e.object, set)
}

// remembered returns the data of the first policy that has data about a set; nil if none has.
func (s *Store) remembered(set policy.Set, of []*policy.Policy) *v1alpha1.SetStatus {
	for _, p := range of {
		if e := s.policies[p.Namespace][p.Name]; e != nil && e.object.UID == p.UID && policy.Remembers(e.last(set)) {
			return e.last(set)
		}
	}
	return nil
}

// Grouped implements daemonset.Policies.
func (s *Store) Grouped(namespace string) []*policy.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*policy.Policy
	for _, e := range s.policies[namespace] {
		if e.object.DeletionTimestamp == nil && e.read.Group != nil {
			all = append(all, e.read)
		}
	}
	return all
}

// isRead reports whether it is known which policies and approvals there are.
func (s *Store) isRead() bool {
	return s.known[v1alpha1.ResourcePolicies] && s.known[v1alpha1.ResourceApprovals]
}

// Report implements daemonset.Policies.
func (s *Store) Report(set policy.Set, of []*policy.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, other := setName{set.Advanced, set.Name}, s.remembered(set, of)
	for own, e := range s.policies[set.Namespace] {
		name := types.NamespacedName{Namespace: set.Namespace, Name: own}
		applies := slices.ContainsFunc(of, func(p *policy.Policy) bool { return p.UID == e.object.UID })
		was, had := e.sets[id]
		switch {
		case applies && status != nil:
			is := status.DeepCopy()
			if len(of) > 1 {
				is = policy.InConflict(status, e.last(set), other)
			}
			e.sets[id] = is
			s.queue.AddAfter(name, soon(was, is))
		case applies && had: // what was reported last still counts
		case applies:
			e.sets[id] = nil
			s.queue.Add(name)
		case had:
			delete(e.sets, id)
			s.queue.Add(name)
		}
	}
	for i := range judged {
		if a := s.approvals[judged[i].Namespace][judged[i].Name]; a != nil && a.object.UID == judged[i].UID && a.object.Status.State == "" && a.judged.State == "" {
			a.judged = judged[i].Status
			s.queue.Add(a.policy())
		}
	}
}

// policy is the name of the policy that an approval is about.
func (a *approval) policy() types.NamespacedName {
	return types.NamespacedName{Namespace: a.object.Namespace, Name: a.object.Spec.Policy}
}

// policyOf is the policy that an approval is about; nil if there is none.
func (s *Store) policyOf(a *approval) *entry { return s.policies.get(a.policy()) }

// WriteAll writes all statuses that have changed. It is to be called when Selected knows more daemon sets than before: statuses have waited for that.
func (s *Store) WriteAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.policies.all() {
		s.queue.Add(name)
	}
}

// soon is how soon a status is written: numbers that change all the time can wait.
func soon(was, is *v1alpha1.SetStatus) time.Duration {
	if was == nil || was.Phase != is.Phase || was.Wave != is.Wave || was.TargetRevision != is.TargetRevision || was.CommittedRevision != is.CommittedRevision ||
		!slices.Equal(was.NotReadyBefore, is.NotReadyBefore) || !slices.Equal(was.JoinedWithPod, is.JoinedWithPod) {
		return 20 * time.Millisecond
	}
	return time.Second
}

// Await waits until it is known which policies there are, at most for that long.
func (s *Store) Await(ctx context.Context, atMost time.Duration) bool {
	ticker := s.Clock.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for began := s.Clock.Now(); ; {
		s.mu.Lock()
		read := s.isRead()
		s.mu.Unlock()
		if read || s.Clock.Since(began) > atMost {
			return read
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C():
		}
	}
}

// Policies returns the policies and their statuses, for metrics.
func (s *Store) Policies() []v1alpha1.RolloutPolicy {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []v1alpha1.RolloutPolicy
	for _, e := range s.policies.all() {
		p := *e.object
		p.Status = v1alpha1.RolloutPolicyStatus{}
		for _, st := range e.sets {
			if st != nil {
				p.Status.Sets = append(p.Status.Sets, *st.DeepCopy())
			}
		}
		all = append(all, p)
	}
	return all
}

// put takes a version of a policy.
func (s *Store) put(object *v1alpha1.RolloutPolicy, problem string) {
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	read := s.readNow(name, object, problem)
	was := s.policies.get(name)
	e := &entry{object: object, problem: problem, read: read, sets: map[setName]*v1alpha1.SetStatus{}}
	if was != nil && was.object.UID == object.UID {
		e.sets, e.notices = was.sets, was.notices
	}
	s.policies.put(name, e)
	for _, a := range s.approvals[name.Namespace] {
		s.recall(a)
	}
	ownWrite := was != nil && was.object.UID == object.UID && was.object.Generation == object.Generation && (was.object.DeletionTimestamp == nil) == (object.DeletionTimestamp == nil) &&
		slices.Equal(was.object.Status.Decisions, object.Status.Decisions)
	s.mu.Unlock()
	if !ownWrite {
		s.Changed(name.Namespace)
	}
	s.queue.Add(name)
}

// Recheck asks again for each policy why its analyses cannot be measured: providers have changed. Passes go on meanwhile.
func (s *Store) Recheck() {
	s.rechecks.Add(1)
	s.mu.Lock()
	known := maps.Collect(s.policies.all())
	s.mu.Unlock()
	for name, was := range known {
		read := s.readPolicy(was.object, was.problem)
		s.mu.Lock()
		if e := s.policies.get(name); e != nil && e.read == was.read { // a version that has come since was read by itself
			e.read = read
			s.queue.Add(name)
		}
		s.mu.Unlock()
	}
	s.Changed(metav1.NamespaceAll)
}

// readNow is readPolicy with the providers of now: where they change meanwhile, it reads once more. If only the status of the policy has changed, it returns what was read
// before: to compile the expressions of a policy costs much. It returns with s.mu locked.
func (s *Store) readNow(name types.NamespacedName, object *v1alpha1.RolloutPolicy, problem string) *policy.Policy {
	for {
		before := s.rechecks.Load()
		s.mu.Lock()
		if was := s.policies.get(name); was != nil && was.object.UID == object.UID && was.object.Generation == object.Generation && was.problem == problem &&
			reflect.DeepEqual(was.object.Spec, object.Spec) {
			return was.read
		}
		s.mu.Unlock()
		read := s.readPolicy(object, problem)
		s.mu.Lock()
		if s.rechecks.Load() == before {
			return read
		}
		s.mu.Unlock()
	}
}

// readPolicy reads a policy; problem is a further reason why it cannot be followed, or empty.
func (s *Store) readPolicy(object *v1alpha1.RolloutPolicy, problem string) *policy.Policy {
	read := policy.Read(object)
	read.Problems = append(read.Problems, s.Check(object)...)
	if problem != "" {
		read.Problems = append(read.Problems, problem)
	}
	return read
}

func (s *Store) remove(name types.NamespacedName) {
	s.mu.Lock()
	s.policies.remove(name)
	s.mu.Unlock()
	s.queue.Add(name) // decisions that name it have no effect any more
	s.Changed(name.Namespace)
}

func (s *Store) putApproval(object *v1alpha1.RolloutApproval) {
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	is := &approval{object: *object, seen: s.Clock.Now()}
	s.mu.Lock()
	was := s.approvals.get(name)
	same := was != nil && was.object.UID == object.UID
	if same {
		is.seen, is.noted = was.seen, was.noted
	}
	if same && object.Status.State == "" {
		is.judged, is.accepted, is.refused = was.judged, was.accepted, was.refused
	}
	s.approvals.put(name, is)
	s.recall(is)
	same = same && effect(&is.object) == effect(&was.object) && (was.object.DeletionTimestamp == nil) == (object.DeletionTimestamp == nil)
	if is.judged.State != "" && !is.accepted || s.policyOf(is).remembers(was) { // it is to be written, or the status can forget it
		s.queue.Add(is.policy())
	}
	if !same && is.waits() {
		s.queue.AddAfter(is.policy(), noteAfter)
	}
	s.mu.Unlock()
	if !same {
		s.Changed(name.Namespace)
	}
}

// recall gives an approval the state that the status of its policy has of it: an earlier leader could not write it into the approval.
func (s *Store) recall(a *approval) {
	e := s.policyOf(a)
	if e == nil || a.object.Status.State != "" || a.judged.State != "" {
		return
	}
	for _, d := range e.object.Status.Decisions {
		if d.UID == a.object.UID && d.State != "" {
			a.judged = d.RolloutApprovalStatus
			s.queue.Add(a.policy())
		}
	}
}

// forgetAccepted lets states be written again that a list does not show: the API server has accepted them, and the object was restored since.
func (s *Store) forgetAccepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.approvals.all() {
		a.accepted = false
	}
}

func (s *Store) removeApproval(name types.NamespacedName) {
	s.mu.Lock()
	s.approvals.remove(name)
	s.mu.Unlock()
	s.Changed(name.Namespace)
}

// setKnown records that the objects of a resource have been read, or that there are none because the CRD does not exist.
func (s *Store) setKnown(resource string) {
	s.mu.Lock()
	was := s.isRead()
	s.known[resource] = true
	now := s.isRead()
	s.mu.Unlock()
	if now && !was {
		s.WriteAll() // statuses have waited for that as well
		s.noteLater()
		s.Changed(metav1.NamespaceAll)
	}
}
