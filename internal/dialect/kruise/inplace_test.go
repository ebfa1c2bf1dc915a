// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"strconv"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

func TestInPlace(t *testing.T) {
	env := func(path string) string {
		return `
metadata: {labels: {app: x, tier: one}, annotations: {note: one}}
spec: {containers: [{name: a, image: a:1, env: [{name: E, valueFrom: {fieldRef: {fieldPath: '` + strings.ReplaceAll(path, "'", "''") + `'}}}]}]}`
	}
	const plain = `
metadata: {labels: {app: x, tier: one}, annotations: {note: one}}
spec:
  initContainers: [{name: i, image: i:1}, {name: m, image: m:1, restartPolicy: Always}]
  containers: [{name: a, image: a:1, resources: {limits: {cpu: "1"}}}, {name: b, image: b:1}]`
	for _, c := range []struct {
		name, from string
		change     func(template map[string]any)
		able       bool
		why        rollout.Detail
	}{
		{"the image of a sidecar", plain, set("spec.initContainers.1.image", "m:2"), true, rollout.NoDetail},
		{"the image of a sidecar and another one", plain, both(set("spec.initContainers.1.image", "m:2"), set("spec.containers.0.image", "a:2")), true, rollout.NoDetail},
		{"the restart policy of a sidecar", plain, drop("spec.initContainers.1.restartPolicy"), false, rollout.DetailTemplate},
		{"resources of a sidecar", plain, set("spec.initContainers.1.resources", map[string]any{"limits": map[string]any{"cpu": "1"}}), false, rollout.DetailTemplate},
		{"nothing", plain, func(map[string]any) {}, true, rollout.NoDetail},
		{"an image", plain, set("spec.containers.0.image", "a:2"), true, rollout.NoDetail},
		{"two images", plain, both(set("spec.containers.0.image", "a:2"), set("spec.containers.1.image", "b:2")), true, rollout.NoDetail},
		{"a label", plain, set("metadata.labels.tier", "two"), true, rollout.NoDetail},
		{"a label removed", plain, drop("metadata.labels.tier"), true, rollout.NoDetail},
		{"all labels and annotations removed", plain, both(drop("metadata.labels"), drop("metadata.annotations")), true, rollout.NoDetail},
		{"an annotation added, and an image", plain, both(set("metadata.annotations.more", "x"), set("spec.containers.1.image", "b:2")), true, rollout.NoDetail},

		{"the profile of AppArmor", plain, set("metadata.annotations", map[string]any{"note": "one", "container.apparmor.security.beta.kubernetes.io/a": "unconfined"}), false, rollout.DetailTemplate},
		{"a finalizer", plain, set("metadata.finalizers", []any{"x/y"}), false, rollout.DetailTemplate},
		{"an argument", plain, set("spec.containers.0.args", []any{"-v"}), false, rollout.DetailTemplate},
		{"an image and an argument", plain, both(set("spec.containers.0.image", "a:2"), set("spec.containers.0.args", []any{"-v"})), false, rollout.DetailTemplate},
		{"a container renamed", plain, set("spec.containers.0.name", "z"), false, rollout.DetailTemplate},
		{"another field of the pod", plain, set("spec.hostNetwork", true), false, rollout.DetailTemplate},
		{"a container added", plain, func(template map[string]any) {
			spec := template["spec"].(map[string]any)
			spec["containers"] = append(spec["containers"].([]any), map[string]any{"name": "c", "image": "c:1"})
		}, false, rollout.DetailTemplate},
		{"resources", plain, set("spec.containers.0.resources.limits.cpu", "2"), false, rollout.DetailResources},
		{"resources and an image", plain, both(set("spec.containers.0.resources.limits.cpu", "2"), set("spec.containers.0.image", "a:2")), false, rollout.DetailResources},
		{"resources of an init container", plain, set("spec.initContainers.0.resources", map[string]any{"limits": map[string]any{"cpu": "1"}}), false, rollout.DetailTemplate},
		{"resources and the image of an init container", plain, both(set("spec.containers.0.resources.limits.cpu", "2"), set("spec.initContainers.0.image", "i:2")), false, rollout.DetailResources},

		{"another label than the one read", env(`metadata.labels["app"]`), set("metadata.labels.tier", "two"), true, rollout.NoDetail},
		{"a label named as the annotation that is read", env(`metadata.annotations["tier"]`), set("metadata.labels.tier", "two"), true, rollout.NoDetail},
		{"only an image, a label is read", env(`metadata.labels["tier"]`), set("spec.containers.0.image", "a:2"), true, rollout.NoDetail},
		{"only an image, the hash is read", env(`metadata.labels["controller-revision-hash"]`), set("spec.containers.0.image", "a:2"), false, rollout.DetailFieldRef},
		{"only an image, the state of the change is read", env(`metadata.annotations['apps.kruise.io/inplace-update-state']`), set("spec.containers.0.image", "a:2"), false, rollout.DetailFieldRef},
		{"only an image, the grace period is read", env(`metadata.annotations['apps.kruise.io/inplace-update-grace']`), set("spec.containers.0.image", "a:2"), false, rollout.DetailFieldRef},
		{"only an image, the state of the hook is read", env(`metadata.labels['lifecycle.apps.kruise.io/state']`), set("spec.containers.0.image", "a:2"), false, rollout.DetailFieldRef},
		{"the name is read", env(`metadata.name`), set("metadata.labels.tier", "two"), true, rollout.NoDetail},
		{"an init container reads the label", `
metadata: {labels: {tier: one}}
spec:
  initContainers: [{name: i, image: i:1, env: [{name: E, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}]}]
  containers: [{name: a, image: a:1}]`, set("metadata.labels.tier", "two"), false, rollout.DetailFieldRef},
	} {
		from, to := decode(t, c.from), decode(t, c.from)
		c.change(to)
		if got, want := kruise.InPlace(from, to), (rollout.Change{InPlace: c.able, Why: c.why}); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
		if back := kruise.InPlace(to, from); back.InPlace != c.able {
			t.Errorf("%s, backwards: %+v", c.name, back)
		}
	}
}

