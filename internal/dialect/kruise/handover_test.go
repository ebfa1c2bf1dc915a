// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// What OpenKruise's manager does with a pod that it finds, as of July 2026: it opens the gate when what its state names has arrived, and waits before.
// It never looks at fields that it does not know.
const (
	awaits = "waits"
	opens  = "opens the gate"
	leaves = "leaves the pod as it is"
)

// byOpenKruise is what OpenKruise's manager does with a pod that another manager has changed, and the pod after that. It is written from the description of its
// behaviour in docs/differences-from-openkruise.md.
func byOpenKruise(t *testing.T, p *corev1.Pod) (string, *corev1.Pod) {
	t.Helper()
	var state struct {
		LastContainerStatuses map[string]struct{ ImageID string }
		NextContainerImages   map[string]string
	}
	if text, changed := p.Annotations[api.InPlaceUpdateState]; changed && json.Unmarshal([]byte(text), &state) != nil {
		t.Fatalf("OpenKruise cannot read %s", text)
	}
	for name, before := range state.LastContainerStatuses {
		arrived := false
		for i := range p.Status.ContainerStatuses {
			now := &p.Status.ContainerStatuses[i]
			arrived = arrived || now.Name == name && (now.ImageID != before.ImageID || now.Image == p.Spec.Containers[i].Image)
		}
		if !arrived {
			return awaits, p
		}
	}
	for _, g := range p.Spec.ReadinessGates {
		if g.ConditionType == api.InPlaceUpdateReady && conditionOf(p, api.InPlaceUpdateReady).Status != corev1.ConditionTrue {
			return opens, with(p, func(p *corev1.Pod) { gate(api.InPlaceUpdateReady, corev1.ConditionTrue, 0)(p) })
		}
	}
	return leaves, p
}

// agentWouldStop is whether the agent of the node still has to stop the container of a pod: the request names it by its ID.
func agentWouldStop(t *testing.T, p *corev1.Pod) bool {
	t.Helper()
	if _, changed := p.Annotations[api.InPlaceUpdateState]; !changed {
		return false
	}
	return stateOf(t, p).Restarts["a"] == p.Status.ContainerStatuses[0].ContainerID
}

// TestOpenKruiseTakesOverARestart in the middle: whether the agent has stopped the container or not, it does so once, no gate stays closed, and when the set comes back nothing
// is requested again.
func TestOpenKruiseTakesOverARestart(t *testing.T) {
	e := kruise.Edits{}
	asked := restart(t, "a:1", "a:1", later, "new")
	byGate := pod()
	byGate = apply(t, byGate, e.Patch(byGate, closing(asked), after(1)))
	byDefault := pod(gateless)
	byDefault = apply(t, byDefault, e.Patch(byDefault, asked, after(1)))
	openGate := pod()
	openGate = apply(t, openGate, e.Patch(openGate, asked, after(1)))
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
		// back is how far the change is for Everynode when the set comes back before the agent has acted.
		back rollout.InPlace
	}{
		"the gate is closed":  {byGate, opens, rollout.InPlaceNone},
		"there is no gate":    {byDefault, leaves, rollout.InPlacePatched},
		"the gate stays open": {openGate, leaves, rollout.InPlacePatched},
	} {
		does, taken := byOpenKruise(t, c.pod)
		if does != c.want || !agentWouldStop(t, taken) {
			t.Errorf("%s: OpenKruise %s, want %s; the agent still acts: %t", name, does, c.want, agentWouldStop(t, taken))
		}
		inPlace(t, taken, c.back)
		restarted := started(taken, "c-2", after(5))
		if does, restarted = byOpenKruise(t, restarted); does != leaves || agentWouldStop(t, restarted) {
			t.Errorf("%s: after the restart OpenKruise %s, the agent acts again: %t", name, does, agentWouldStop(t, restarted))
		}
		inPlace(t, restarted, rollout.InPlaceNone)
		again := apply(t, restarted, e.Patch(restarted, closing(images(t, "a:1", "a:1", "newer")), after(9)))
		if agentWouldStop(t, again) {
			t.Errorf("%s: back with Everynode, the next change requests the restart again: %+v", name, stateOf(t, again))
		}
	}
}

// TestOpenKruiseTakesOverAnImage in the middle: it opens the gate when the node runs the image, also one of the same digest, and never closes one that was left open.
func TestOpenKruiseTakesOverAnImage(t *testing.T) {
	e := kruise.Edits{}
	closed := pod()
	closed = apply(t, closed, e.Patch(closed, closing(images(t, "a:1", "a:2", "new")), after(1)))
	stays := pod(gateless)
	stays = apply(t, stays, e.Patch(stays, images(t, "a:1", "a:2", "new"), after(1)))
	sidecar := pod(withInit, marked(0), patched("null"), func(p *corev1.Pod) {
		p.Annotations[api.InPlaceUpdateState] = `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z","lastSidecarStatuses":{"mesh":{"imageID":"sha-1"}}}`
	})
	runs := func(p *corev1.Pod, image, id string) *corev1.Pod {
		return with(p, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Image, p.Status.ContainerStatuses[0].ImageID, p.Status.ContainerStatuses[0].ContainerID = image, id, "c-2"
		})
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"before it arrives":                   {closed, awaits},
		"when it has arrived":                 {runs(closed, "a:2", "sha-2"), opens},
		"another tag of the same digest":      {runs(closed, "a:2", "sha-1"), opens},
		"without a gate, before it arrives":   {stays, awaits},
		"without a gate, when it has arrived": {runs(stays, "a:2", "sha-2"), leaves},
		"a sidecar, which it does not know":   {sidecar, opens},
		"waiting for the image: an old pod":   {pod(), leaves},
	} {
		if does, _ := byOpenKruise(t, c.pod); does != c.want {
			t.Errorf("%s: OpenKruise %s, want %s", name, does, c.want)
		}
	}
}

// TestARestartThatOpenKruiseBegan: when its manager stops in the middle of a change of environment variables, its daemon on the node finishes that; Everynode opens
// the gate, requests no second restart, and recreates nothing. What a ContainerRecreateRequest keeps out of service stays so, because only its controller knows for how long.
func TestARestartThatOpenKruiseBegan(t *testing.T) {
	env := pod(marked(0), annotated(api.InPlaceUpdateState, `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z","lastContainerStatuses":null,"updateEnvFromMetadata":true}`))
	f := kruise.Facts(env)
	if f.InPlace != rollout.InPlaceArrived || f.Stuck != rollout.NoDetail || f.Recreates != 0 {
		t.Errorf("the change is %v, stuck %v, and restarts %d containers", f.InPlace, f.Stuck, f.Recreates)
	}
	opened := apply(t, env, kruise.Edits{}.Unmark(env, after(9)))
	inPlace(t, opened, rollout.InPlaceNone)
	if agentWouldStop(t, opened) {
		t.Error("a second restart is requested")
	}
	const request = `[{"userAgent":"ContainerRecreateRequest","key":"ns/crr"}]`
	recreated := pod(held(request))
	if f := kruise.Facts(recreated); f.InPlace != rollout.InPlaceNone || kruise.HeldByHook(recreated) {
		t.Errorf("the pod is %v, held by a hook: %t", f.InPlace, kruise.HeldByHook(recreated))
	}
	for _, edit := range (kruise.Edits{}).Unmark(recreated, after(9)) {
		t.Errorf("the entry is written over: %s", edit.Patch)
	}
}
