// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/controller/daemonset"
	"everynode.dev/everynode/internal/dialect"
	bypolicy "everynode.dev/everynode/internal/dialect/policy"
)

const (
	// alongsideRun is the dialect of runs in which another controller keeps the pods of the set, whose strategy is OnDelete, and the manager only deletes old
	// ones, as the rollout policy says.
	alongsideRun = "alongside"
	// policyBudget is an annotation of the set of such a run with what its policies, when there are any, say in maxUnavailable. Only the judge reads it.
	policyBudget = "sim/policy-budget"
)

// alongside turns a run of apps/v1 with a rollout policy and the kind of steps of that name into one next to another controller. Such a run has no steps that
// are about a controller which should not be there, and no peer, whose pods the manager would keep.
func (c config) alongside() config {
	if c.dialect != nativeRun || !c.with("rollouts") || !c.with(alongsideRun) {
		return c
	}
	c.dialect, c.surge = alongsideRun, "0"
	if c.unavailable == "0" {
		c.unavailable = "1"
	}
	c.faults = slices.DeleteFunc(slices.Clone(c.faults), func(name string) bool { return slices.Contains([]string{"others", "groups", "undos"}, name) })
	return c
}

// onDelete gives a set the strategy with which the other controller leaves old pods alone.
func (c config) onDelete(set *unstructured.Unstructured) {
	set.Object["spec"].(map[string]any)["updateStrategy"] = map[string]any{"type": "OnDelete"}
	annotations := set.GetAnnotations()
	annotations[policyBudget] = c.unavailable
	set.SetAnnotations(annotations)
}

// budget is the number of nodes that a policy lets be down; nil in a run in which the set says that.
func (c config) budget() *intstr.IntOrString {
	if c.dialect != alongsideRun {
		return nil
	}
	value := intstr.Parse(c.unavailable)
	return &value
}

// byPolicy is the dialect of a manager next to another controller.
func byPolicy() dialect.Dialect {
	d := nativeDialect()
	d.Source.Dialect, d.Source.Digest = bypolicy.Name, bypolicy.Digest
	d.StatusPatch = func(*dialect.Workload, dialect.Report) ([]byte, bool) { return nil, false }
	return d
}

// keeper is the controller that keeps the pods next to a manager: ours for DaemonSets of apps/v1, whose parity with the native one the suite differential
// tests. A step of it is a whole pass, which knows everything and does not wait.
type keeper struct {
	*manager
	// seen is how many events there were when its last pass began, wake when the next one is due whatever happens.
	seen int
	wake time.Time
}

// newKeeper is a keeper; nil in a run without one.
func (s *sim) newKeeper() *keeper {
	if s.cfg.dialect != alongsideRun {
		return nil
	}
	m := &manager{s: s, name: "the other controller", clock: newWallClock(s.w.now), direct: true}
	m.known = newKnowledge(s, m.clock)
	m.ctx, m.end = context.WithCancel(s.ctx)
	d := nativeDialect()
	d.MayWrite = func() bool { return true }
	m.key = clustercache.Key{Dialect: d.Source.Dialect, Namespace: namespace, Name: setName}
	m.peer.key = clustercache.Key{Dialect: d.Source.Dialect, Namespace: namespace, Name: peerName}
	m.index = clustercache.NewIndex(func(clustercache.Key) {})
	m.pace = executor.NewPace(m.clock, func(context.Context) error { return nil }, m.sleep)
	m.c = daemonset.New(daemonset.Options{
		Wake: func(clustercache.Key, time.Duration) {}, Dialects: []dialect.Dialect{d}, Workers: 1, Index: m.index, Clock: m.clock, Events: silent{}, Observer: silent{},
		Revisions: revisionsOf{m}, Sets: setsOf{m},
		Executor: &executor.Executor{Index: m.index, Pods: podsOf{m: m}, Events: silent{}, Clock: m.clock, Count: func(string, apply.Answer) {}, Pace: m.pace},
	})
	go m.c.Run(m.ctx) // its queue stays empty: see look
	return &keeper{manager: m}
}

// due is whether it has anything to look at.
func (k *keeper) due() bool {
	return k != nil && (k.seen != k.events() || !k.wake.IsZero() && !k.wake.After(k.s.w.now))
}

