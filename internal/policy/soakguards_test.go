// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
	"everynode.dev/everynode/internal/rollout"
)

// TestAStatusWithoutWaitingSince: an older definition may have dropped the field, or a user has edited it.
func TestAStatusWithoutWaitingSince(t *testing.T) {
	w := canaryOf(t, "after: [{type: Approval, remindAfter: 1h}]")
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.last.Waves[0].WaitingSince = nil
	w.lead()
	w.join("k", w.s.Now, 0)
	w.node("k").Pods = nil
	w.pass(time.Second)
}

// TestNodesGoneAfterARestartedSoak: a soak that has started again after the approval has not ended, also while a node joins: if all nodes of the wave are gone then, nothing goes on.
func TestNodesGoneAfterARestartedSoak(t *testing.T) {
	for _, grows := range []bool{false, true} {
		w := newWorld(t, "waves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}, count: 3}, soak: 10m, after: [{type: Approval}]}]")
		for _, name := range []string{"a", "b", "k"} {
			w.labels[name] = map[string]string{"canary": "true"}
		}
		w.pass(0)
		w.roll()
		w.pass(time.Second)
		w.pass(11 * time.Minute)
		w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
		if grows {
			w.join("k", w.s.Now, 0)
			w.node("k").Pods = nil
		}
		w.approve("yes", "canary", "v2", v1alpha1.Approve)
		if !grows {
			w.approvals = nil
		}
		w.pass(time.Second)
		w.pass(time.Second)
		w.outage("a", false) // a pod of the canary blinks: the soak starts again
		if !grows {
			w.approve("yes", "canary", "v2", v1alpha1.Approve)
			w.pass(time.Second)
			w.pass(time.Second)
		}
		w.s.Nodes = slices.DeleteFunc(w.s.Nodes, func(n rollout.Node) bool { return n.Name == "a" || n.Name == "b" || n.Name == "k" })
		w.pass(time.Second)
		if got := w.roll(); got != "" {
			t.Errorf("grows %t: rolls %s: %s %+v", grows, got, w.last.Phase, w.last.Waves[0])
		}
	}
}

// TestNodesGoneAfterAFailedAnalysis: the same with an analysis that fails.
func TestNodesGoneAfterAFailedAnalysis(t *testing.T) {
	w := newWorld(t, "analyses: [{name: errors, provider: main, query: q, success: 'result < 1', interval: 1m, failureLimit: 5}]\nwaves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}, count: 3}, soak: 10m, analysis: [errors], after: [{type: Approval}]}]")
	for _, name := range []string{"a", "b", "k"} {
		w.labels[name] = map[string]string{"canary": "true"}
	}
	answer := func(a v1alpha1.Answer) {
		for _, q := range w.out.Questions {
			w.answers = append(w.answers, policy.Answer{Question: q, Measurement: v1alpha1.Measurement{At: metav1.Time{Time: policy.Moment(w.s.Now).Time}, Answer: a}})
		}
	}
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	answer(v1alpha1.AnswerPass)
	w.pass(time.Second)
	for range 11 {
		answer(v1alpha1.AnswerPass)
		w.pass(time.Minute)
	}
	w.want("", v1alpha1.PhaseWaitingForApproval, "canary")
	w.join("k", w.s.Now, 0)
	w.node("k").Pods = nil
	w.pass(time.Second)
	w.approve("yes", "canary", "v2", v1alpha1.Approve)
	w.pass(time.Second)
	answer(v1alpha1.AnswerFail)
	w.pass(time.Minute)
	w.pass(time.Minute)
	answer(v1alpha1.AnswerFail)
	w.pass(time.Minute)
	w.s.Nodes = slices.DeleteFunc(w.s.Nodes, func(n rollout.Node) bool { return n.Name == "a" || n.Name == "b" || n.Name == "k" })
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("rolls %s: %s %+v", got, w.last.Phase, w.last.Waves[0])
	}
}

// TestTimeInWhichAPolicyIsNotFollowed: the time from a decision that follows no policy to the next one is no soak.
func TestTimeInWhichAPolicyIsNotFollowed(t *testing.T) {
	for name, stop := range map[string]func(w *world) func(){
		"invalid": func(w *world) func() {
			was := w.policies
			w.policies = []*policy.Policy{read(w.t, longSoak+"windows: [{schedule: 'nonsense', duration: 1h}]")}
			return func() { w.policies = was }
		},
		"rejected": func(w *world) func() {
			w.approve("no", "", "v2", v1alpha1.Reject)
			return func() { w.approvals = nil }
		},
	} {
		w := inSoak(t, longSoak)
		goOn := stop(w)
		w.pass(time.Second)
		goOn()
		w.pass(time.Hour)
		if got := w.roll(); got != "" {
			t.Errorf("%s: rolls %s: %+v", name, got, w.last.Waves[0])
		}
	}
}

