// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

const handOverNodes = 10

// TestHandOver: sets that upstream's controller made and rolled go to Everynode and back, and no pod notices.
//
// After each change of hands the new controller has to have looked at the set: it is touched (a change of
// revisionHistoryLimit raises its generation and nothing else), and its status has to follow.
func TestHandOver(t *testing.T) {
	long(t)
	c := cluster(t)
	hands := c.Hands(t)
	s := c.Space(t, handOverNodes)
	order := []harness.Controller{harness.Native, harness.Everynode, harness.Native, harness.Everynode}
	if c.Controller != order[0] {
		hands[c.Controller].Kill(t)
		hands[order[0]].Start(t)
	}
	h := handed{Space: s, sets: makeSets(s)}
	h.before = snapshot(s.View())
	for i, to := range order[1:] {
		h.over(t, hands[order[i]], hands[to], int32(5+i))
	}
	written := s.Update("rolled", harness.WithImage(harness.Image3))
	s.Wait("the last one in charge rolls", harness.RolledOut("rolled", written.Generation, handOverNodes), runsImage("rolled", harness.Image3))
	if last := order[len(order)-1]; last != c.Controller {
		hands[last].Kill(t)
		hands[c.Controller].Start(t)
	}
}

// TestHandBack: sets that Everynode made and rolled go to upstream's controller. That compares revisions by their bytes, and finds the pods up to date only
// where Everynode has written what this version of it would have written.
func TestHandBack(t *testing.T) {
	long(t)
	c := cluster(t)
	onlyEverynode(t, c, "what upstream's controller has written itself is TestHandOver")
	hands := c.Hands(t)
	s := c.Space(t, handOverNodes)
	h := handed{Space: s, sets: makeSets(s)}
	h.before = snapshot(s.View())
	h.over(t, hands[harness.Everynode], hands[harness.Native], 5)
	h.over(t, hands[harness.Native], hands[harness.Everynode], 6)
}

// handed is what changes hands.
type handed struct {
	*harness.Space
	sets   []string
	before string // the snapshot that has to stay
}

// over has one controller take the sets over from another one, and look at each of them.
func (h handed) over(t *testing.T, from, to harness.Hand, limit int32) {
	t.Helper()
	recorders := map[string]*observe.Recorder{}
	for _, set := range h.sets {
		recorders[set] = h.Observe(set)
	}
	from.Kill(t)
	to.Start(t)
	for _, set := range h.sets {
		touched := h.Update(set, historyLimit(limit))
		h.Wait(fmt.Sprintf("%s has taken over set %s", to.Controller, set), harness.RolledOut(set, touched.Generation, handOverNodes))
		report := h.Judge(recorders[set])
		if n := len(report.Created) + len(report.Deleted) + len(report.Restarted); n != 0 {
			t.Errorf("from %s to %s: pods of set %s created %v, deleted %v, restarted %v", from.Controller, to.Controller, set,
				report.Created, report.Deleted, report.Restarted)
		}
	}
	if after := snapshot(h.View()); after != h.before {
		t.Errorf("from %s to %s: pods or revisions differ:\n%s", from.Controller, to.Controller, difference(h.before, after))
	}
}

// makeSets makes sets with a history, as the controller in charge does it, and returns their names.
func makeSets(s *harness.Space) []string {
	s.Run("rolled", harness.WithBudget("5", "0"))
	written := s.Update("rolled", harness.WithImage(harness.Image2))
	s.Wait("the set is rolled", harness.RolledOut("rolled", written.Generation, handOverNodes))
	s.Run("undone", harness.WithBudget("100%", "0"))
	s.Update("undone", harness.WithImage(harness.Image2))
	s.Wait("the set is rolled", harness.RolledOut("undone", 2, handOverNodes))
	s.Kubectl("rollout", "undo", "daemonset/undone")
	s.Wait("the set is rolled back", harness.RolledOut("undone", 3, handOverNodes))
	s.Run("surging", harness.WithBudget("0", "5"))
	s.Run("by-hand", harness.WithOnDelete)
	return []string{"rolled", "undone", "surging", "by-hand"}
}

// snapshot is what must not change in a hand-over: pods, their revisions and restarts, the history.
func snapshot(v harness.View) string {
	var text strings.Builder
	for _, pod := range v.AllPods() {
		fmt.Fprintf(&text, "pod %s %s on %s revision %s generation %s restarts %d\n", pod.Name, pod.UID, pod.Spec.NodeName,
			pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey], pod.Labels[templateGeneration], podRestarts(pod))
	}
	for _, revision := range v.Revisions() {
		fmt.Fprintf(&text, "revision %s %s number %d\n", revision.Name, revision.UID, revision.Revision)
	}
	return text.String()
}

// difference lists the lines that only one of the texts has.
func difference(before, after string) string {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	var text strings.Builder
	for _, line := range old {
		if !slices.Contains(now, line) {
			fmt.Fprintf(&text, "- %s\n", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			fmt.Fprintf(&text, "+ %s\n", line)
		}
	}
	return text.String()
}

func podRestarts(pod *corev1.Pod) int32 {
	var total int32
	for _, status := range pod.Status.ContainerStatuses {
		total += status.RestartCount
	}
	return total
}

func historyLimit(limit int32) harness.Edit {
	return func(set *daemonSet) { set.Spec.RevisionHistoryLimit = &limit }
}

// What the manager says in its log, see internal/controller/conflict.
const (
	notAlone   = "another controller reconciles the DaemonSets of apps/v1"
	aloneAgain = "No other controller reconciles the DaemonSets of apps/v1"
)

// TestConflictIsNoticed: when upstream's controller runs too, Everynode's dialect stops writing and says how to turn one of
// them off; when it is alone again it goes on.
func TestConflictIsNoticed(t *testing.T) {
	long(t)
	c := cluster(t)
	onlyEverynode(t, c, "upstream's controller does not look for others")
	hands := c.Hands(t)
	s := c.Space(t, 3)
	hands[harness.Native].Start(t)
	s.Create("first")
	s.Wait("upstream's controller is at work", harness.RolledOut("first", 1, 3))

	// The manager asks at its start, and then every ten minutes.
	hands[harness.Everynode].Kill(t)
	said := len(hands[harness.Everynode].Log())
	hands[harness.Everynode].Start(t)
	waitLog(s, hands[harness.Everynode], said, notAlone)
	s.Run("second")
	written := s.Update("second", harness.WithImage(harness.Image2))
	s.Wait("upstream's controller rolls", harness.RolledOut("second", written.Generation, 3))
	for _, pod := range s.View().Pods("second") {
		for _, field := range pod.ManagedFields {
			if strings.HasPrefix(field.Manager, "everynode") {
				t.Errorf("pod %s was written by %s", pod.Name, field.Manager)
			}
		}
	}
	wantOutput(t, s.Kubectl("get", "events", "--namespace=everynode-system"), "ConflictingController")

	said = len(hands[harness.Everynode].Log())
	hands[harness.Native].Kill(t)
	waitLog(s, hands[harness.Everynode], said, aloneAgain)
	written = s.Update("second", harness.WithImage(harness.Image3))
	s.Wait("the manager goes on", harness.RolledOut("second", written.Generation, 3), runsImage("second", harness.Image3))
}

// waitLog waits until a controller has printed a text after what it had said before.
func waitLog(s *harness.Space, hand harness.Hand, said int, text string) {
	s.Poll("the log of "+string(hand.Controller)+" says: "+text, func() error {
		if !strings.Contains(hand.Log()[said:], text) {
			return fmt.Errorf("it has not")
		}
		return nil
	})
}
