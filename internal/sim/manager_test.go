// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/clustercache/informers"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/dialect"
	rollouts "everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// request is a read or write of a manager that the world has not served yet.
type request struct {
	m    *manager
	text string
	// write is whether it changes anything; of pods, which a new leader waits for, or of other objects.
	write, ofPod bool
	// versioned is whether a delete names the version of the pod.
	versioned bool
	// commit lets it take effect.
	commit func() (any, error)
	// took is whether it has taken effect.
	took bool
	// stale, if not nil, is another answer to a read: that of who need not know the newest.
	stale func() (any, error)
	// told is the answer to a write that took effect while its sender could not hear it.
	told   *answer
	answer chan answer
	sent   time.Time
	judged bool
	// peer is whether it is about the peer, of peerPass if a pass has sent it.
	peer     bool
	peerPass *peerPass
	// slow is whether no pass waits for it, and of the pass in which that was decided; ends is when it is given up, if ever. lease is whether it is about the
	// lease of slow writes.
	slow, lease bool
	of          *decided
	ends        time.Time
	// began is when the pass began that has sent it, moment at which step.
	began  time.Time
	moment int
	// verdict is what the judge has made of a write of a pod when it was sent; nil for all else.
	verdict *verdict
	action  action
}

// action is what a write does to a pod.
type action struct {
	verb, pod, node, image string
	// hash is the revision of a pod that is created, or the name of the one that is looked at.
	hash           string
	uid, namespace string
	// owner is the UID of the set that a pod is created for.
	owner string
	// takes is whether a patch takes the pod out of service.
	takes bool
}

type answer struct {
	value any
	err   error
}

// manager is a leader: what ships, and what the simulation has to know of it.
type manager struct {
	s     *sim
	name  string
	index *clustercache.Index
	c     *daemonset.Controller
	clock *wallClock
	pace  *executor.Pace
	key   clustercache.Key
	// seen is how far each view has come in its log; -1 before the first list, which comes when the fence is over.
	seen  [kinds]int
	fence time.Time
	// cut is whether the store was restored, and it has not noticed.
	cut bool
	// renewed is when the lease was renewed for the last time, of a manager that does not lead.
	renewed time.Time
	known   *knowledge

	// turns are those of the pass, verdicts the last ones by node.
	turns    turns
	verdicts map[string]rollout.VerdictKind

	// rules are the rollout policies that it knows, ruling what it knew of them when it last decided; nil in a run without.
	rules    *ruler
	ruling   *ruling
	provider *provider

	// peer are its passes for the peer.
	peer peerLoop
	// others are its other sets.
	others neighbours
	// slow is its state of slow writes; of is the pass that it makes, or the last one.
	slow slowPart
	of   *decided
	// ctx ends with it.
	ctx context.Context
	end context.CancelFunc

	running bool
	// barred is whether another controller was at work when the pass began, caught whether one has come since, and is still at work; begun are the
	// pods to which the pass has sent a write. yurt is whether OpenYurt's own manager has been at work all the time since the pass began.
	barred, caught, yurt bool
	begun                map[string]bool
	// asked is whether an event asks for a pass, wake when the next one is due whatever happens; failures are passes that failed in a row.
	asked    bool
	wake     time.Time
	failures int
	passes   int
	// began is when the pass began, or the last one, and moment at which step.
	began  time.Time
	moment int
	// noJob is whether a job could not be created, heldAt when nodes were last held back.
	noJob  bool
	heldAt map[string]time.Time

	mu      sync.Mutex
	pending []*request
	asleep  []*sleeper
	dead    bool
	// direct is whether its requests are served at once, as those of a keeper are.
	direct bool
	over   bool
	after  time.Duration
	err    error
}

// newManager starts a leader, which reads the cluster when the fence is over.
func (s *sim) newManager(fence time.Duration) *manager {
	s.terms++
	m := &manager{s: s, name: string(rune('A' + (s.terms-1)%26)), clock: newWallClock(s.w.now), fence: s.w.now.Add(fence), heldAt: map[string]time.Time{}}
	m.known = newKnowledge(s, m.clock)
	m.ctx, m.end = context.WithCancel(s.ctx)
	for k := range kinds {
		m.seen[k] = -1
	}
	m.rules, m.provider = s.newRuler(m), &provider{m: m, said: map[int64]v1alpha1.Answer{}, last: map[rollouts.Question]v1alpha1.Answer{}, at: map[rollouts.Question]time.Time{}, repeats: map[rollouts.Question]int{}}
	m.key = clustercache.Key{Dialect: s.dialect().Source.Dialect, Namespace: namespace, Name: setName}
	m.peer.key = clustercache.Key{Dialect: nativeDialect().Source.Dialect, Namespace: namespace, Name: peerName}
	m.index = clustercache.NewIndex(m.enqueue)
	m.index.ReadFacts(s.cfg.facts())
	m.pace = executor.NewPace(m.clock, func(context.Context) error { return nil }, m.sleep)
	m.pace.Leads = m.holds
	m.c = daemonset.New(daemonset.Options{
		PullJobs: m.pullJobs(), ImagesInPlace: m.imagesInPlace(),
		Policies: m.rules.orNone(), Analyses: m.provider, Wake: m.wakeIn,
		Dialects: m.dialects(), Workers: 1, Index: m.index, Clock: m.clock, Events: silent{}, Observer: observer{m: m},
		Revisions: revisionsOf{m}, Sets: setsOf{m},
		Executor: &executor.Executor{
			Index: m.index, Pods: podsOf{m: m}, Events: silent{}, Clock: m.clock, Count: func(string, apply.Answer) {},
			Pace: m.pace, Slow: m.lane(),
		},
	})
	m.others.moveIn(m)
	return m
}

