// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply/executor"
)

// sim is one run.
type sim struct {
	ctx context.Context
	cfg config
	w   *world
	// lead is the manager that leads; nil when there is none. frozen is one that led, stands still, and goes on later. terms counts the leaders.
	lead *manager
	// keeper is the controller that keeps the pods next to the manager; nil in a run without one.
	keeper     *keeper
	frozen     *manager
	terms      int
	stragglers []*straggler
	// names are the nodes of pods by name, for those that are not there; requests that are sent at the same time share it.
	named sync.Mutex
	// tick is written before time passes for goroutines, and read by them when they go on: what was done before is seen then.
	tick  atomic.Int64
	names map[string]string
	// other is whether another controller is at work on the set, yurt whether OpenYurt's own manager looks after its annotations.
	other, yurt bool
	// intents are the verdicts on deletes by UID.
	intents map[types.UID]*verdict
	// overtaken is how many deletes of a pod were answered with a conflict, and conflicts are those after which the pod has not been read yet.
	overtaken map[types.UID]int
	conflicts map[conflict]types.UID
	// down and doubled are the nodes that are so by us; see the package comment.
	down    map[string]bool
	doubled map[string]types.UID
	// skew is how wrong the clock of a manager has been, at most, and misled when one was an hour wrong for the last time.
	skew   time.Duration
	misled time.Time
	// containers counts the containers that nodes have made; changed is when the passes began that have changed the images of pods.
	containers int
	changed    map[types.UID]time.Time
	// story has every step, and what was noted about it in lines that begin with #; steps are those before the fair part.
	story  []string
	steps  []string
	broken *breach
	// out is what is not healed yet.
	out outage
	// clocks are how wrong those of nodes are, and otherSkew how wrong any but those of managers has been, at most.
	clocks    map[string]time.Duration
	otherSkew time.Duration
	// backup is the last one of the store. excused is whether what happens now is blamed on nobody.
	backup  *backup
	excused bool
	// ledgers are what the managers have seen of waves, by rollout, memberships which nodes these have had; begun are the nodes whose update to an image a manager has begun.
	ledgers     map[string]*ledger
	memberships map[string]*membership
	// lastStart is the last start of an update.
	lastStart start
	begun     map[string]bool
	// forgedMarks are the marks of revisions that no manager has written.
	forgedMarks map[string]bool
	// work are the nodes on which sets of a group are at work.
	work work
	// ill is a node on which no pod of the set gets ready; empty for none. sick is one that has been ill: waves may go on without it, for it was broken before.
	ill, sick string
	// undoing is whether an image that never works is rolled out at the end, and touched are the nodes that have got it since. Those of earlier are the pods that
	// had it before, on nodes that no update reaches.
	undoing bool
	touched map[string]bool
	earlier map[types.UID]bool
	// undoBegan is when a user has set that image, and failed whether a manager has reported since that it has failed.
	undoBegan time.Time
	failed    bool
	// retried is when a user last retried a revision at the end, and retries is how often; alerted is how often a provider has said there that no alert is firing.
	retried          time.Time
	retries, alerted int
	sides
	// trouble is what is to happen in the middle of the next soak.
	trouble trouble
}

// straggler is a write that may take effect until a deadline.
type straggler struct {
	*request
	until time.Time
}

// op is one step that can be taken now.
type op struct {
	text   string
	weight int
	do     func()
}

// picker chooses the next step; -1 ends the first part of the run.
type picker func(ops []op) int

// outcome is what a run came to.
type outcome struct {
	cfg    config
	steps  []string
	story  []string
	broken *breach
	// play is how it was played; nil for the function of that name.
	play player
}

// player plays a run.
type player func(t *testing.T, cfg config, pick picker) *outcome

// fairBegins is noted where the second part of a run begins.
const fairBegins = "from here on all is fair"

// play makes a run in a bubble of its own.
func play(t *testing.T, cfg config, pick picker) *outcome {
	t.Helper()
	return playTo(t, cfg, pick, func(*sim, []op) bool { return true })
}