// TestReadersRestart: containers with an environment variable that reads what differs are restarted, where that is possible.
func TestReadersRestart(t *testing.T) {
	reading := func(path string) map[string]any {
		env := `env: [{name: E, valueFrom: {fieldRef: {fieldPath: "` + strings.ReplaceAll(path, `"`, `\"`) + `"}}}]`
		return decode(t, `
metadata: {labels: {app: x, tier: one}, annotations: {note: one}}
spec:
  initContainers: [{name: m, image: m:1, restartPolicy: Always, `+env+`}]
  containers: [{name: a, image: a:1, `+env+`}, {name: b, image: b:1}]`)
	}
	needsAgent, never := rollout.Change{InPlace: true, Restart: true, Agent: true}, rollout.Change{Why: rollout.DetailFieldRef}
	const tier = "metadata.labels['tier']"
	for _, c := range []struct {
		name, path string
		change     func(template map[string]any)
		want       rollout.Change
	}{
		{"a label", tier, set("metadata.labels.tier", "two"), needsAgent},
		{"in other quotes", `metadata.labels["tier"]`, set("metadata.labels.tier", "two"), needsAgent},
		{"removed", tier, drop("metadata.labels.tier"), needsAgent},
		{"added", "metadata.labels['new']", set("metadata.labels.new", "x"), needsAgent},
		{"an annotation", "metadata.annotations['note']", set("metadata.annotations.note", "two"), needsAgent},
		{"with the image of another container", tier, both(set("metadata.labels.tier", "two"), set("spec.containers.1.image", "b:2")), needsAgent},
		{"with the image of one that reads it", tier, both(set("metadata.labels.tier", "two"), set("spec.containers.0.image", "a:2")), needsAgent},
		{"with the images of all that read it", tier, both(both(set("metadata.labels.tier", "two"), set("spec.containers.0.image", "a:2")), set("spec.initContainers.0.image", "m:2")),
			rollout.Change{InPlace: true}},
		{"and the hash", "metadata.labels['controller-revision-hash']", set("metadata.labels.tier", "two"), never},
	} {
		from, to := reading(c.path), reading(c.path)
		c.change(to)
		for _, got := range []rollout.Change{kruise.InPlace(from, to), kruise.InPlace(to, from), kruise.InPlaceWithResize(from, to)} {
			if got != c.want {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
		}
	}
	from, to := reading(tier), reading(tier)
	for _, template := range []map[string]any{from, to} {
		set("spec.containers.0.lifecycle", map[string]any{"preStop": map[string]any{"sleep": map[string]any{"seconds": int64(1)}}})(template)
	}
	set("metadata.labels.tier", "two")(to)
	if got := kruise.InPlace(from, to); got != never {
		t.Errorf("with a preStop hook: %+v", got)
	}
}

// TestImagesOfInitContainers: the set decides whether they change in place.
func TestImagesOfInitContainers(t *testing.T) {
	from := decode(t, `{spec: {initContainers: [{name: i, image: i:1}, {name: m, image: m:1, restartPolicy: Always}], containers: [{name: a, image: a:1}]}}`)
	want := rollout.Change{InPlace: true, InitImages: true}
	for name, change := range map[string]func(map[string]any){
		"alone": set("spec.initContainers.0.image", "i:2"), "with another": both(set("spec.initContainers.0.image", "i:2"), set("spec.containers.0.image", "a:2")),
	} {
		to := decode(t, `{spec: {initContainers: [{name: i, image: i:1}, {name: m, image: m:1, restartPolicy: Always}], containers: [{name: a, image: a:1}]}}`)
		change(to)
		for _, got := range []rollout.Change{kruise.InPlace(from, to), kruise.InPlace(to, from), kruise.InPlaceWithResize(from, to)} {
			if got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
	for annotation, allowed := range map[string]bool{"": false, `everynode.dev/in-place-init-images: "true"`: true, `everynode.dev/in-place-init-images: "false"`: false} {
		if w := kruise.Digest(daemonSet(t, annotation, "")); w.Set.InitImages != allowed {
			t.Errorf("%q: allowed %t", annotation, w.Set.InitImages)
		}
	}
}

// TestInPlaceLeavesTheTemplatesAlone guards the history, which shares them.
func TestInPlaceLeavesTheTemplatesAlone(t *testing.T) {
	const text = `{metadata: {labels: {a: b}}, spec: {initContainers: [{name: i, image: i:1}], containers: [{name: a, image: a:1, resources: {}}]}}`
	from, to := decode(t, text), decode(t, text)
	set("spec.hostPID", true)(to)
	kruise.InPlace(from, to)
	if !kruise.InPlace(from, decode(t, text)).InPlace {
		t.Error("templates that are equal differ after a comparison")
	}
	if images := from["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"]; images != "a:1" || from["metadata"].(map[string]any)["labels"] == nil {
		t.Errorf("the template was changed: %v", from)
	}
}

func both(a, b func(map[string]any)) func(map[string]any) {
	return func(m map[string]any) { a(m); b(m) }
}

// set gives the field at a path, in which numbers are those of items, a value; drop removes it.
func set(path string, value any) func(map[string]any) {
	return func(m map[string]any) {
		at, key := parent(m, path)
		at[key] = value
	}
}

func drop(path string) func(map[string]any) {
	return func(m map[string]any) {
		at, key := parent(m, path)
		delete(at, key)
	}
}

func parent(m map[string]any, path string) (at map[string]any, key string) {
	steps := strings.Split(path, ".")
	var here any = m
	for _, step := range steps[:len(steps)-1] {
		if list, ok := here.([]any); ok {
			n, _ := strconv.Atoi(step)
			here = list[n]
			continue
		}
		here = here.(map[string]any)[step]
	}
	return here.(map[string]any), steps[len(steps)-1]
}

// A template that OpenKruise has stored has no defaults; one that has gone through our webhook has. The next image is a change in place all the same.
func TestInPlaceFromATemplateWithoutDefaults(t *testing.T) {
	stored := decode(t, `{"metadata":{"creationTimestamp":null,"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"img:1","resources":{}}]}}`)
	served := decode(t, `{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"img:2","imagePullPolicy":"IfNotPresent","resources":{},
		"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
		"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}`)
	for _, change := range []rollout.Change{kruise.InPlace(stored, served), kruise.InPlace(served, stored), kruise.InPlaceWithResize(stored, served)} {
		if !change.InPlace {
			t.Errorf("%+v", change)
		}
	}
	other := decode(t, `{"metadata":{"labels":{"app":"a"}},"spec":{"terminationGracePeriodSeconds":5,"containers":[{"name":"c","image":"img:2"}]}}`)
	if kruise.InPlace(stored, other).InPlace {
		t.Error("another grace period is changed in place")
	}
}