// errDead is what the requests of a manager that has died come to, so that its goroutines end.
var errDead = errors.New("the manager has died")

// ask sends a request and waits for the answer. Writes that do not wait for their turn are kept back here, as the clients of the manager do it.
func (m *manager) ask(r *request) (any, error) {
	m.s.tick.Load()
	if m.direct {
		return m.askDirectly(r)
	}
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return nil, errDead
	}
	if r.write && !r.ofPod && !m.holds() {
		m.mu.Unlock()
		return nil, apply.ErrNotLeading
	}
	r.peer = r.peer || isPeers(r.action.pod)
	r.m, r.answer, r.sent, r.began, r.moment = m, make(chan answer), m.s.w.now, m.began, m.moment
	r.endsInTime()
	m.pending = append(m.pending, r)
	m.mu.Unlock()
	a := <-r.answer
	return a.value, a.err
}

// sleeper is a goroutine of a manager that sleeps.
type sleeper struct {
	until time.Time
	awake chan struct{}
}

// sleep returns when the time has passed, or the manager has died.
func (m *manager) sleep(_ context.Context, d time.Duration) error {
	if m.direct {
		return nil
	}
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return errDead
	}
	z := &sleeper{until: m.clock.FakeClock.Now().Add(d), awake: make(chan struct{})}
	m.asleep = append(m.asleep, z)
	m.mu.Unlock()
	<-z.awake
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDead
	}
	return nil
}

// rouse wakes who has slept long enough, or all of a manager that has died, one after the other.
func (m *manager) rouse() {
	m.mu.Lock()
	asleep := m.asleep
	m.asleep = nil
	for _, z := range asleep {
		if !m.dead && z.until.After(m.clock.FakeClock.Now()) {
			m.asleep = append(m.asleep, z)
		}
	}
	left, dead := slices.Clone(m.asleep), m.dead
	m.mu.Unlock()
	for _, z := range asleep {
		if dead || !slices.Contains(left, z) {
			close(z.awake)
			m.rest()
		}
	}
}

// waiting are the requests that wait, sorted by their words.
func (m *manager) waiting() []*request {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.SortStableFunc(m.pending, func(a, b *request) int { return cmp.Compare(a.text, b.text) })
	return slices.Clone(m.pending)
}

// reply answers a request and lets the manager go on until it waits again.
func (m *manager) reply(r *request, value any, err error) {
	m.mu.Lock()
	m.pending = slices.DeleteFunc(m.pending, func(o *request) bool { return o == r })
	m.mu.Unlock()
	m.s.overtake(r, value, err)
	r.answer <- answer{value, err}
	m.rest()
}

// rest waits until the manager waits, and takes in what has come of its pass.
func (m *manager) rest() {
	synctest.Wait()
	m.mu.Lock()
	over, after, err := m.over, m.after, m.err
	m.over = false
	m.mu.Unlock()
	if over {
		m.running = false
		m.plan(after, err)
		m.s.judgeTurns(m)
		if err == nil && after != time.Millisecond {
			m.s.judgeServed(m)
		}
	}
	m.endPeer()
	if m.dead {
		return
	}
	for _, r := range m.waiting() {
		if !r.judged {
			r.judged = true
			m.s.reach(r)
			m.s.excusing(m, func() { m.asDecided(r, func() { m.s.judge(r) }) })
		}
	}
}

// plan is what the work queue does with the outcome of a pass: it keeps the earliest time that it was told.
func (m *manager) plan(after time.Duration, err error) {
	m.failures, m.wake = m.planned(m.failures, m.wake, after, err)
}

// planned are how many passes of a set have failed in a row after another one, and when the next one is due.
func (m *manager) planned(failures int, wake time.Time, after time.Duration, err error) (int, time.Time) {
	failures++
	switch {
	case err == nil:
		failures = 0
	case after == 0 || retry(failures) < after:
		after = retry(failures)
	}
	if after != 0 {
		wake = m.earlier(wake, after)
	}
	return failures, wake
}

func retry(failures int) time.Duration {
	return min(50*time.Millisecond<<min(failures-1, 20), 30*time.Second)
}

// due is whether the work queue would hand out the set now.
func (m *manager) due() bool { return m.asked || !m.wake.IsZero() && !m.wake.After(m.s.w.now) }

