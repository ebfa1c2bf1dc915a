// SPDX-License-Identifier: Apache-2.0

package nodehold

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/placement"
	"everynode.dev/everynode/internal/rollout"
)

// world is one node, and sets that may ask.
type world struct {
	*testing.T
	*Controller
	node     *corev1.Node
	sets     map[clustercache.Key]*dialect.Workload
	clock    *clocktesting.FakeClock
	err      error // what the API server answers
	writes   int
	mayWrite bool
	known    bool
}

const atMost = 5 * time.Minute

var agent = clustercache.Key{Dialect: "kruise", Namespace: "agents", Name: "agent"}

func newWorld(t *testing.T) *world {
	w := &world{
		T: t, sets: map[clustercache.Key]*dialect.Workload{}, clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), mayWrite: true, known: true,
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "1"},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		},
	}
	w.Controller = New(Options{
		Nodes: w, Sets: w, Dialect: "kruise", Namespaces: []string{"agents"}, Clock: w.clock,
		MayServe: func() bool { return w.mayWrite }, Known: func() bool { return w.known },
	})
	w.ask(agent, atMost, "")
	w.changed()
	return w
}

// ask lets a set ask for that time; with a label, only on nodes that have it.
func (w *world) ask(key clustercache.Key, seconds time.Duration, label string) {
	w.Helper()
	pod := map[string]any{"tolerations": []any{map[string]any{"key": everynode.HoldKey, "operator": "Exists"}}}
	if label != "" {
		pod["nodeSelector"] = map[string]any{label: ""}
	}
	rules, err := placement.Compile(pod)
	if err != nil {
		w.Fatal(err)
	}
	w.sets[key] = &dialect.Workload{ComeBackFirst: seconds, Placement: rules}
}

// Patch implements Nodes.
func (w *world) Patch(_ context.Context, name string, pt types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string) (*corev1.Node, error) {
	if w.err != nil {
		return nil, w.err
	}
	var patch struct {
		Metadata struct{ UID, ResourceVersion string }
		Spec     struct{ Taints []corev1.Taint }
	}
	if err := json.Unmarshal(data, &patch); err != nil || name != "a" || pt != types.MergePatchType || len(sub) > 0 || patch.Metadata.UID != "u" || patch.Metadata.ResourceVersion != "1" {
		w.Errorf("patched node %s with %s (%v)", name, data, err)
	}
	w.writes++
	w.node = w.node.DeepCopy()
	w.node.Spec.Taints = patch.Spec.Taints
	return w.node, nil
}

// Keys implements Sets.
func (w *world) Keys(string) (keys []clustercache.Key) {
	for key := range w.sets {
		keys = append(keys, key)
	}
	return keys
}

// Workload implements Sets.
func (w *world) Workload(key clustercache.Key) *dialect.Workload { return w.sets[key] }

// changed hands the node over.
func (w *world) changed() { w.NodeChanged(w.node, nil) }

// set changes the node.
func (w *world) set(ready corev1.ConditionStatus, cordoned bool) {
	w.node = w.node.DeepCopy()
	w.node.Status.Conditions[0].Status, w.node.Spec.Unschedulable = ready, cordoned
	w.changed()
}

// pods is a decision for a set with a pod on the node.
func (w *world) pods(key clustercache.Key, pods ...rollout.Pod) {
	w.Decided(key, &rollout.Snapshot{Nodes: []rollout.Node{{Name: "a", Pods: pods}}})
}

func (w *world) ready(key clustercache.Key)   { w.pods(key, rollout.Pod{Ready: true}) }
func (w *world) unready(key clustercache.Key) { w.pods(key, rollout.Pod{}) }

// want makes a pass, and fails unless the node then has a hold, or none.
func (w *world) want(when string, want bool) time.Duration {
	w.Helper()
	after, err := w.Reconcile(w.Context(), "a")
	if err != nil {
		w.Errorf("%s: %v", when, err)
	}
	if held(w.node) != want {
		w.Errorf("%s: held is %t", when, !want)
	}
	w.changed()
	return after
}