// playTo is play that asks before the second part whether to play it; it is told what could have been done next.
func playTo(t *testing.T, cfg config, pick picker, goOn func(*sim, []op) bool) *outcome {
	t.Helper()
	var out *outcome
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t.Context(), cfg)
		s.run(pick, goOn)
		s.close()
		out = &outcome{cfg: cfg, steps: s.steps, story: s.story, broken: s.broken}
	})
	return out
}

func newSim(ctx context.Context, cfg config) *sim {
	s := &sim{
		ctx: ctx, cfg: cfg, w: newWorld(), names: map[string]string{}, intents: map[types.UID]*verdict{}, overtaken: map[types.UID]int{}, conflicts: map[conflict]types.UID{},
		down: map[string]bool{}, doubled: map[string]types.UID{}, changed: map[types.UID]time.Time{}, clocks: map[string]time.Duration{},
		ledgers: map[string]*ledger{}, memberships: map[string]*membership{}, begun: map[string]bool{}, forgedMarks: map[string]bool{}, work: work{},
		sides: newSides(),
	}
	s.w.merge = cfg.merge()
	for i := range cfg.nodes {
		n := newNode(fmt.Sprintf("n%d", i+1), s.w.now)
		if cfg.with("renamed") {
			n.Name = fmt.Sprintf("n%d", cfg.nodes-i)
		}
		s.w.put(ofNodes, n)
	}
	s.w.put(ofSets, cfg.newSet(s.w.now))
	s.makePolicy()
	s.makePeer()
	s.keeper = s.newKeeper()
	return s
}

func (s *sim) run(pick picker, goOn func(*sim, []op) bool) {
	s.rollOut()
	var ops []op
	for s.broken == nil {
		ops = s.ops()
		i := pick(ops)
		if i < 0 {
			break
		}
		s.steps = append(s.steps, ops[i].text)
		s.take(ops[i])
	}
	if s.broken == nil && goOn(s, ops) {
		s.note(fairBegins)
		s.settle()
	}
}

// rollOut brings the first revision to all nodes, so that the steps begin where it gets interesting.
func (s *sim) rollOut() {
	if !s.cfg.with("scratch") {
		s.fair(100)
		s.story = nil
	}
}

// take makes one step.
func (s *sim) take(o op) {
	s.story = append(s.story, o.text)
	s.moment++
	o.do()
	s.follow()
}

func (s *sim) note(format string, args ...any) {
	s.story = append(s.story, "# "+fmt.Sprintf(format, args...))
}

func (s *sim) name(pod, node string) {
	s.named.Lock()
	defer s.named.Unlock()
	if s.names[pod] == "" {
		s.names[pod] = "the pod of " + node
	}
}

func (s *sim) close() {
	s.keeper.close()
	if s.frozen != nil {
		s.frozen.die()
	}
	if s.lead != nil {
		s.lead.die()
	}
	s.tick.Add(1)
}

// pass lets time pass.
func (s *sim) pass(d time.Duration) {
	s.w.now = s.w.now.Add(d)
	s.stragglers = slices.DeleteFunc(s.stragglers, func(z *straggler) bool { return !z.until.After(s.w.now) })
	if s.lead != nil {
		s.lead.clock.SetTime(s.w.now)
		s.lead.known.count()
		s.doze(d)
		s.lead.rouse()
		s.lead.rest()
		s.lead.giveUp()
	}
}

// commit lets a write take effect, and looks at what it has done.
func (s *sim) commit(r *request) (any, error) {
	if err := s.refused(r); err != nil {
		return nil, err
	}
	if s.unheardOf(r) || s.outlivesSet(r) {
		return nil, errTimeout()
	}
	before := s.w.pod(r.action.pod)
	value, err := r.commit()
	if r.took = err == nil; r.took && r.write {
		s.excusing(r.m, func() { s.committed(r, before, value) })
	}
	return value, err
}

