// SPDX-License-Identifier: Apache-2.0

package native

import (
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// Digest reads a DaemonSet of apps/v1. It shares the template with obj, which must not be changed afterwards.
func Digest(obj map[string]any) dialect.Workload {
	r := &base.Reader{}
	w := r.DaemonSet(obj)
	w.Problems = r.Problems()
	return w
}
