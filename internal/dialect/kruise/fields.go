// SPDX-License-Identifier: Apache-2.0

package kruise

import (
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
	default:
		return nil, nil
	}
}