// pass begins a pass.
func (m *manager) pass() {
	if !m.wake.After(m.s.w.now) {
		m.wake = time.Time{}
	}
	m.asked, m.running = false, true
	m.barred, m.caught, m.yurt, m.begun = m.s.other, false, m.s.yurt, map[string]bool{}
	m.passes++
	ctx := m.nextPass()
	m.known.begin()
	m.turns.begin(m.known.known)
	m.began, m.moment = m.s.w.now, m.s.moment
	go func() {
		after, err := m.c.Reconcile(ctx, m.key)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.over, m.after, m.err = true, after, err
	}()
	m.rest()
}

// die ends a manager in the middle of whatever it does. Its writes that are under way become stragglers.
func (m *manager) die() {
	pending := m.waiting()
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
	m.end()
	for _, r := range pending {
		if r.write {
			m.s.straggle(r)
		}
		m.reply(r, nil, errDead)
	}
	m.rouse()
	m.stop()
}

// stop ends the goroutines of a manager.
func (m *manager) stop() {
	m.others.end()
	m.others.goOn()
	synctest.Wait()
}

// synced is whether every view has been listed since the fence was over, but for those of policies: what ships does not wait for them for ever.
func (m *manager) synced() bool { return !slices.Contains(m.seen[:ofPolicies], -1) }

// behind is how many events a view has not shown yet.
func (m *manager) behind(k kind) int { return len(m.s.w.logs[k]) - m.seen[k] }

// see shows one event, as a watch does.
func (m *manager) see(k kind) {
	e := m.s.w.logs[k][m.seen[k]]
	m.seen[k]++
	if k >= ofPolicies {
		m.rules.see(e)
		return
	}
	m.known.event(k, e)
	x := m.index
	rv := strconv.Itoa(e.rv)
	switch o := e.object.(type) {
	case *corev1.Pod:
		rec, ours := x.PodFrom(o)
		if ours && !e.gone {
			x.PutPod(rec)
		} else {
			x.DeletePod(o.UID, rv)
		}
	case *corev1.Node:
		if e.gone {
			x.DeleteNode(o.Name)
		} else {
			x.PutNode(clustercache.NodeFrom(o))
			m.meetAgents()
		}
	case *appsv1.ControllerRevision:
		rec, ours := informers.RevisionFrom(o)
		if ours && !e.gone {
			x.PutRevision(rec)
		} else {
			x.DropRevision(o.UID)
			x.RevisionsSeen(rv)
		}
	case *unstructured.Unstructured:
		if e.gone {
			x.DeleteSet(m.keyOf(o.GetName()))
		} else {
			w := m.digest(o)
			x.PutSet(m.keyOf(o.GetName()), &w)
		}
	}
}

func (m *manager) digest(set *unstructured.Unstructured) dialect.Workload {
	d := m.s.dialect()
	if set.GetName() == peerName || m.direct {
		d = nativeDialect()
	}
	return d.Source.Digest(set.DeepCopy().Object)
}

// bookmark tells a view that has shown everything how far it is.
func (m *manager) bookmark(k kind) {
	rv := strconv.Itoa(m.s.w.rv)
	switch k {
	case ofPods:
		m.index.PodsSeen(rv)
		m.known.podsRV = m.s.w.rv
	case ofRevisions:
		m.index.RevisionsSeen(rv)
	}
}

// list begins a view anew with everything that there is now.
func (m *manager) list(k kind) { m.listAsOf(k, len(m.s.w.logs[k])) }

// listAsOf begins a view anew with what there was after so many events: a list that a watch goes on from need not be newer than what that has shown.
func (m *manager) listAsOf(k kind, events int) {
	objects, version := m.s.w.asOf(k, events)
	x, rv := m.index, strconv.Itoa(version)
	m.seen[k] = events
	if k >= ofPolicies {
		m.rules.list(k, objects)
		return
	}
	if !m.direct {
		m.known.list(k, objects, version)
	}
	switch k {
	case ofPods:
		pods := m.s.agentPods()
		for _, o := range objects {
			if rec, ours := x.PodFrom(o.(*corev1.Pod)); ours {
				pods = append(pods, &rec)
			}
		}
		x.ReplacePods(pods, rv)
	case ofNodes:
		var nodes []clustercache.Node
		for _, o := range objects {
			nodes = append(nodes, clustercache.NodeFrom(o.(*corev1.Node)))
		}
		x.ReplaceNodes(nodes, rv)
		m.meetAgents()
	case ofRevisions:
		var revisions []clustercache.Revision
		for _, o := range objects {
			if rec, ours := informers.RevisionFrom(o.(*appsv1.ControllerRevision)); ours {
				revisions = append(revisions, rec)
			}
		}
		x.ReplaceRevisions(revisions, rv)
	default:
		sets := map[string]map[clustercache.Key]*dialect.Workload{m.key.Dialect: {}, m.peer.key.Dialect: {}}
		for _, o := range objects {
			workload := m.digest(o.(*unstructured.Unstructured))
			key := m.keyOf(o.GetName())
			sets[key.Dialect][key] = &workload
		}
		for name := range sets {
			x.ReplaceSets(name, sets[name])
		}
	}
}

func ask[T any](m *manager, r *request) (T, error) {
	value, err := m.ask(r)
	typed, _ := value.(T)
	return typed, err
}

func words(format string, args ...any) string { return fmt.Sprintf(format, args...) }
