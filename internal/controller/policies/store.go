// SPDX-License-Identifier: Apache-2.0

// Package policies keeps the rollout policies and approvals of a cluster for the loop of daemon sets, and writes their statuses.
//
// # Rule
//
// Until the policies have been read, nothing is known of any set: Of reports them as unread, and the loop starts no update. A cluster without the
// definitions of policies has none; the store looks for them now and then, so they can be installed later.
package policies

import (
	"cmp"
	"context"
	"slices"
	"sync"
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
	// Selected returns the daemon sets that a policy applies to.
	Selected func(p *policy.Policy) []policy.Set
	// Check returns why the analyses of a policy cannot be measured.
	Check func(p *v1alpha1.RolloutPolicy) []string
}

// Store is the store. Make one with New.
type Store struct {
	Options
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu        sync.Mutex
	known     map[string]bool // whether the objects of a resource have been read, or cannot exist
	policies  map[types.NamespacedName]*entry
	approvals map[types.NamespacedName]v1alpha1.RolloutApproval
	// judged are the approvals with a status that is to be written.
	judged map[types.NamespacedName]v1alpha1.RolloutApproval
}

// entry is one policy.
type entry struct {
	object *v1alpha1.RolloutPolicy
	read   *policy.Policy
	// sets are what the loop has reported since this process began.
	sets map[setName]*v1alpha1.SetStatus
}

type setName struct {
	advanced bool
	name     string
}

