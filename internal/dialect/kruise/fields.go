// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// Prevents are two templates without what pods can take over in place: by what is left in them they cannot be changed in place for the reason why. There is
// nothing left if that reason is not about fields of the specification.
func Prevents(from, to map[string]any, why rollout.Detail) (was, is map[string]any) {
	left := func(strip func(spec map[string]any)) (was, is map[string]any) {
		return stripped(revision.WithDefaults(from), strip), stripped(revision.WithDefaults(to), strip)
	}
	switch why {
	case rollout.DetailTemplate:
		if was, is = left(func(spec map[string]any) { stripImages(spec); stripAmounts(spec) }); !revision.Equal(was, is) {
			return was, is
		}
		return left(stripImages)
	case rollout.DetailResize, rollout.DetailResources:
		return left(stripImages)
	case rollout.DetailInitImage:
		return left(func(spec map[string]any) { dropField(spec, "containers", "image"); stripAmounts(spec) })
	case rollout.DetailFieldRef:
		return readers(from, to)
	default:
		return nil, nil
	}
}

// readers are two templates with the environment variables that prevent a change in place; in the first they read nothing.
func readers(from, to map[string]any) (was, is map[string]any) {
	differs, resized, spec := differingFields(from, to), changedResources(from, to), podSpec(to)
	prevents := func(c *corev1.Container, runs bool, reads *corev1.EnvVarSource) bool {
		if reads != nil && reads.ResourceFieldRef != nil {
			_, changes := resized[cmp.Or(reads.ResourceFieldRef.ContainerName, c.Name)]
			return changes
		}
		if reads == nil || reads.FieldRef == nil {
			return false
		}
		path := oneSpelling(reads.FieldRef.FieldPath)
		return slices.Contains(ownFields(), path) || differs[path] && (!runs || !Restartable(c))
	}
	before, after := map[string]any{}, map[string]any{}
	for field, list := range map[string][]corev1.Container{"initContainers": spec.InitContainers, "containers": spec.Containers} {
		var first, second []any
		for i := range list {
			var none, read []any
			for _, e := range list[i].Env {
				if c := &list[i]; prevents(c, field == "containers" || isSidecar(c), e.ValueFrom) {
					none, read = append(none, map[string]any{"name": e.Name}), append(read, map[string]any{"name": e.Name, "valueFrom": true})
				}
			}
			first, second = append(first, map[string]any{"name": list[i].Name, "env": none}), append(second, map[string]any{"name": list[i].Name, "env": read})
		}
		before[field], after[field] = first, second
	}
	return map[string]any{"spec": before}, map[string]any{"spec": after}
}
