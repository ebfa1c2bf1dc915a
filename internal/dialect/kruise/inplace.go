// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// InPlace returns whether a pod of template from can be made one of template to in place, and if not, what prevents it. What
// can be changed are images of containers and sidecars, images of other init containers where the set allows that (they have ended, so nothing shows it
// before the pod is started again), and labels and annotations that no environment variable reads. If a variable reads a value that every change
// writes, such as the hash of the revision, nothing can be changed in place.
func InPlace(from, to map[string]any) rollout.Change {
	if !sameBut(from, to, stripImages) {
		return rollout.Change{Why: obstacle(from, to, rollout.DetailResources)}
	}
	if readsChange(from, to) {
		return rollout.Change{Why: rollout.DetailFieldRef}
	}
	return withRestart(rollout.Change{InPlace: true, InitImages: changesInit(from, to)}, from, to)
}

// withRestart is a change in place that may restart containers, too.
func withRestart(c rollout.Change, from, to map[string]any) rollout.Change {
	names := restarts(from, to)
	if len(names) == 0 {
		return c
	}
	if !canRestart(to, names) {
		return rollout.Change{Why: rollout.DetailRestart}
	}
	c.Restart = true
	return c
}

// InPlaceWithResize is InPlace where the amounts of cpu and memory of containers can be changed, too.
func InPlaceWithResize(from, to map[string]any) rollout.Change {
	both := func(spec map[string]any) { stripImages(spec); stripAmounts(spec) }
	if !sameBut(from, to, both) {
		return rollout.Change{Why: obstacle(from, to, rollout.DetailResize)}
	}
	resized := changedResources(from, to)
	switch {
	case readsChange(from, to) || readsAmounts(to, resized):
		return rollout.Change{Why: rollout.DetailFieldRef}
	case len(resized) > 0 && !canResize(from, to):
		return rollout.Change{Why: rollout.DetailResize}
	default:
		return withRestart(rollout.Change{InPlace: true, Resize: len(resized) > 0, InitImages: changesInit(from, to)}, from, to)
	}
}

// sameBut reports whether two templates are equal except for what strip removes. The default of a pull policy depends on the image, so defaults are set
// before that: one of the templates may have been stored without any, as OpenKruise does.
func sameBut(from, to map[string]any, strip func(spec map[string]any)) bool {
	return revision.Equal(stripped(from, strip), stripped(to, strip)) ||
		revision.Equal(stripped(revision.WithDefaults(from), strip), stripped(revision.WithDefaults(to), strip))
}

// readsChange reports whether an environment variable reads a label or annotation that differs, or one that we write ourselves: the hash
// of the revision differs with every change, whatever the templates say.
func readsChange(from, to map[string]any) bool {
	read := fieldRefs(to)
	for _, path := range ownFields() {
		if read[path] {
			return true
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		for key := range changed(texts(from, field), texts(to, field)) {
			if read["metadata."+field+"['"+key+"']"] || read["metadata."+field] {
				return true
			}
		}
	}
	return false
}

// ownFields are the labels and annotations of pods that the Edits write, as field paths.
func ownFields() []string {
	var paths []string
	for field, keys := range map[string][]string{
		"labels": {hashLabel, kruise.LifecycleState},
		"annotations": {
			kruise.InPlaceUpdateState, kruise.InPlaceUpdateStateOld, kruise.InPlaceUpdateGrace, kruise.InPlaceUpdateGraceOld,
			kruise.LifecycleTimestamp,
		},
	} {
		for _, key := range keys {
			paths = append(paths, "metadata."+field+"['"+key+"']")
		}
	}
	return paths
}

// obstacle names the difference that prevents a change in place between two templates; resources is the text for a difference in resources.
func obstacle(from, to map[string]any, resources rollout.Detail) rollout.Detail {
	both := func(spec map[string]any) { stripImages(spec); dropField(spec, "containers", "resources") }
	if revision.Equal(stripped(from, both), stripped(to, both)) {
		return resources
	}
	return rollout.DetailTemplate
}

// stripped returns a copy of template without labels and annotations, and without the fields that strip removes from its spec.
func stripped(template map[string]any, strip func(spec map[string]any)) map[string]any {
	template = runtime.DeepCopyJSON(template)
	if metadata, ok := template["metadata"].(map[string]any); ok {
		delete(metadata, "labels")
		delete(metadata, "annotations")
	}
	if spec, ok := template["spec"].(map[string]any); ok {
		strip(spec)
	}
	return template
}

func stripImages(spec map[string]any) {
	dropField(spec, "containers", "image")
	dropField(spec, "initContainers", "image")
}

func dropField(spec map[string]any, list, field string) {
	items, _ := spec[list].([]any)
	for _, item := range items {
		if c, ok := item.(map[string]any); ok {
			delete(c, field)
		}
	}
}

// texts is a map of strings in the template's metadata.
func texts(template map[string]any, field string) map[string]string {
	metadata, _ := template["metadata"].(map[string]any)
	var m map[string]string
	if base.Decode(metadata[field], &m) != nil {
		return nil // refused when it was new
	}
	return m
}

// changed contains the new value of each key that differs; nil for a removed key.
func changed(from, to map[string]string) map[string]*string {
	diff := map[string]*string{}
	for key := range from {
		if _, kept := to[key]; !kept {
			diff[key] = nil
		}
	}
	for key, value := range to {
		if old, had := from[key]; !had || old != value {
			diff[key] = &value
		}
	}
	return diff
}

// images are the images of all containers by name.
func images(template map[string]any) map[string]string {
	spec, _ := template["spec"].(map[string]any)
	found := map[string]string{}
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			if c, ok := item.(map[string]any); ok {
				name, _ := c["name"].(string)
				found[name], _ = c["image"].(string)
			}
		}
	}
	return found
}

// changesInit reports whether the image of an init container differs (not of a sidecar, which keeps running).
func changesInit(from, to map[string]any) bool {
	spec, _ := to["spec"].(map[string]any)
	items, _ := spec["initContainers"].([]any)
	before := images(from)
	return slices.ContainsFunc(items, func(item any) bool {
		c, _ := item.(map[string]any)
		name, _ := c["name"].(string)
		return c["restartPolicy"] != string(corev1.ContainerRestartPolicyAlways) && c["image"] != before[name]
	})
}

// fieldRefs are the field paths that environment variables of the template's containers read.
func fieldRefs(template map[string]any) map[string]bool {
	spec, _ := template["spec"].(map[string]any)
	read := map[string]bool{}
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			c, _ := item.(map[string]any)
			env, _ := c["env"].([]any)
			for _, e := range env {
				maps.Copy(read, fieldRef(e))
			}
		}
	}
	return read
}

func fieldRef(env any) map[string]bool {
	e, _ := env.(map[string]any)
	from, _ := e["valueFrom"].(map[string]any)
	ref, _ := from["fieldRef"].(map[string]any)
	path, _ := ref["fieldPath"].(string)
	if path == "" {
		return nil
	}
	// Both quotes are allowed in a subscript; one spelling is enough to compare.
	return map[string]bool{strings.ReplaceAll(path, `"`, `'`): true}
}