// serve answers a request as the world would.
func (s *sim) serve(r *request) {
	s.answer(r, func() (any, error) { return s.commit(r) })
}

func (s *sim) answer(r *request, from func() (any, error)) {
	value, err := from()
	s.started(r)
	s.hear(r, err)
	r.m.known.answered(r, value, err)
	r.m.reply(r, value, err)
}

// fail answers a request with an error.
func (s *sim) fail(r *request, err error) {
	s.hear(r, err)
	r.m.known.answered(r, nil, err)
	r.m.reply(r, nil, err)
}

// ops are all steps that can be taken now.
func (s *sim) ops() []op {
	s.noteClocks()
	var ops []op
	ops = s.leaderOps(ops)
	ops = s.keeperOps(ops)
	if s.cfg.with("freezes") {
		ops = s.freezeOps(ops)
	}
	if s.lead != nil && (s.cfg.with("clocks") || s.cfg.with("jumps")) {
		ops = s.clockOps(ops)
	}
	if s.lead != nil && s.cfg.with("busy") {
		ops = s.busyOps(ops)
	}
	if s.lead != nil {
		ops = s.lead.peerLoopOps(ops)
		ops = s.viewOps(ops)
		ops = s.requestOps(ops)
	}
	for _, z := range s.stragglers {
		ops = append(ops, op{"straggler " + z.m.name + " " + z.text, 8, func() {
			s.stragglers = slices.DeleteFunc(s.stragglers, func(o *straggler) bool { return o == z })
			value, err := s.commit(z.request)
			z.told = &answer{value, err}
		}})
	}
	for _, p := range s.w.pods() {
		ops = s.podOps(ops, p)
	}
	ops = s.agentOps(s.pullOps(s.collectOps(ops)))
	if s.cfg.with("nodes") {
		ops = s.nodeOps(ops)
	}
	if s.cfg.with("users") {
		ops = s.userOps(ops)
	}
	ops = s.otherOps(ops)
	ops = s.hostileOps(ops)
	for _, seconds := range []int{1, 7, 40} {
		ops = append(ops, op{words("%ds pass", seconds), max(1, 16/seconds), func() { s.pass(time.Duration(seconds) * time.Second) }})
	}
	return ops
}

func (s *sim) leaderOps(ops []op) []op {
	m := s.lead
	if m == nil && s.leased() {
		return ops
	}
	if m == nil {
		return append(ops, op{"a new leader comes", 30, func() { s.lead = s.newManager(executor.Fence); s.lead.wait() }})
	}
	if s.cfg.with("crashes") {
		weight := 1
		if m.running {
			weight = 2
		}
		weight *= m.hangs()
		ops = append(ops, op{m.name + " dies", weight * s.storm(), func() { m.die(); s.lead = nil }})
	}
	if m.synced() && !m.running {
		weight := 1
		if m.due() {
			weight = 30
		}
		ops = append(ops, op{m.name + " looks", weight, m.pass})
	}
	return ops
}

func (s *sim) viewOps(ops []op) []op {
	m := s.lead
	if m.cut {
		return append(ops, s.noticeOp())
	}
	for k := range s.kinds() {
		switch {
		case m.seen[k] < 0:
			if !m.fence.After(s.w.now) && m.slow.taken {
				ops = append(ops, op{words("%s lists %s", m.name, k), 30, func() { m.list(k); m.rest() }})
			}
			continue
		case m.behind(k) > 0:
			ops = append(ops, op{words("%s sees %s", m.name, k), min(16, 4*m.behind(k)), func() { m.see(k); m.rest() }})
		case k == ofPods || k == ofRevisions:
			ops = append(ops, op{words("%s has seen all %s", m.name, k), 1, func() { m.bookmark(k) }})
		}
		if s.cfg.with("relists") {
			ops = append(ops, op{words("%s lists %s", m.name, k), 1, func() { m.list(k); m.rest() }})
		}
		if behind := m.behind(k); s.cfg.with("lags") && behind > 0 {
			ops = append(ops, op{words("%s lists %s as it knows them", m.name, k), s.storm(), func() { m.listAsOf(k, m.seen[k]); m.rest() }})
			if half := behind / 2; half > 0 {
				ops = append(ops, op{words("%s lists %s, half of what is new", m.name, k), s.storm(), func() { m.listAsOf(k, m.seen[k]+half); m.rest() }})
			}
		}
	}
	return ops
}

