// SPDX-License-Identifier: Apache-2.0

package kruise

import (
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
// before the pod is started again), labels and annotations. If an environment variable reads one that differs, its container must restart. If a
// variable reads a value that every change writes, such as the hash of the revision, nothing can be changed in place.
func InPlace(from, to map[string]any) rollout.Change {
	if !sameBut(from, to, stripImages) {
		return rollout.Change{Why: obstacle(from, to, rollout.DetailResources)}
	}
	return withRestart(rollout.Change{InPlace: true, InitImages: changesInit(from, to)}, from, to)
}

// withRestart is a change in place that may restart containers, too: because that is asked for, or because their environment variables read what
// differs.
func withRestart(c rollout.Change, from, to map[string]any) rollout.Change {
	for key := range changed(texts(from, "annotations"), texts(to, "annotations")) {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			return rollout.Change{Why: rollout.DetailTemplate} // the API server refuses to change it in a pod
		}
	}
	readers, possible := readersOfChange(from, to)
	if !possible || !canRestart(to, readers) {
		return rollout.Change{Why: rollout.DetailFieldRef}
	}
	if !canRestart(to, restarts(from, to)) {
		return rollout.Change{Why: rollout.DetailRestart}
	}
	c.Agent = len(readers) > 0
	c.Restart = len(toRestart(from, to)) > 0
	return c
}

// toRestart are the containers that a change between two templates restarts, without those that restart with another image.
func toRestart(from, to map[string]any) []string {
	readers, _ := readersOfChange(from, to)
	names := append(restarts(from, to), readers...)
	slices.Sort(names)
	return slices.Compact(names)
}

// InPlaceWithResize is InPlace where the amounts of cpu and memory of containers can be changed, too.
func InPlaceWithResize(from, to map[string]any) rollout.Change {
	both := func(spec map[string]any) { stripImages(spec); stripAmounts(spec) }
	if !sameBut(from, to, both) {
		return rollout.Change{Why: obstacle(from, to, rollout.DetailResize)}
	}
	resized := changedResources(from, to)
	switch {
	case readsAmounts(to, resized):
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

// readersOfChange returns the containers of which an environment variable reads a label or annotation that differs, without those that get another
// image, because they start again anyway. It is not possible to change them in place if an init container that has ended is among them, or if a
// variable reads what we write ourselves: the hash of the revision differs with every change, whatever the templates say.
func readersOfChange(from, to map[string]any) (names []string, possible bool) {
	differs := differingFields(from, to)
	own, was, is, spec := ownFields(), images(from), images(to), podSpec(to)
	runs := map[string]bool{}
	for c := range LongRunning(spec) {
		runs[c.Name] = true
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		read := fieldRefs(&c)
		if slices.ContainsFunc(read, func(path string) bool { return slices.Contains(own, path) }) {
			return nil, false
		}
		switch {
		case !slices.ContainsFunc(read, func(path string) bool { return differs[path] }):
		case !runs[c.Name]:
			return nil, false
		case was[c.Name] == is[c.Name]:
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names, true
}

// differingFields are the labels and annotations that differ between two templates, as field paths.
func differingFields(from, to map[string]any) map[string]bool {
	differs := map[string]bool{}
	for _, field := range []string{"labels", "annotations"} {
		for key := range changed(texts(from, field), texts(to, field)) {
			differs["metadata."+field+"['"+key+"']"] = true
		}
	}
	return differs
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

// isMetadata reports whether a field path is that of a label or an annotation.
func isMetadata(path string) bool {
	return strings.HasPrefix(path, "metadata.labels['") || strings.HasPrefix(path, "metadata.annotations['")
}

// oneSpelling is a field path to compare: both quotes are allowed in a subscript.
func oneSpelling(path string) string { return strings.ReplaceAll(path, `"`, `'`) }

// fieldRefs are the field paths that the environment variables of a container read.
func fieldRefs(c *corev1.Container) (paths []string) {
	for _, env := range c.Env {
		if env.ValueFrom != nil && env.ValueFrom.FieldRef != nil {
			paths = append(paths, oneSpelling(env.ValueFrom.FieldRef.FieldPath))
		}
	}
	return paths
}
