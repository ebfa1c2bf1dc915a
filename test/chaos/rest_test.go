// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// quiet is for how long nothing happens at rest, while a manager leads: it has had time by then for all that it knows of.
const quiet = 8 * time.Second

// rest has the status of each set counted again as soon as nothing has happened for so long.
func (u *troupe) rest(quiet time.Duration) {
	u.t.Helper()
	u.Poll(fmt.Sprintf("nothing happens for %s", quiet), func() error {
		if since := u.ledger.Quiet(); since < quiet {
			return fmt.Errorf("something has happened %s ago", since)
		}
		return nil
	})
	if err := u.ledger.Rest(u.Context()); err != nil {
		u.t.Fatal(err)
	}
	u.rests++
	u.t.Logf("%s: all is at rest", time.Now().Format("15:04:05"))
}

// standStill has all sets come to rest in the middle of something, so that no two numbers of a status need be the same: pods on a node that may only
// keep them, an image that no node can pull, with a surge and without, and a partition. Afterwards all of them go on.
func (u *troupe) standStill() {
	u.t.Helper()
	u.settle("all updates end, before they stand still")
	u.t.Logf("%s: all sets are brought to stand still", time.Now().Format("15:04:05"))
	node, key := u.Nodes[0], harness.LabelPrefix+"kept"
	u.Taint(node, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	var kept []harness.Condition
	for _, m := range u.members {
		kept = append(kept, harness.StatusIs(m.name, "the pod of the tainted node is misplaced", func(s appsv1.DaemonSetStatus) bool { return s.NumberMisscheduled == 1 }))
	}
	u.Wait("pods are where they may only stay", kept...)
	plain, surging, limited := u.members[0], u.members[1], u.members[4]
	for _, m := range []*member{plain, surging} {
		u.showImage(m, harness.BrokenImage)
	}
	limited.held = true
	u.rolling(limited, "partition", len(u.Nodes)/2)
	u.show(limited, 1+limited.image%images)
	part := int32(len(u.Nodes) - 1 - len(u.Nodes)/2)
	u.Wait("updates stand still",
		func(harness.View) error { u.release(); return nil },
		harness.StatusIs(plain.name, "nodes are down", func(s appsv1.DaemonSetStatus) bool { return s.NumberUnavailable > 0 && s.UpdatedNumberScheduled > 0 }),
		harness.StatusIs(limited.name, "a part is updated", func(s appsv1.DaemonSetStatus) bool {
			return s.UpdatedNumberScheduled == part && s.NumberUnavailable == 0
		}),
		func(v harness.View) error {
			if pods := len(v.Pods(surging.name)); pods <= len(u.Nodes) {
				return fmt.Errorf("set %s has %d pods, and none comes next to another one", surging.name, pods)
			}
			return nil
		})
	u.rest(quiet)
	u.Untaint(node, key)
	for _, m := range []*member{plain, surging} {
		u.show(m, 1+m.image%images)
	}
	u.settle("all updates go on to their end")
}

// numbersOf are those of a status.
func numbersOf() map[string]func(s *appsv1.DaemonSetStatus) *int32 {
	return map[string]func(s *appsv1.DaemonSetStatus) *int32{
		"desiredNumberScheduled": func(s *appsv1.DaemonSetStatus) *int32 { return &s.DesiredNumberScheduled },
		"currentNumberScheduled": func(s *appsv1.DaemonSetStatus) *int32 { return &s.CurrentNumberScheduled },
		"numberMisscheduled":     func(s *appsv1.DaemonSetStatus) *int32 { return &s.NumberMisscheduled },
		"numberReady":            func(s *appsv1.DaemonSetStatus) *int32 { return &s.NumberReady },
		"updatedNumberScheduled": func(s *appsv1.DaemonSetStatus) *int32 { return &s.UpdatedNumberScheduled },
		"numberAvailable":        func(s *appsv1.DaemonSetStatus) *int32 { return &s.NumberAvailable },
		"numberUnavailable":      func(s *appsv1.DaemonSetStatus) *int32 { return &s.NumberUnavailable },
	}
}

// statusMutants have one number of the last status be one more than it is.
func statusMutants(end *ending) (all []mutant) {
	for name, number := range numbersOf() {
		all = append(all, end.mutant("one more in "+name, observe.Status, name+" is", func(e *ending) {
			e.restate(func(s *appsv1.DaemonSetStatus) { *number(s)++ })
			e.rest()
		}))
	}
	return all
}

// rest says that nothing is left to do.
func (e *ending) rest() { e.rules.Rests = []observe.Rest{{Version: e.version, At: e.at}} }

// restate has the manager write another status.
func (e *ending) restate(edit func(s *appsv1.DaemonSetStatus)) {
	e.t.Helper()
	for _, event := range e.log {
		var set metav1.Object
		switch last := event.Object.(type) {
		case *appsv1.DaemonSet:
			next := last.DeepCopy()
			edit(&next.Status)
			set = next
		case *observe.Advanced:
			next := *last
			next.DaemonSet = last.DaemonSet.DeepCopy()
			edit(&next.Status)
			set = &next
		default:
			continue
		}
		e.then(watch.Modified, set)
		return
	}
	e.t.Fatal("there is no set at the end of the log")
}

// checkRest fails where something is left at the end of a log: then nothing is known of what statusMutants makes of it.
func (e *ending) checkRest() {
	e.t.Helper()
	after := *e
	after.rest()
	if seen := observe.Judge(after.log, after.rules); len(seen.Violations) > 0 || seen.Rests != 1 {
		e.t.Errorf("the end of a log is not at rest: %+v", seen.Violations)
	}
}

// TestRestCanFail: a log whose status is not what is there does not pass for one at rest.
func TestRestCanFail(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "set", Generation: 1}
	log, rules := told(t, &appsv1.DaemonSet{ObjectMeta: meta, Status: restingStatus()})
	endOf(t, log, rules).checkRest()
	log, rules = told(t, &appsv1.DaemonSet{ObjectMeta: meta})
	end := endOf(t, log, rules)
	end.rest()
	if seen := observe.Judge(end.log, end.rules); len(seen.Violations) < 5 {
		t.Errorf("a status without numbers: %+v", seen.Violations)
	}
}

// restingStatus is that of the set of told.
func restingStatus() appsv1.DaemonSetStatus {
	const n = toldNodes
	return appsv1.DaemonSetStatus{
		ObservedGeneration: 1, DesiredNumberScheduled: n, CurrentNumberScheduled: n, NumberReady: n, UpdatedNumberScheduled: n, NumberAvailable: n,
	}
}

// advancedStatus is that of an Advanced one.
func advancedStatus() v1beta1.DaemonSetStatus {
	s := restingStatus()
	return v1beta1.DaemonSetStatus{
		ObservedGeneration: s.ObservedGeneration, DesiredNumberScheduled: s.DesiredNumberScheduled, CurrentNumberScheduled: s.CurrentNumberScheduled,
		NumberReady: s.NumberReady, UpdatedNumberScheduled: s.UpdatedNumberScheduled, NumberAvailable: s.NumberAvailable, UpdateRevision: "first",
	}
}