func (s *sim) requestOps(ops []op) []op {
	ops = s.slowOps(ops)
	for _, r := range s.lead.waiting() {
		text := r.m.name + " " + r.text
		if s.atWebhook(r) {
			continue
		}
		ops = append(ops, op{text, 20, func() { s.serve(r) }})
		if r.stale != nil {
			ops = append(ops, op{text + " as it was", 10, func() { s.answer(r, r.stale) }})
		}
		if s.cfg.with("answers") && r.write {
			ops = append(ops,
				op{text + ", the answer is lost", s.storm(), func() {
					_, _ = s.commit(r)
					s.fail(r, errTimeout())
				}},
				op{text + ", time is up", s.storm(), func() { s.straggle(r); s.fail(r, errTimeout()) }})
		}
		if s.cfg.with("refusals") && !r.lease {
			for _, f := range refusals(r) {
				ops = append(ops, op{text + ": " + f.what, s.storm(), func() { s.fail(r, f.err) }})
			}
		}
		if s.cfg.with("codes") && r.write && !r.lease {
			for _, f := range codeAnswers() {
				ops = append(ops, op{text + ": " + f.what, 1, func() { s.fail(r, f.err) }})
			}
		}
	}
	return ops
}

// script is a picker that follows a script; lenient passes over steps that cannot be taken.
func script(steps []string, lenient bool, missed func(step string)) picker {
	at := 0
	return func(ops []op) int {
		for ; at < len(steps); at++ {
			if i := slices.IndexFunc(ops, func(o op) bool { return o.text == steps[at] }); i >= 0 {
				at++
				return i
			}
			if !lenient {
				missed(steps[at])
				return -1
			}
		}
		return -1
	}
}

// chance is a picker that takes so many steps by chance.
func chance(r *rand.Rand, steps int) picker {
	return func(ops []op) int {
		if steps--; steps < 0 {
			return -1
		}
		sum := 0
		for _, o := range ops {
			sum += o.weight
		}
		n := r.IntN(sum)
		for i, o := range ops {
			if n -= o.weight; n < 0 {
				return i
			}
		}
		return -1
	}
}

// shrink leaves out what a broken run does not need, as long as the same invariant is broken: steps, and nodes.
func shrink(t *testing.T, o *outcome) *outcome {
	t.Helper()
	for size := max(1, len(o.steps)/2); size > 0; {
		smaller := false
		for at := 0; at < len(o.steps); {
			end := min(at+size, len(o.steps))
			if try := o.again(t, o.cfg, slices.Concat(o.steps[:at], o.steps[end:])); try != nil && len(try.steps) < len(o.steps) {
				o, smaller = try, true
			} else {
				at = end
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	if cfg := o.cfg; cfg.nodes > 1 {
		cfg.nodes--
		if try := o.again(t, cfg, o.steps); try != nil {
			return shrink(t, try)
		}
	}
	return o
}

// again plays a run with other steps; nil if it does not break the same invariant.
func (o *outcome) again(t *testing.T, cfg config, steps []string) *outcome {
	t.Helper()
	how := o.play
	if how == nil {
		how = play
	}
	try := how(t, cfg, script(steps, true, nil))
	try.play = o.play
	if try.broken == nil || try.broken.rule != o.broken.rule {
		return nil
	}
	return try
}

// text is a run as a script with its story.
func (o *outcome) text() string {
	lines := append([]string{"config " + o.cfg.String()}, o.story...)
	if o.broken != nil {
		lines = append(lines, "# BROKEN "+o.broken.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

// sorted are the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
