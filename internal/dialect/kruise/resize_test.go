// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

const sized = `
metadata: {labels: {app: x}}
spec:
  initContainers: [{name: i, image: i:1}]
  containers:
  - {name: a, image: a:1, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1", example.com/gpu: "1"}}}
  - {name: b, image: b:1}`

func TestInPlaceWithResize(t *testing.T) {
	const resources, sidecar = "spec.containers.0.resources.", "spec.initContainers.0.resources."
	meshed := `{spec: {initContainers: [{name: m, image: m:1, restartPolicy: Always, resources: {requests: {memory: 1Gi}, limits: {cpu: "1"}}}], containers: [{name: a, image: a:1}]}}`
	guaranteed := `{spec: {containers: [{name: a, image: a:1, resources: {limits: {cpu: "1", memory: 1Gi}}}]}}`
	read := `
metadata: {labels: {tier: one}}
spec: {containers: [{name: a, image: a:1, resources: {limits: {cpu: "1"}}, env: [{name: E, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}]}`
	env := func(of string) []any {
		return []any{map[string]any{"name": "E", "valueFrom": map[string]any{"resourceFieldRef": map[string]any{"containerName": of, "resource": "limits.cpu"}}}}
	}
	reads := func(of string) string {
		return `{spec: {containers: [{name: a, image: a:1, resources: {limits: {cpu: "1"}},
			env: [{name: E, valueFrom: {resourceFieldRef: {containerName: "` + of + `", resource: limits.cpu}}}]}, {name: b, image: b:1}]}}`
	}
	able, resize := rollout.Change{InPlace: true}, rollout.Change{InPlace: true, Resize: true}
	never := rollout.Change{Why: rollout.DetailResize}
	for _, c := range []struct {
		name, from string
		change     func(template map[string]any)
		want       rollout.Change
	}{
		{"nothing", sized, func(map[string]any) {}, able},
		{"an image", sized, set("spec.containers.0.image", "a:2"), able},
		{"the same amount in other words", sized, set(resources+"limits.cpu", "1000m"), able},
		{"a limit", sized, set(resources+"limits.cpu", "2"), resize},
		{"a limit and an image", sized, both(set(resources+"limits.cpu", "2"), set("spec.containers.1.image", "b:2")), resize},
		{"a limit and a label", sized, both(set(resources+"limits.cpu", "2"), set("metadata.labels.app", "y")), resize},
		{"less memory", sized, set(resources+"requests.memory", "32Mi"), resize},
		{"a limit more", sized, set(resources+"limits.memory", "128Mi"), resize},
		{"resources where there were none", sized, set("spec.containers.1.resources", map[string]any{"requests": map[string]any{"cpu": "10m"}}), resize},
		{"the class stays guaranteed", guaranteed, set(resources+"limits.cpu", "2"), resize},

		{"a limit less", sized, drop(resources + "limits.cpu"), never},
		{"no requests any more", sized, drop(resources + "requests"), never},
		{"another resource", sized, set(resources+"limits", map[string]any{"cpu": "1", "example.com/gpu": "2"}), never},
		{"the class would be another", guaranteed, set(resources+"requests", map[string]any{"cpu": "500m"}), never},
		{"resources of the pod", guaranteed, both(set("spec.resources", map[string]any{"limits": map[string]any{"cpu": "2"}}), set(resources+"limits.cpu", "2")), rollout.Change{Why: rollout.DetailTemplate}},
		{"an init container", sized, set("spec.initContainers.0.resources", map[string]any{"limits": map[string]any{"cpu": "1"}}), rollout.Change{Why: rollout.DetailTemplate}},
		{"a sidecar", meshed, set(sidecar+"limits.cpu", "2"), resize},
		{"resources of a sidecar where there were none", sized, func(template map[string]any) {
			set("spec.initContainers.0.restartPolicy", "Always")(template)
		}, rollout.Change{Why: rollout.DetailTemplate}},
		{"a limit of a sidecar less", meshed, drop(sidecar + "limits.cpu"), never},
		{"an argument", sized, both(set(resources+"limits.cpu", "2"), set("spec.containers.0.args", []any{"-v"})), rollout.Change{Why: rollout.DetailTemplate}},
		{"an amount that is read", sized, both(set(resources+"limits.cpu", "2"), set("spec.containers.1.env", env("a"))), rollout.Change{Why: rollout.DetailTemplate}},
		{"an amount that was read before", reads("a"), set(resources+"limits.cpu", "2"), rollout.Change{Why: rollout.DetailFieldRef}},
		{"an amount that the container itself reads", reads(""), set(resources+"limits.cpu", "2"), rollout.Change{Why: rollout.DetailFieldRef}},
		{"an amount of another container is read", reads("b"), set(resources+"limits.cpu", "2"), resize},
		{"a label that is read", read, both(set(resources+"limits.cpu", "2"), set("metadata.labels.tier", "two")), rollout.Change{InPlace: true, Resize: true, Restart: true, Agent: true}},
	} {
		from, to := decode(t, c.from), decode(t, c.from)
		c.change(to)
		if got := kruise.InPlaceWithResize(from, to); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// resizedPod has the container a with these requests, in its spec and as its node gives them.
func resizedPod(want, have corev1.ResourceList) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = want
		p.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: have}
	}
}

