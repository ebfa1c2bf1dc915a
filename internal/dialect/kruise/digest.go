// SPDX-License-Identifier: Apache-2.0

package kruise

import (
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/base"
)

// Digest reads a DaemonSet of apps.kruise.io/v1beta1. It shares the template with obj, which must not be changed afterwards.
func Digest(obj map[string]any) dialect.Workload {
	r := &base.Reader{}
	w, spec := r.Workload(obj)
	readOptions(r, &w, spec).complete(&w)
	readStatus(&w, obj)
	w.Advanced = true
	w.Problems = r.Problems()
	return w
}

// digestFor is Digest with a warning about sets that ask to come back first in a namespace where they may not.
func digestFor(mayHold func(namespace string) bool) func(obj map[string]any) dialect.Workload {
	if mayHold == nil {
		return Digest
	}
	return func(obj map[string]any) dialect.Workload {
		w := Digest(obj)
		warnHold(&w, mayHold)
		return w
	}
}

// ReadOptions reads only the Options.
func ReadOptions(obj map[string]any) Options {
	r := &base.Reader{}
	w, spec := r.Workload(obj)
	return readOptions(r, &w, spec)
}

// readStatus reads what the status has beyond its numbers. The next write corrects values that cannot be read.
func readStatus(w *dialect.Workload, obj map[string]any) {
	status, _ := obj["status"].(map[string]any)
	w.UpdateRevision, _ = status["updateRevision"].(string)
	w.Conditions = base.Conditions(obj)
}
