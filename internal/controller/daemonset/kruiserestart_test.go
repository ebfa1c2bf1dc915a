// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/api/everynode"
	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// restart asks for a restart in place of all containers.
func (a *advanced) restart() {
	a.change(func(spec map[string]any) {
		metadata := spec["template"].(map[string]any)["metadata"].(map[string]any)
		metadata["annotations"] = map[string]any{everynode.RestartedAt: a.clock.Now().Format(time.RFC3339)}
	})
}

// asked are the pods of which a container is to be restarted.
func (a *advanced) asked() (all []*corev1.Pod) {
	for _, p := range a.pods {
		var state api.InPlaceState
		if json.Unmarshal([]byte(p.Annotations[api.InPlaceUpdateState]), &state) == nil && state.Restarts["c"] == p.Status.ContainerStatuses[0].ContainerID {
			all = append(all, p)
		}
	}
	return all
}

// agents are the agents of the nodes where one runs: they restart what is asked for.
func (a *advanced) agents(runs func(p *corev1.Pod) bool) {
	for _, p := range a.asked() {
		if !runs(p) {
			continue
		}
		s := &p.Status.ContainerStatuses[0]
		s.ContainerID += "+"
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(a.clock.Now())}
		s.RestartCount++
		p.ResourceVersion = a.next()
		a.seePod(p)
	}
}

// seconds lets some seconds pass, each with a pass and the agents of some nodes.
func (a *advanced) seconds(n int, runs func(p *corev1.Pod) bool) {
	for range n {
		a.deliver()
		a.mustPass()
		a.kubelets()
		a.agents(runs)
		a.clock.Step(time.Second)
	}
}

func (a *advanced) uids() (all []types.UID) {
	for _, p := range a.pods {
		all = append(all, p.UID)
	}
	slices.Sort(all)
	return all
}

func everywhere(*corev1.Pod) bool { return true }

// TestARestartInPlace: each pod is patched once and stays, its container is restarted once, and no more at once than the budget allows.
func TestARestartInPlace(t *testing.T) {
	a := newAdvanced(t, 5, `{updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 2}}}`)
	a.gateOpen()
	a.settle()
	before, most := a.uids(), 0
	a.after = func(string, string) error {
		most = max(most, len(a.asked()))
		return nil
	}
	a.forgetLog()
	a.restart()
	a.seconds(20, everywhere)
	if patches, others := len(a.wrote("patch")), len(a.wrote("patch-status"))+len(a.wrote("delete"))+len(a.wrote("create")); patches != 5 || others != 0 {
		t.Errorf("%d patches and %d other writes, want 5 patches alone", patches, others)
	}
	for _, p := range a.pods {
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 {
			t.Errorf("the container of %s was restarted %d times", p.Name, n)
		}
	}
	if most != 2 || !slices.Equal(before, a.uids()) || a.status("updatedNumberScheduled") != 5 || a.status("numberAvailable") != 5 {
		t.Errorf("at most %d pods at once, want 2; pods %v, then %v; updated %d, available %d", most, before, a.uids(), a.status("updatedNumberScheduled"), a.status("numberAvailable"))
	}
}

// TestALostAnswerRestartsNothingTwice: whether or not the patch took effect, each container is restarted once.
func TestALostAnswerRestartsNothingTwice(t *testing.T) {
	for _, took := range []bool{true, false} {
		a := newAdvanced(t, 3, inPlace)
		a.gateOpen()
		a.settle()
		a.restart()
		a.fail("patch", apierrors.NewTimeoutError("no answer", 1), took)
		a.deliver()
		if err := a.pass(); err == nil {
			t.Fatal("a lost answer has to fail the pass")
		}
		a.before, a.after = nil, nil
		for range 200 {
			a.deliver()
			_ = a.pass()
			a.kubelets()
			a.agents(everywhere)
			a.clock.Step(time.Second)
		}
		for _, p := range a.pods {
			if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 {
				t.Errorf("took effect %t: the container of %s was restarted %d times", took, p.Name, n)
			}
		}
	}
}

// TestARestartWithoutAnAgent: the pod is recreated when its containers had the time to end, and 30 seconds more; until then its slot is used.
func TestARestartWithoutAnAgent(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.gateOpen()
	a.settle()
	a.clock.Step(time.Hour)
	before := a.uids()
	a.restart()
	a.deliver()
	a.mustPass()
	first := a.asked()
	if len(first) != 1 {
		t.Fatalf("%d pods are asked to restart, want one", len(first))
	}
	others := func(p *corev1.Pod) bool { return p.UID != first[0].UID }
	a.seconds(60, others)
	if len(a.asked()) != 1 || len(a.decisions) != 0 || !slices.Equal(before, a.uids()) {
		t.Fatalf("before its time is over: %d pods are asked, decisions %v", len(a.asked()), a.decisions)
	}
	a.seconds(20, others)
	if !slices.Equal(a.decisions, []rollout.Detail{rollout.DetailNotRestarted}) || slices.Contains(a.uids(), first[0].UID) || a.status("updatedNumberScheduled") != 3 {
		t.Errorf("decisions %v, pods %v instead of %v, %d updated", a.decisions, a.uids(), before, a.status("updatedNumberScheduled"))
	}
	kept := 0
	for _, p := range a.pods {
		if slices.Contains(before, p.UID) && p.Status.ContainerStatuses[0].RestartCount == 1 {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("%d pods were restarted in place, want 2", kept)
	}
}

// TestARestartOfAContainerWithAnAddedHook: a webhook has added a preStop hook to the pods, which the agent does not run. They are recreated, which runs it.
func TestARestartOfAContainerWithAnAddedHook(t *testing.T) {
	a := newAdvanced(t, 3, inPlace)
	a.gateOpen()
	a.settle()
	for _, p := range a.pods {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		p.ResourceVersion = a.next()
		a.seePod(p)
	}
	before := a.uids()
	a.restart()
	a.seconds(20, func(*corev1.Pod) bool { return false })
	if slices.ContainsFunc(a.uids(), func(uid types.UID) bool { return slices.Contains(before, uid) }) || a.status("updatedNumberScheduled") != 3 {
		t.Errorf("pods %v, before %v, updated %d", a.uids(), before, a.status("updatedNumberScheduled"))
	}
	for _, detail := range a.decisions {
		if detail != rollout.DetailRestart {
			t.Errorf("decisions %v", a.decisions)
		}
	}
}