// New returns a Store. Run fills it.
func New(o Options) *Store {
	return &Store{
		Options:   o,
		known:     map[string]bool{},
		policies:  map[types.NamespacedName]*entry{},
		approvals: map[types.NamespacedName]v1alpha1.RolloutApproval{},
		judged:    map[types.NamespacedName]v1alpha1.RolloutApproval{},
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
	for name, e := range s.policies {
		if name.Namespace == set.Namespace && e.object.DeletionTimestamp == nil && e.read.Selects(set) {
			g.Policies = append(g.Policies, e.read)
		}
	}
	if len(g.Policies) == 0 {
		return g
	}
	slices.SortFunc(g.Policies, func(a, b *policy.Policy) int { return cmp.Compare(a.Name, b.Name) })
	first := s.policies[types.NamespacedName{Namespace: set.Namespace, Name: g.Policies[0].Name}]
	for i := range first.object.Status.Sets {
		if st := &first.object.Status.Sets[i]; st.Name == set.Name && st.APIVersion == set.APIVersion() {
			g.Stored = st.DeepCopy()
		}
	}
	for name, a := range s.approvals {
		if name.Namespace == set.Namespace {
			g.Approvals = append(g.Approvals, a)
		}
	}
	slices.SortFunc(g.Approvals, func(a, b v1alpha1.RolloutApproval) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return g
}

// Grouped implements daemonset.Policies.
func (s *Store) Grouped(namespace string) []*policy.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*policy.Policy
	for name, e := range s.policies {
		if name.Namespace == namespace && e.object.DeletionTimestamp == nil && e.read.Group != nil {
			all = append(all, e.read)
		}
	}
	return all
}

// isRead is whether it is known which policies and approvals there are.
func (s *Store) isRead() bool {
	return s.known[v1alpha1.ResourcePolicies] && s.known[v1alpha1.ResourceApprovals]
}

// Report implements daemonset.Policies.
func (s *Store) Report(set policy.Set, of []*policy.Policy, status *v1alpha1.SetStatus, judged []v1alpha1.RolloutApproval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := setName{set.Advanced, set.Name}
	for name, e := range s.policies {
		if name.Namespace != set.Namespace {
			continue
		}
		applies := status != nil && slices.ContainsFunc(of, func(p *policy.Policy) bool { return p.UID == e.object.UID })
		was, had := e.sets[id]
		switch {
		case applies:
			e.sets[id] = status.DeepCopy()
			s.queue.AddAfter(name, soon(was, status))
		case had:
			delete(e.sets, id)
			s.queue.Add(name)
		}
	}
	for i := range judged {
		name := types.NamespacedName{Namespace: judged[i].Namespace, Name: judged[i].Name}
		if known, there := s.approvals[name]; there && known.UID == judged[i].UID {
			s.approvals[name], s.judged[name] = judged[i], judged[i]
			s.queue.Add(types.NamespacedName{Namespace: judged[i].Namespace, Name: judged[i].Spec.Policy})
		}
	}
}

// soon is how soon a status is written: numbers that change all the time can wait.
func soon(was, is *v1alpha1.SetStatus) time.Duration {
	if was == nil || was.Phase != is.Phase || was.Wave != is.Wave || was.TargetRevision != is.TargetRevision || was.CommittedRevision != is.CommittedRevision ||
		!slices.Equal(was.NotReadyBefore, is.NotReadyBefore) {
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
	for _, e := range s.policies {
		p := *e.object
		p.Status = v1alpha1.RolloutPolicyStatus{}
		for _, st := range e.sets {
			p.Status.Sets = append(p.Status.Sets, *st.DeepCopy())
		}
		all = append(all, p)
	}
	return all
}

// put takes a version of a policy.
func (s *Store) put(object *v1alpha1.RolloutPolicy, problem string) {
	read := policy.Read(object)
	read.Problems = append(read.Problems, s.Check(object)...)
	if problem != "" {
		read.Problems = append(read.Problems, problem)
	}
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	s.mu.Lock()
	was := s.policies[name]
	e := &entry{object: object, read: read, sets: map[setName]*v1alpha1.SetStatus{}}
	if was != nil && was.object.UID == object.UID {
		e.sets = was.sets
	}
	s.policies[name] = e
	for name, a := range s.approvals {
		s.approvals[name] = s.recalled(a)
	}
	ownWrite := was != nil && was.object.UID == object.UID && was.object.Generation == object.Generation && (was.object.DeletionTimestamp == nil) == (object.DeletionTimestamp == nil)
	s.mu.Unlock()
	if !ownWrite {
		s.Changed(name.Namespace)
	}
	s.queue.Add(name)
}

func (s *Store) remove(name types.NamespacedName) {
	s.mu.Lock()
	delete(s.policies, name)
	s.mu.Unlock()
	s.Changed(name.Namespace)
}

func (s *Store) putApproval(a *v1alpha1.RolloutApproval) {
	name := types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
	s.mu.Lock()
	was, known := s.approvals[name]
	s.approvals[name] = s.recalled(*a)
	a.Status = s.approvals[name].Status
	s.mu.Unlock()
	if !known || was.UID != a.UID || was.Status != a.Status || (was.DeletionTimestamp == nil) != (a.DeletionTimestamp == nil) {
		s.Changed(name.Namespace)
	}
}

// recalled is an approval with the state that it was given, also by an earlier leader, where that could not be written into it: a decision counts once.
func (s *Store) recalled(a v1alpha1.RolloutApproval) v1alpha1.RolloutApproval {
	name := types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
	if a.Status.State != "" {
		return a
	}
	if judged, is := s.judged[name]; is && judged.UID == a.UID {
		a.Status = judged.Status
		return a
	}
	e := s.policies[types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.Policy}]
	if e == nil {
		return a
	}
	for _, d := range e.object.Status.Decisions {
		if d.UID == a.UID && d.State != "" {
			a.Status = d.RolloutApprovalStatus
			s.judged[name] = a
			s.queue.Add(types.NamespacedName{Namespace: a.Namespace, Name: a.Spec.Policy})
		}
	}
	return a
}

func (s *Store) removeApproval(name types.NamespacedName) {
	s.mu.Lock()
	delete(s.approvals, name)
	delete(s.judged, name)
	s.mu.Unlock()
	s.Changed(name.Namespace)
}

// setKnown records that the objects of a resource have been read, or that there are none because the definition does not exist.
func (s *Store) setKnown(resource string) {
	s.mu.Lock()
	was := s.isRead()
	s.known[resource] = true
	now := s.isRead()
	s.mu.Unlock()
	if now && !was {
		s.Changed(metav1.NamespaceAll)
	}
}
