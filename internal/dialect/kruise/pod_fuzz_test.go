// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// editsOf are all edits that a pod may be given.
func editsOf(p *corev1.Pod) map[string][]dialect.Edit {
	quiet, loud := &dialect.Workload{PreDelete: &dialect.PreDelete{}}, &dialect.Workload{PreDelete: &dialect.PreDelete{MarkNotReady: true}}
	e := kruise.Edits{}
	return map[string][]dialect.Edit{
		"prepare": e.Prepare(quiet, p, false, noon), "prepare for eviction": e.Prepare(loud, p, true, noon), "restore": e.Restore(loud, p, noon),
		"mark": e.Mark(p, noon), "patch": e.Patch(p, renewal(), noon), "unmark": e.Unmark(p, noon), "resume": e.Resume(p, noon),
	}
}

// renewal is a change of the image of the container a.
func renewal() dialect.Change {
	template := func(image string) map[string]any {
		return map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": image}}}}
	}
	return dialect.Change{From: template("a:1"), To: template("a:2"), Hash: "of-a-2"}
}

// FuzzPod: whatever stands on a pod, what is read from it is the same each time, every edit is a patch that the API server takes, and the gate of a pod
// that has been changed stays closed for as long as its node tells of the old container.
func FuzzPod(f *testing.F) {
	for _, p := range []*corev1.Pod{pod(), pod(marked(0), patched(`{"a":{"imageID":"sha-1","containerID":"c-1"}}`)), pod(held(hookHolds), lifecycle(api.LifecyclePreparingDelete))} {
		data, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := &corev1.Pod{}
		if json.Unmarshal([]byte(text), p) != nil || ambiguous(p) {
			t.Skip("no pod")
		}
		before := p.DeepCopy()
		facts, all := kruise.Facts(p), editsOf(p)
		if !reflect.DeepEqual(kruise.Facts(p), facts) || !reflect.DeepEqual(editsOf(p), all) {
			t.Errorf("the second time the same pod is another one")
		}
		for _, edits := range all {
			apply(t, p, edits)
		}
		if !reflect.DeepEqual(p, before) {
			t.Errorf("the pod was changed by who has read it")
		}
		if changed := apply(t, p, all["patch"]); facts != nil && facts.Gate && waitsForNode(p, changed) {
			if got := kruise.Facts(changed).InPlace; got != rollout.InPlacePatched && got != rollout.InPlaceMarked {
				t.Errorf("the gate may be opened (%v), and the node has done nothing\n%s", got, all["patch"])
			}
		}
	})
}

// ambiguous is whether a pod has two entries where the API server allows one, so that nobody can patch one of them.
func ambiguous(p *corev1.Pod) bool {
	seen := map[string]bool{}
	twice := func(key string) bool { was := seen[key]; seen[key] = true; return was }
	found := false
	for i := range p.Spec.Containers {
		found = found || twice("container "+p.Spec.Containers[i].Name)
	}
	for i := range p.Status.ContainerStatuses {
		found = found || twice("status "+p.Status.ContainerStatuses[i].Name)
	}
	for i := range p.Status.Conditions {
		found = found || twice("condition "+string(p.Status.Conditions[i].Type))
	}
	return found
}

// waitsForNode is whether a change has given the container a another image than its node says that it runs.
func waitsForNode(before, after *corev1.Pod) bool {
	image := func(p *corev1.Pod) string {
		for i := range p.Spec.Containers {
			if p.Spec.Containers[i].Name == "a" {
				return p.Spec.Containers[i].Image
			}
		}
		return ""
	}
	for _, s := range after.Status.ContainerStatuses {
		if s.Name == "a" && s.ContainerID != "" {
			return image(after) != image(before) && strings.TrimPrefix(strings.TrimPrefix(s.Image, "docker.io/"), "library/") != image(after)
		}
	}
	return false
}