// events are those that it would have been shown.
func (k *keeper) events() int {
	all := 0
	for of := range ofPolicies {
		all += len(k.s.w.logs[of])
	}
	return all
}

// close ends it.
func (k *keeper) close() {
	if k != nil {
		k.end()
		synctest.Wait()
	}
}

// look is one pass.
func (k *keeper) look() {
	k.clock.SetTime(k.s.w.now)
	for of := range ofPolicies {
		k.list(of)
	}
	k.seen = k.events() // what it does itself may ask for more
	go func() {
		after, err := k.c.Reconcile(k.ctx, k.key)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.after, k.err = after, err
	}()
	for k.serve() {
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wake = time.Time{}
	if k.err != nil && k.after == 0 {
		k.after = time.Second
	}
	if k.after > 0 {
		k.wake = k.s.w.now.Add(k.after)
	}
}

// askDirectly sends a request of a keeper and waits for the answer.
func (m *manager) askDirectly(r *request) (any, error) {
	r.answer = make(chan answer, 1)
	m.mu.Lock()
	m.pending = append(m.pending, r)
	m.mu.Unlock()
	a := <-r.answer
	return a.value, a.err
}

// serve answers a request, when all that the pass sends at the same time are waiting, and reports whether there was any. It is the first one by its text, so a seed
// always gives the same run.
func (k *keeper) serve() bool {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) == 0 {
		return false
	}
	slices.SortStableFunc(k.pending, func(a, b *request) int { return strings.Compare(a.text, b.text) })
	r := k.pending[0]
	k.pending = k.pending[1:]
	var a answer
	if a.err = k.s.refused(r); a.err == nil {
		a.value, a.err = r.commit()
	}
	r.answer <- a
	return true
}

// keeperOps are a pass of the other controller, if there is one that has something to do.
func (s *sim) keeperOps(ops []op) []op {
	if s.keeper.due() {
		ops = append(ops, op{"the other controller looks", 12, s.keeper.look})
	}
	return ops
}

// judgeExternal: next to another controller a manager deletes pods and marks revisions, and changes nothing else.
func (s *sim) judgeExternal(r *request) {
	if s.cfg.dialect != alongsideRun || r.action.verb == "delete" || r.action.verb == "" && strings.HasPrefix(r.text, "patches revision ") {
		return
	}
	s.blame("external", "%s %s, which is up to the controller that keeps the pods", r.m.name, r.text)
}

// ahead is whether another controller has made a pod from a newer template than is known.
func (k known) ahead(p *corev1.Pod) bool {
	generation, err := strconv.Atoi(k.set.GetAnnotations()[appsv1.DeprecatedTemplateGeneration])
	of, errOf := strconv.Atoi(p.Labels[extensionsv1beta1.DaemonSetTemplateGenerationKey])
	return err == nil && errOf == nil && of > generation && !p.CreationTimestamp.Time.Before(k.set.GetCreationTimestamp().Time)
}

// borrows is whether a stranger's pod, next to another controller, has the hash that an earlier set would have called its revision: that controller may have found
// another name for the one of this set.
func (k known) borrows(p *corev1.Pod) bool { return isAlongside(k.set) && isStrangers(p) }

// isAlongside is whether another controller keeps the pods of a set, which a rollout policy updates.
func isAlongside(set *unstructured.Unstructured) bool {
	return set.GetAnnotations()[policyBudget] != ""
}

// TestAlongside: the runs next to another controller are among those of TestSim, and in most of them the set is updated.
func TestAlongside(t *testing.T) {
	runs, rolled := 0, 0
	for seed := range uint64(2000) {
		cfg, _ := configOf(seed)
		if cfg.dialect != alongsideRun {
			continue
		}
		runs++
		if o := playSeed(t, seed); o.broken != nil {
			t.Fatalf("seed %d breaks %s", seed, o.broken)
		} else if slices.ContainsFunc(o.story, func(line string) bool { return strings.Contains(line, " down by us, of ") }) {
			rolled++
		}
	}
	if runs < 20 || rolled < runs/2 {
		t.Errorf("%d of %d runs have updated a node", rolled, runs)
	}
}