func resizing(kind corev1.PodConditionType, reason string, generation int64) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, ObservedGeneration: generation})
	}
}

func TestPhaseOfAResize(t *testing.T) {
	state := annotated(api.InPlaceUpdateState, `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z","updateResources":true}`)
	old, wanted := quantities("100m", "64Mi"), quantities("200m", "64Mi")
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		want  rollout.InPlace
		stuck rollout.Detail
	}{
		{"not given yet", pod(marked(0), state, resizedPod(wanted, old)), rollout.InPlacePatched, 0},
		{"given", pod(marked(0), state, resizedPod(wanted, wanted)), rollout.InPlaceArrived, 0},
		{"given, but the node has not seen all", pod(marked(0), state, resizedPod(wanted, wanted), func(p *corev1.Pod) { p.Status.ObservedGeneration = 1 }), rollout.InPlacePatched, 0},
		{"in progress", pod(marked(0), state, resizedPod(wanted, wanted), resizing(corev1.PodResizeInProgress, "", 0)), rollout.InPlacePatched, 0},
		{"put off", pod(marked(0), state, resizedPod(wanted, old), resizing(corev1.PodResizePending, corev1.PodReasonDeferred, 0)), rollout.InPlacePatched, 0},
		{"never", pod(marked(0), state, resizedPod(wanted, old), resizing(corev1.PodResizePending, corev1.PodReasonInfeasible, 2)), rollout.InPlacePatched, rollout.DetailInfeasible},
		{"never, said of an older change", pod(marked(0), state, resizedPod(wanted, old), resizing(corev1.PodResizePending, corev1.PodReasonInfeasible, 1)), rollout.InPlacePatched, 0},
		{"never, but nobody changed it in place", pod(resizedPod(wanted, old), resizing(corev1.PodResizePending, corev1.PodReasonInfeasible, 2)), rollout.InPlaceNone, 0},
		{"resources do not matter to a change of an image", pod(marked(0), patched(`{}`), resizedPod(wanted, old)), rollout.InPlaceArrived, 0},
	} {
		if f := kruise.Facts(c.pod); f.InPlace != c.want || f.Stuck != c.stuck {
			t.Errorf("%s: %s %q, want %s %q", c.name, f.InPlace, f.Stuck, c.want, c.stuck)
		}
	}
}

func TestPatchOfResources(t *testing.T) {
	from, to := decode(t, sized), decode(t, sized)
	set("spec.containers.0.resources.limits.cpu", "2")(to)
	set("spec.containers.0.image", "a:2")(to)
	p := pod(marked(0), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: quantities("100m", "64Mi"), Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}
	})
	edits := kruise.Edits{}.Patch(p, dialect.Change{From: from, To: to, Hash: "new"}, after(1))
	if len(edits) != 2 || edits[0].Of != dialect.Resize || edits[1].Of != dialect.Whole {
		t.Fatalf("edits %v: the resources have to come first, and the label of the revision last", edits)
	}
	var body struct {
		Spec struct{ Containers []corev1.Container }
	}
	if err := json.Unmarshal(edits[0].Patch, &body); err != nil || len(body.Spec.Containers) != 1 {
		t.Fatalf("%s: %v", edits[0].Patch, err)
	}
	if r := body.Spec.Containers[0].Resources; r.Limits.Cpu().String() != "2" || r.Requests.Memory().String() != "64Mi" || len(r.Limits) != 1 {
		t.Errorf("resources %+v", r)
	}
	half := apply(t, p, edits[:1])
	if again := (kruise.Edits{}).Patch(half, dialect.Change{From: from, To: to, Hash: "new"}, after(2)); len(again) != 1 || again[0].Of != dialect.Whole {
		t.Errorf("edits after a crash between the two: %v", again)
	} else if s := stateOf(t, apply(t, half, again)); !s.UpdateResources || !s.UpdateImages {
		t.Errorf("state %+v: the resources have to be waited for", s)
	}
}

