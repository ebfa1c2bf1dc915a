// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"everynode.dev/everynode/internal/apply/executor"
)

// webhook is one that takes its time for one kind of writes for the pods of a node, or of all, and then admits them, or says something else.
type webhook struct {
	verb, node string
	takes      time.Duration
	says       refusal
}

// slowPart is what a manager has for slow writes: the lease that announces them, and whether what the last leader has left of it is done with.
type slowPart struct {
	lease  *executor.SlowLease
	taken  bool
	direct bool
}

// decided is a pass, and what was known in it when it had ended: a slow write may be sent after that, and is judged by the pass that has decided it.
type decided struct {
	number         int
	then           known
	later          *known
	limit, surge   int
	free           int
	late           time.Time
	renewed, begun map[string]bool
	started        map[string]bool
	barred, yurt   bool
	ruling         *ruling
}

type decidedKey struct{}

// decidedIn is the pass that has made a context.
func decidedIn(ctx context.Context) *decided {
	of, _ := ctx.Value(decidedKey{}).(*decided)
	return of
}

// nextPass keeps what was known in the last pass, and is the context of the next one.
func (m *manager) nextPass() context.Context {
	if of, k := m.of, m.known; of != nil {
		of.then, of.limit, of.surge, of.free, of.late, of.renewed, of.started = k.then, k.limit, k.surge, k.free, k.late, k.renewed, k.started
		of.ruling = m.ruling
		later := k.clone()
		of.later = &later
	}
	m.of = &decided{number: m.passes, begun: m.begun, barred: m.barred, yurt: m.yurt}
	return context.WithValue(m.ctx, decidedKey{}, m.of)
}

// asDecided is what f does with the knowledge of the pass that has decided a slow write.
func (m *manager) asDecided(r *request, f func()) {
	of, k := r.of, m.known
	if !r.slow || of == nil || of.number == m.passes {
		f()
		return
	}
	now, caught := decided{
		then: k.then, limit: k.limit, surge: k.surge, free: k.free, late: k.late, renewed: k.renewed, started: k.started,
		begun: m.begun, barred: m.barred, yurt: m.yurt, ruling: m.ruling,
	}, m.caught
	set := func(d *decided) {
		k.later = d.later
		k.then, k.limit, k.surge, k.free, k.late, k.renewed, k.started = d.then, d.limit, d.surge, d.free, d.late, d.renewed, d.started
		m.begun, m.barred, m.yurt, m.ruling = d.begun, d.barred, d.yurt, d.ruling
	}
	set(of)
	m.caught = false
	f()
	set(&now)
	m.caught = caught
}

// lane is the lane of slow writes of a manager; nil in a run that has none.
func (m *manager) lane() *executor.SlowLane {
	m.slow = slowPart{taken: true}
	if !m.s.cfg.with("slowness") {
		return nil
	}
	m.known.waiting = m.deletesInLane
	m.slow.lease = executor.NewSlowLease(leasesOf{m: m}, m.name, m.clock.FakeClock)
	return &executor.SlowLane{Pods: podsOf{m: m, slow: true}, Hold: m.slow.lease.Hold, Free: m.slow.lease.Free}
}

// deletesInLane are the pods of which a delete has a place in the lane, or has no clear answer.
func (m *manager) deletesInLane() []types.UID {
	var uids []types.UID
	for _, p := range m.index.Ownership(m.key, 0).Unsettled {
		uids = append(uids, p.UID)
	}
	return uids
}

// wait is for how long a new leader waits, as the lease says.
func (m *manager) wait() {
	if m.slow.lease == nil {
		return
	}
	m.slow.direct = true
	fence := m.slow.lease.Fence(m.ctx)
	m.slow.direct, m.slow.taken = false, fence < executor.SlowFence
	m.fence = m.s.w.now.Add(fence)
}

// takeOver clears the lease when the fence is over.
func (m *manager) takeOver() {
	go func() {
		m.slow.lease.TakeOver(m.ctx)
		m.slow.taken = true
	}()
	m.rest()
}

// leasesOf is the lease of slow writes as a manager reads and writes it; a new one reads it at once.
type leasesOf struct {
	typedcoordinationv1.LeaseInterface
	m *manager
}

func (l leasesOf) ask(text string, write bool, commit func(w *world) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	w := l.m.s.w
	if l.m.slow.direct {
		return commit(w)
	}
	return ask[*coordinationv1.Lease](l.m, &request{
		text: text + " the lease of slow writes", write: write, lease: true, commit: func() (any, error) { return orNil(commit(w)) },
	})
}

// Get implements LeaseInterface.
func (l leasesOf) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.ask("reads", false, func(w *world) (*coordinationv1.Lease, error) {
		if w.lease == nil {
			return nil, apierrors.NewNotFound(podResource("leases"), executor.SlowLeaseName)
		}
		return w.lease.DeepCopy(), nil
	})
}

// Create implements LeaseInterface.
func (l leasesOf) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.ask("makes", true, func(w *world) (*coordinationv1.Lease, error) {
		if w.lease != nil {
			return nil, apierrors.NewAlreadyExists(podResource("leases"), lease.Name)
		}
		return w.putLease(lease), nil
	})
}

// Update implements LeaseInterface.
func (l leasesOf) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	text := "holds"
	if *lease.Spec.HolderIdentity == "" {
		text = "gives back"
	}
	return l.ask(text, true, func(w *world) (*coordinationv1.Lease, error) {
		if w.lease == nil || w.lease.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(podResource("leases"), lease.Name, errors.New("the object has been modified"))
		}
		return w.putLease(lease), nil
	})
}