// TestNodeComesBack: a node that stops is held until it is ready, and the pod on it too.
func TestNodeComesBack(t *testing.T) {
	w := newWorld(t)
	w.ready(agent)
	w.want("all is well", false)
	w.set(corev1.ConditionFalse, false) // the kubelet shuts down
	w.want("the node is not ready", true)
	w.set(corev1.ConditionTrue, false)
	w.unready(agent)
	w.want("the node is ready, the pod is not", true)
	w.pods(agent, rollout.Pod{Ready: true, Deleting: true})
	w.want("the pod that was ready is deleted", true)
	w.pods(agent)
	w.want("there is no pod", true)
	w.ready(agent)
	w.want("the pod is ready", false)
	if w.writes != 2 {
		t.Errorf("%d writes", w.writes)
	}
}

// TestDrainedNode: a cordoned node is held only while its pod is not ready, and then until it is, also after kubectl uncordon.
func TestDrainedNode(t *testing.T) {
	w := newWorld(t)
	w.ready(agent)
	w.set(corev1.ConditionTrue, true)
	w.want("cordoned, and the pod stays", false)
	w.unready(agent)
	w.want("the pod is not ready", true)
	w.set(corev1.ConditionTrue, false)
	w.want("uncordoned", true)
	w.ready(agent)
	w.want("the pod is ready", false)
}

// TestNodeInUse: a node in use is never held, whatever happens to the pod, such as an update or a crash.
func TestNodeInUse(t *testing.T) {
	w := newWorld(t)
	w.unready(agent)
	w.want("the pod crashes", false)
	w.pods(agent)
	w.want("the pod is replaced", false)
}

// TestNewNode: a kubelet may register a node with the hold. It stays until the pod is ready, and goes if no set asks.
func TestNewNode(t *testing.T) {
	registered := func() *world {
		w := newWorld(t)
		w.node.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoExecute}, everynode.HoldTaint(), {Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}
		return w
	}
	w := registered()
	w.node.Spec.Taints = w.node.Spec.Taints[1:] // the set does not tolerate the other one
	w.changed()
	if after := w.want("nothing was decided yet", true); after != soon {
		t.Errorf("the next pass is %v later", after)
	}
	w.pods(agent)
	w.want("the pod is to come", true)
	w.ready(agent)
	w.want("the pod is ready", false)
	if len(w.node.Spec.Taints) != 1 || w.node.Spec.Taints[0].Key != "node.kubernetes.io/not-ready" {
		t.Errorf("taints %v", w.node.Spec.Taints)
	}

	w = registered()
	w.pods(agent)
	w.want("the set does not run on such a node", false)

	w = registered()
	w.pods(agent)
	delete(w.sets, agent)
	w.Forgotten(agent)
	w.want("no set asks", false)
}

// TestTaintsOfCloudProviders: Kubernetes puts these on a node that is new or was shut down, and removes them when it is back. A set runs there then, although its pods do not tolerate them.
func TestTaintsOfCloudProviders(t *testing.T) {
	for _, key := range []string{"node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown"} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t)
			w.node.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}, everynode.HoldTaint()}
			w.pods(agent)
			w.set(corev1.ConditionFalse, false)
			w.want("it is not ready", true)
			w.set(corev1.ConditionTrue, false)
			w.want("the cloud provider has not removed its taint yet", true)
			w.ready(agent)
			w.want("the pod is ready", false)
		})
	}
}

// TestSeveralSets: the hold stays until the last one that should run on the node is ready. Sets that may not ask, and sets of other nodes, have no say.
func TestSeveralSets(t *testing.T) {
	second, elsewhere, stranger := agent, agent, agent
	second.Name, elsewhere.Name, stranger.Namespace = "second", "elsewhere", "strangers"
	w := newWorld(t)
	w.ask(second, time.Minute, "")
	w.ask(elsewhere, time.Hour, "other")
	w.ask(stranger, time.Hour, "")
	w.unready(agent)
	w.unready(second)
	w.pods(elsewhere)
	w.unready(stranger)
	w.set(corev1.ConditionFalse, false)
	w.want("not ready", true)
	w.set(corev1.ConditionTrue, false)
	for range 20 { // sets are in no order
		if after := w.want("none is ready", true); after != atMost {
			t.Errorf("it is held for %v", after)
		}
	}
	w.ready(agent)
	if after := w.want("one is ready", true); after != time.Minute {
		t.Errorf("it is held for %v", after)
	}
	w.ready(second)
	w.want("both are", false)
}