// TestAnalysisWhileARevisionIsRejected: nothing is measured then, so the time does not count.
func TestAnalysisWhileARevisionIsRejected(t *testing.T) {
	w := newWorld(t, "analyses: [{name: errors, provider: main, query: q, success: 'result < 1', interval: 1m}]\nwaves: [{name: canary, nodes: {count: 3}, soak: 10m, analysis: [errors]}]")
	w.pass(0)
	w.roll()
	w.pass(time.Second)
	for _, q := range w.out.Questions {
		w.answers = append(w.answers, policy.Answer{Question: q, Measurement: v1alpha1.Measurement{At: metav1.Time{Time: policy.Moment(w.s.Now).Time}, Answer: v1alpha1.AnswerPass}})
	}
	w.pass(time.Second)
	w.approve("no", "", "v2", v1alpha1.Reject)
	w.pass(time.Second)
	w.approvals = nil
	w.pass(time.Hour)
	if got := w.roll(); got != "" {
		t.Errorf("rolls %s, and nothing was measured: %+v", got, w.last.Waves[0])
	}
}

// TestRejectedWhileANodeJoins: the time in which a node had no pod is no soak, although a decision in between followed no wave.
func TestRejectedWhileANodeJoins(t *testing.T) {
	w := canaryOf(t, "soak: 10m")
	w.join("k", w.s.Now, 0)
	w.node("k").Pods = nil
	w.pass(time.Second)
	w.approve("no", "", "v2", v1alpha1.Reject)
	w.pass(time.Second)
	w.approvals = nil
	w.pass(time.Hour) // k has no pod all the time
	w.put("k", 1, true)
	w.pass(time.Second)
	if got := w.roll(); got != "" {
		t.Errorf("rolls %s: %+v", got, w.last.Waves[0])
	}
}

// TestOrderOfNodesThatJoinByALabel: order and growth hold for nodes that joined the cluster during the soak, got an old pod, and come into the wave by a label.
func TestOrderOfNodesThatJoinByALabel(t *testing.T) {
	for name, more := range map[string]string{"order": "order: {topologyKey: zone, domains: OneAtATime}", "growth": ""} {
		growth := ""
		if name == "growth" {
			growth = ", growth: {start: 1, factor: 2}"
		}
		for _, joined := range []bool{false, true} {
			w := newWorld(t, "joiningNodes: Stable\nwaves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}, soak: 10m"+growth+"}]\n"+more)
			for _, n := range w.s.Nodes {
				w.labels[n.Name] = map[string]string{"zone": "z"}
			}
			w.labels["a"] = map[string]string{"canary": "true", "zone": "z"}
			for range 3 {
				w.pass(time.Second)
				w.roll()
			}
			w.pass(time.Second)
			w.want("", v1alpha1.PhaseSoaking, "canary")
			at := noon.Add(-time.Hour)
			if joined {
				at = w.s.Now
			}
			for _, n := range []string{"k", "l", "m"} {
				w.labels[n] = map[string]string{"zone": "zone-" + n}
				w.join(n, at, 0)
			}
			w.pass(time.Minute)
			if got := w.roll(); got != "" {
				t.Fatal(got)
			}
			for _, n := range []string{"k", "l", "m"} {
				w.labels[n]["canary"] = "true"
			}
			w.pass(time.Second)
			if got, most := w.roll(), map[string]int{"order": 1, "growth": 2}[name]; len(got) > most {
				t.Errorf("%s joined %t: rolls %s, want %d nodes", name, joined, got, most)
			}
		}
	}
}

// TestWaveDeadlineOfANodeThatJoinsByALabel: the deadline holds for such a node.
func TestWaveDeadlineOfANodeThatJoinsByALabel(t *testing.T) {
	for _, joined := range []bool{false, true} {
		w := newWorld(t, "failure: {waveDeadline: 1h, action: Pause}\nwaves: [{name: canary, nodes: {selector: {matchLabels: {canary: 'true'}}}, soak: 10m}]")
		w.labels["a"] = map[string]string{"canary": "true"}
		for i := range w.s.Nodes {
			w.s.Nodes[i].Pods[0].Hook = rollout.HookArmed
		}
		w.node("a").Pods[0].Hook = rollout.HookNone
		w.pass(0)
		w.roll()
		w.pass(time.Second)
		w.pass(time.Second)
		at := noon.Add(-time.Hour)
		if joined {
			at = w.s.Now
		}
		w.join("k", at, 0)
		w.pass(time.Second)
		w.labels["k"] = map[string]string{"canary": "true"}
		w.node("k").Pods[0].Hook = rollout.HookWaiting // never ends
		for range 10 {
			w.pass(30 * time.Minute)
		}
		if w.last.Failure == nil {
			t.Errorf("joined %t: after 5 hours: %s, %+v", joined, w.last.Phase, w.last.Waves[0])
		}
	}
}

