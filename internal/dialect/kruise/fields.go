// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

// Fields are the paths of the fields by which two templates differ, and because of which pods cannot be changed in place for the reason why; none if that reason is not about fields
// of the specification.
func Fields(from, to map[string]any, why rollout.Detail) []string {
	fields := func(strip func(spec map[string]any)) []string {
		return differences("", stripped(revision.WithDefaults(from), strip), stripped(revision.WithDefaults(to), strip))
	}
	switch why {
	case rollout.DetailTemplate:
		if more := fields(func(spec map[string]any) { stripImages(spec); stripAmounts(spec) }); len(more) > 0 {
			return more
		}
		return fields(stripImages)
	case rollout.DetailResize, rollout.DetailResources:
		return fields(stripImages)
	case rollout.DetailInitImage:
		return fields(func(spec map[string]any) { dropField(spec, "containers", "image"); stripAmounts(spec) })
	default:
		return nil
	}
}

// differences are the paths below a field at which two values differ. Items of a list that have names are compared by them.
func differences(path string, was, is any) (paths []string) {
	before, after, below := parts(was), parts(is), "."
	if _, list := was.([]any); list {
		below = ""
	}
	switch {
	case reflect.DeepEqual(was, is):
		return nil
	case before == nil || after == nil:
		return []string{path}
	case path == "":
		below = ""
	}
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		paths = append(paths, differences(path+below+key, before[key], after[key])...)
	}
	return paths
}

// parts are the fields of an object, or the items of a list of objects with names; nil if a value has no such parts.
func parts(value any) map[string]any {
	if object, ok := value.(map[string]any); ok {
		return object
	}
	list, _ := value.([]any)
	var named map[string]any
	for _, item := range list {
		object, _ := item.(map[string]any)
		name, ok := object["name"].(string)
		if !ok {
			return nil
		}
		if named == nil {
			named = map[string]any{}
		}
		named[fmt.Sprintf("[%s]", name)] = object
	}
	return named
}