// TestTimeLimit: the hold ends when the node has been in use for as long as the set asks for, and does not come back before the node has left again.
func TestTimeLimit(t *testing.T) {
	w := newWorld(t)
	w.unready(agent)
	w.set(corev1.ConditionUnknown, false)
	w.want("the node is not ready", true)
	w.clock.Step(time.Hour)
	w.want("still", true)
	w.set(corev1.ConditionTrue, false)
	for _, c := range []struct {
		after time.Duration
		held  bool
	}{{0, true}, {atMost - time.Second, true}, {time.Second, false}, {time.Hour, false}} {
		w.clock.Step(c.after)
		w.want(c.after.String()+" later", c.held)
	}
	w.set(corev1.ConditionFalse, false)
	w.want("the node is not ready again", true)
	w.set(corev1.ConditionTrue, false)
	if after := w.want("and ready", true); after != atMost {
		t.Errorf("it is held for %v", after)
	}
}

// TestUndecided: nothing is written without the right to, or before all is known.
func TestUndecided(t *testing.T) {
	w := newWorld(t)
	w.set(corev1.ConditionFalse, false)
	if after := w.want("no decision yet", false); after != soon {
		t.Errorf("the next pass is %v later", after)
	}
	w.unready(agent)
	w.known = false
	if after := w.want("sets are not read yet", false); after != soon {
		t.Errorf("the next pass is %v later", after)
	}
	w.known, w.mayWrite = true, false
	w.want("another manager serves the sets", false)
	w.mayWrite = true

	w.err = apierrors.NewForbidden(corev1.Resource("nodes"), "a", errors.New("no right"))
	if _, err := w.Reconcile(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "bind the ClusterRole everynode-manager-come-back-first") {
		t.Errorf("without the right: %v", err)
	}
	w.err = apierrors.NewConflict(corev1.Resource("nodes"), "a", errors.New("changed"))
	if after := w.want("the node has changed", false); after != soon {
		t.Errorf("the next pass is %v later", after)
	}
	w.err = apierrors.NewNotFound(corev1.Resource("nodes"), "a")
	w.want("the node is gone", false)
	w.err = errors.New("down")
	if _, err := w.Reconcile(t.Context(), "a"); err == nil {
		t.Error("no error")
	}
	w.NodeChanged(nil, w.node)
	w.err = nil
	if after, err := w.Reconcile(t.Context(), "a"); after != 0 || err != nil || w.writes > 0 {
		t.Errorf("for a node that is gone: %v, %v, %d writes", after, err, w.writes)
	}
}

// TestASetThatIsNotDecided: a set for which nothing is decided, as because its specification is not valid or its pass fails, holds no node for longer than it asks for.
func TestASetThatIsNotDecided(t *testing.T) {
	second := agent
	second.Name = "second"
	for name, ask := range map[string]time.Duration{"a short time": time.Minute, "a long time": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.unready(agent)
			w.set(corev1.ConditionFalse, false)
			w.want("the node is down", true)
			w.ask(second, ask, "")
			w.set(corev1.ConditionTrue, false)
			w.ready(agent)
			if after := w.want("nothing is decided for the second", true); after != soon {
				t.Errorf("the next pass is %v later", after)
			}
			w.clock.Step(ask - time.Second)
			w.want("its time has not ended", true)
			w.clock.Step(time.Second)
			w.want("its time has ended", false)
			if after := w.want("the node is in use", false); after != 0 {
				t.Errorf("a node in use without a hold is looked at %v later", after)
			}
			w.set(corev1.ConditionFalse, false)
			if after := w.want("it is down again", false); after != soon {
				t.Errorf("the next pass is %v later", after)
			}
		})
	}
}

// TestASetThatIsNotValid: nothing is done for it, so it does not ask.
func TestASetThatIsNotValid(t *testing.T) {
	second := agent
	second.Name = "second"
	w := newWorld(t)
	w.ask(second, time.Hour, "")
	w.sets[second].Problems = []dialect.Problem{{}, {Fatal: true}}
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the node is down", true)
	w.set(corev1.ConditionTrue, false)
	w.ready(agent)
	w.want("the first set is ready", false)
	w.sets[second].Problems = w.sets[second].Problems[:1]
	w.set(corev1.ConditionFalse, false)
	if after := w.want("nothing is decided for the second", false); after != soon {
		t.Errorf("the next pass is %v later", after)
	}
}