// TestPaceOfNodesThatReturn: after a crash, a node without a pod may just have begun to return to the revision that the template describes again.
func TestPaceOfNodesThatReturn(t *testing.T) {
	w := newWorld(t, "pace: {minTimeBetween: 10s}")
	for i := range w.s.Nodes {
		n := &w.s.Nodes[i]
		n.Joined, n.Pods[0].Created, n.Pods[0].ReadySince = noon.Add(-time.Hour), noon.Add(-time.Hour), noon.Add(-time.Hour)
	}
	for _, n := range []string{"a", "b", "c"} {
		w.pass(20 * time.Second)
		w.put(n, 1, true)
		w.last.LastStart = policy.Moment(w.s.Now)
	}
	w.s.Set.Update = 0 // the template is changed back
	w.pass(20 * time.Second)
	if got := w.plan().Actions; len(got) != 1 {
		t.Fatalf("%+v, %s", got, w.last.Phase)
	}
	w.node("a").Pods = nil // deleted, and gone at once; the manager crashes before it has recorded that
	w.lead()
	w.pass(time.Second)
	for _, a := range w.plan().Actions {
		if a.Node != 0 {
			t.Errorf("a second after the start on a: %+v (%s) %s", a, w.s.Nodes[a.Node].Name, w.last.Phase)
		}
	}
}

// TestDeletedPodOfANodeThatJoined: a new leader does not take it for a node without a first pod.
func TestDeletedPodOfANodeThatJoined(t *testing.T) {
	for _, what := range []string{"deleting", "gone"} {
		w := canaryOf(t, "soak: 10m")
		w.joinsWith("k", true)
		w.pass(8 * time.Minute)
		if what == "deleting" {
			w.node("k").Pods[0].Deleting, w.node("k").Pods[0].DeletedAt = true, w.s.Now
		} else {
			w.node("k").Pods = nil
		}
		w.lead()
		w.pass(time.Second)
		w.put("k", 1, true)
		w.node("k").Pods[0].UID = "other"
		w.pass(time.Second)
		w.pass(3 * time.Minute)
		if got := w.roll(); got != "" {
			t.Errorf("%s: rolls %s 3 minutes after an outage: %+v", what, got, w.last.Waves)
		}
	}
}

// TestFirstPodBeforeANewLeader: a pod that has been ready since its node joined does not start the soak again when the leader changes.
func TestFirstPodBeforeANewLeader(t *testing.T) {
	w := canaryOf(t, "soak: 10m")
	w.pass(2 * time.Minute)
	w.joinsWith("k", true)
	w.pass(5 * time.Minute)
	w.lead()
	w.pass(time.Second)
	if w.last.Waves[0].SoakRestarts != 0 || strings.Contains(w.last.Blocking[0].Message, "again") {
		t.Errorf("%+v %v", w.last.Blocking, w.messages)
	}
}

// TestOneOutageWhileANodeJoins: it starts the soak again once, because of the node that it was on.
func TestOneOutageWhileANodeJoins(t *testing.T) {
	w := canaryOf(t, "soak: 10m")
	w.pass(time.Minute)
	w.join("k", w.s.Now, 0)
	w.node("k").Pods = nil
	w.pass(time.Second)
	w.outage("a", false)
	w.pass(time.Second)
	w.put("k", 1, true)
	w.pass(time.Second)
	if st := w.last.Waves[0]; st.SoakRestarts != 1 || st.SoakRestartedBy != "a" {
		t.Errorf("%d, %s, %v", st.SoakRestarts, st.SoakRestartedBy, w.last.Blocking)
	}
}

// TestPromoteWhileANodeJoins: the wave passes when it does not wait for that node any more.
func TestPromoteWhileANodeJoins(t *testing.T) {
	w := canaryOf(t, "soak: 10m")
	w.join("k", w.s.Now, 0)
	w.node("k").Pods = nil
	w.pass(time.Second)
	w.approve("go", "canary", "v2", v1alpha1.Promote)
	w.pass(time.Second)
	w.pass(time.Second)
	w.s.Nodes = slices.DeleteFunc(w.s.Nodes, func(n rollout.Node) bool { return n.Name == "k" })
	w.pass(time.Second)
	if got := w.roll(); got != "cdefghij" {
		t.Errorf("%q %s", got, w.last.Phase)
	}
}

// TestOutageWhileTheTemplateIsUnseen: next to another controller it is not known for a moment which revision a template is, whatever field of the set was edited. An outage before
// that is not forgotten.
func TestOutageWhileTheTemplateIsUnseen(t *testing.T) {
	w := inSoak(t, longSoak)
	w.s.Set.ExternalController = true
	w.pass(9 * time.Minute)
	w.blinks("b")
	last := w.last // the loop keeps it
	w.s.Set.Update = -1
	w.pass(time.Second)
	w.last, w.s.Set.Update = last, 1
	w.pass(time.Second)
	w.pass(2 * time.Minute)
	if got := w.roll(); got != "" {
		t.Errorf("rolls %s 2 minutes after an outage of a canary that soaks for 10 minutes: %+v", got, w.last.Waves[0])
	}
}