// TestAResizeThatIsSupersededIsWaitedFor changes an image while a change of resources is under way.
func TestAResizeThatIsSupersededIsWaitedFor(t *testing.T) {
	state := annotated(api.InPlaceUpdateState, `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z","updateResources":true}`)
	p := pod(marked(0), state, resizedPod(quantities("200m", "64Mi"), quantities("100m", "64Mi")))
	p = apply(t, p, kruise.Edits{}.Patch(p, images(t, "a:1", "a:2", "newer"), after(9)))
	p = remake(p, "c-2")
	inPlace(t, p, rollout.InPlacePatched)
	p.Status.ContainerStatuses[0].Resources.Requests = quantities("200m", "64Mi")
	inPlace(t, p, rollout.InPlaceArrived)
}

// TestWhyAResizeIsNotMade is what the node says of it, while the change is under way, and without amounts that change with other pods.
func TestWhyAResizeIsNotMade(t *testing.T) {
	open := func(resources string) func(p *corev1.Pod) {
		return annotated(api.InPlaceUpdateState, `{"revision":"new","updateTimestamp":"2026-01-01T12:00:05Z","gateOpen":true,"updateResources":`+resources+`}`)
	}
	old, wanted := quantities("100m", "64Mi"), quantities("200m", "64Mi")
	says := func(kind corev1.PodConditionType, reason string, generation int64) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			resizing(kind, reason, generation)(p)
			p.Status.Conditions[len(p.Status.Conditions)-1].Message = "Node didn't have enough resource: cpu, requested: 200, used: 3900, capacity: 4000"
		}
	}
	const text = ": Node didn't have enough resource: cpu"
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"put off":                   {pod(gateless, open("true"), resizedPod(wanted, old), says(corev1.PodResizePending, corev1.PodReasonDeferred, 2)), "the node has not changed the resources: Deferred" + text},
		"an error":                  {pod(gateless, open("true"), resizedPod(wanted, old), says(corev1.PodResizeInProgress, corev1.PodReasonError, 0)), "the node has not changed the resources: Error" + text},
		"in progress":               {pod(gateless, open("true"), resizedPod(wanted, old), says(corev1.PodResizeInProgress, "", 0)), ""},
		"of an earlier change":      {pod(gateless, open("true"), resizedPod(wanted, old), says(corev1.PodResizePending, corev1.PodReasonDeferred, 1)), ""},
		"a resize of another party": {pod(gateless, open("false"), resizedPod(wanted, old), says(corev1.PodResizePending, corev1.PodReasonDeferred, 2)), ""},
	} {
		if got := kruise.Facts(c.pod).Trouble; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestASidecarIsResized in the list of init containers, and the change has arrived when the node gives the sidecar its resources.
func TestASidecarIsResized(t *testing.T) {
	from := decode(t, `{spec: {initContainers: [{name: m, image: m:1, restartPolicy: Always, resources: {requests: {cpu: 100m}}}], containers: [{name: a, image: a:1}]}}`)
	to := decode(t, `{spec: {initContainers: [{name: m, image: m:1, restartPolicy: Always, resources: {requests: {cpu: 200m}}}], containers: [{name: a, image: a:1}]}}`)
	cpu := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
	}
	always, has := corev1.ContainerRestartPolicyAlways, cpu("100m")
	p := pod(gateless, func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "m", Image: "m:1", RestartPolicy: &always, Resources: cpu("100m")}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "m", ContainerID: "m-1", Resources: &has, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	edits := kruise.Edits{}.Patch(p, dialect.Change{From: from, To: to, Hash: "new"}, after(1))
	if len(edits) != 2 || edits[0].Of != dialect.Resize {
		t.Fatalf("%d edits", len(edits))
	}
	p = apply(t, p, edits)
	if got := p.Spec.InitContainers[0].Resources.Requests.Cpu().String(); got != "200m" {
		t.Errorf("the sidecar has %s", got)
	}
	open(t, p, rollout.InPlacePatched)
	has = cpu("200m")
	open(t, p, rollout.InPlaceNone)
}