// TestASetThatIsNotValidAnyMore: its nodes are released at once, and not when its time has ended, and held again once it is valid.
func TestASetThatIsNotValidAnyMore(t *testing.T) {
	w := newWorld(t)
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the node is down", true)
	w.set(corev1.ConditionTrue, false)
	if after := w.want("the pod is not ready", true); after != atMost {
		t.Errorf("the next pass is %v later", after)
	}
	var asked []string
	w.enqueue = func(name string) { asked = append(asked, name) }
	w.sets[agent].Problems = []dialect.Problem{{Fatal: true}}
	w.Refused(agent)
	if !slices.Equal(asked, []string{"a"}) {
		t.Errorf("there is a pass for the nodes %q", asked)
	}
	w.want("the set is not valid", false)
	w.sets[agent].Problems = nil
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the set is valid again, and the node is down", true)
}

// TestEnd: when no other manager follows, nodes are released although their pods are not ready, and none is held again.
func TestEnd(t *testing.T) {
	w := newWorld(t)
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the node is down", true)
	asked := make(chan string, 1)
	w.enqueue = func(name string) { asked <- name }
	done := make(chan []string)
	go func() { done <- w.End(t.Context()) }()
	if name := <-asked; name != "a" {
		t.Errorf("a pass for node %s", name)
	}
	for !w.clock.HasWaiters() { // it waits for the node
		runtime.Gosched()
	}
	w.enqueue = func(string) {}
	w.want("no manager follows", false)
	w.clock.Step(soon)
	if left := <-done; len(left) > 0 {
		t.Errorf("held: %v", left)
	}
	w.want("it is over", false)
}

// TestEndBeforeTheSetsAreRead: which sets ask does not matter then.
func TestEndBeforeTheSetsAreRead(t *testing.T) {
	w := newWorld(t)
	w.node.Spec.Taints = []corev1.Taint{everynode.HoldTaint()}
	w.known = false
	w.changed()
	if after := w.want("a manager before has held it", true); after != soon {
		t.Errorf("the next pass is %v later", after)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.End(ctx)
	w.want("no manager follows", false)
}

// TestEndIsInterrupted: it reports what is still held.
func TestEndIsInterrupted(t *testing.T) {
	w := newWorld(t)
	w.unready(agent)
	w.set(corev1.ConditionFalse, false)
	w.want("the node is down", true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if left := w.End(ctx); !slices.Equal(left, []string{"a"}) {
		t.Errorf("held: %v", left)
	}
	w.mayWrite = false
	if left := w.End(ctx); !slices.Equal(left, []string{"a"}) {
		t.Errorf("another manager serves the sets, and does not remove the taint; held: %v", left)
	}
}

// TestANodeLeavesTheSet: the pod that was ready there counts no more.
func TestANodeLeavesTheSet(t *testing.T) {
	w := newWorld(t)
	w.ready(agent)
	asked := 0
	w.enqueue = func(string) { asked++ }
	w.Decided(agent, &rollout.Snapshot{})
	if asked != 1 || w.Controller.ready[agent]["a"] {
		t.Errorf("%d passes, ready %v", asked, w.Controller.ready[agent])
	}
}

// TestWhatMattersIsLookedAt: changes that matter lead to a pass, and the heartbeats of a kubelet do not.
func TestWhatMattersIsLookedAt(t *testing.T) {
	w := newWorld(t)
	asked := 0
	w.enqueue = func(name string) {
		if asked++; name != "a" {
			t.Errorf("a pass for node %s", name)
		}
	}
	passes := func(what string, want int) {
		t.Helper()
		if asked != want {
			t.Errorf("%s: %d passes, want %d", what, asked, want)
		}
		asked = 0
	}
	w.NodeChanged(w.node, nil)
	passes("a new node", 1)
	beat := w.node.DeepCopy()
	beat.ResourceVersion = "2"
	w.NodeChanged(beat, w.node)
	passes("a heartbeat", 0)
	w.ready(agent)
	passes("the first decision", 1)
	w.ready(agent)
	passes("the same decision", 0)
	w.unready(agent)
	passes("the pod is not ready", 1)
	w.Forgotten(agent)
	passes("the set is gone", 1)
	w.Forgotten(agent)
	passes("it is still gone", 0)
	w.EnqueueAll()
	passes("everything", 1)
}