func (w *world) putLease(lease *coordinationv1.Lease) *coordinationv1.Lease {
	w.rv++
	w.lease = lease.DeepCopy()
	w.lease.ResourceVersion = words("%d", w.rv)
	return w.lease.DeepCopy()
}

// endsInTime says of a request when it is given up, and that it is a slow one.
func (r *request) endsInTime() {
	switch {
	case r.slow:
		r.text += " slowly"
		r.ends = r.sent.Add(executor.SlowWriteTimeout)
	case r.lease:
		r.ends = r.sent.Add(executor.Fence)
	}
}

// lastMoment is the last time at which a write can take effect for which no pass waits.
func (r *request) lastMoment(now time.Time) time.Time {
	switch {
	case r.slow:
		return r.ends
	case r.ofPod, r.lease:
		return now.Add(executor.Fence)
	default:
		return now.Add(time.Minute)
	}
}

// giveUp answers the requests whose time is up, and lets those go on that wait for nothing but time.
func (m *manager) giveUp() {
	for _, r := range m.waiting() {
		if !r.ends.IsZero() && !r.ends.After(m.s.w.now) {
			m.s.fail(r, errTimeout())
		}
	}
}

// doze lets the time of goroutines pass that do not ask a clock for it.
func (s *sim) doze(d time.Duration) {
	if s.cfg.with("slowness") {
		s.tick.Add(1)
		time.Sleep(d)
	}
}

// dozes is whether there is something to do after a moment, in which nothing seemed to happen.
func (s *sim) dozes() bool {
	if !s.cfg.with("slowness") {
		return false
	}
	s.doze(2 * time.Second)
	s.lead.rest()
	return s.lead.due() || len(s.lead.waiting()) > 0
}

// atWebhook is whether a request cannot be answered yet, because the webhook has not answered.
func (s *sim) atWebhook(r *request) bool {
	h := s.w.webhook
	return h != nil && s.concerns(r, h.verb, h.node) && s.w.now.Before(r.sent.Add(h.takes))
}

// nextAnswer is when the webhook answers next, or the other time if that is earlier; zero for never.
func (s *sim) nextAnswer(or time.Time) time.Time {
	next := or
	for _, r := range s.lead.waiting() {
		if s.atWebhook(r) {
			if at := r.sent.Add(s.w.webhook.takes); next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	return next
}

// slowOps are what becomes of writes that the webhook has not answered: of one that a pass waits for time is up.
func (s *sim) slowOps(ops []op) []op {
	m, hangs := s.lead, false
	for _, r := range m.waiting() {
		switch {
		case !s.atWebhook(r):
		case r.slow:
			hangs = true
		default:
			ops = append(ops, op{m.name + " " + r.text + ", and the webhook takes too long", 20, func() { s.tooLong(r) }})
		}
	}
	if hangs {
		ops = append(ops, op{"the webhook takes its time", 8, func() { s.pass(s.nextAnswer(time.Time{}).Sub(s.w.now)) }})
	}
	if m.slow.lease != nil && m.fence.After(s.w.now) {
		ops = append(ops, op{m.name + " waits", 8, func() { s.pass(m.fence.Sub(s.w.now)) }})
	}
	if !m.slow.taken && !m.fence.After(s.w.now) && len(m.waiting()) == 0 {
		ops = append(ops, op{m.name + " takes over the lease of slow writes", 30, m.takeOver})
	}
	return ops
}

func (s *sim) tooLong(r *request) {
	s.straggle(r)
	s.fail(r, errTimeout())
}

// hangs is how much more often a manager dies: it has slow writes under way.
func (m *manager) hangs() int {
	for _, r := range m.waiting() {
		if r.slow {
			return 4
		}
	}
	return 1
}

// fairRequest is the answer to the first request that can be answered; nil if there is none.
func (s *sim) fairRequest(m *manager) *op {
	if !m.slow.taken && !m.fence.After(s.w.now) && len(m.waiting()) == 0 {
		return &op{m.name + " takes over the lease of slow writes", 1, m.takeOver}
	}
	for _, r := range m.waiting() {
		switch {
		case !s.atWebhook(r):
			return &op{m.name + " " + r.text, 1, func() { s.serve(r) }}
		case !r.slow:
			return &op{m.name + " " + r.text + ", and the webhook takes too long", 1, func() { s.fail(r, errTimeout()) }}
		}
	}
	return nil
}

// webhookOps are webhooks that take their time; one at a time.
func (s *sim) webhookOps(ops []op) []op {
	if s.w.webhook != nil {
		return append(ops, op{"the webhook is fast again", 1, func() { s.w.webhook = nil }})
	}
	denies, down := policyAnswers()[0], policyAnswers()[2]
	last := words("n%d", s.cfg.nodes)
	for _, verb := range policyVerbs() {
		for _, h := range []*webhook{
			{verb, "", 7 * time.Second, refusal{what: "admits"}}, {verb, "", 20 * time.Second, refusal{what: "admits"}}, {verb, "", 45 * time.Second, refusal{what: "admits"}},
			{verb, "", 20 * time.Second, denies}, {verb, "", 30 * time.Second, down}, {verb, last, 45 * time.Second, refusal{what: "admits"}},
		} {
			whose := h.node
			if whose == "" {
				whose = "all"
			}
			ops = append(ops, op{words("a webhook takes %s to %s pods of %s: %s", h.takes, verb, whose, h.says.what), 1, func() { s.w.webhook = h }})
		}
	}
	return ops
}

// pacifyWebhook has the webhook admit everything, and in half of the runs at once; but where one node is not healed it is gone.
func (s *sim) pacifyWebhook() {
	switch h := s.w.webhook; {
	case h == nil:
	case s.out.node != "", h.says.err != nil, s.w.rv%2 == 0:
		s.w.webhook = nil
	}
}
