// SPDX-License-Identifier: Apache-2.0

package base

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"everynode.dev/everynode/api/annotation"
	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// How images are pulled ahead unless the set says otherwise, as with OpenKruise.
const (
	DefaultPullParallelism = 1
	DefaultPullTimeout     = 300 * time.Second
)

// pullAhead reads the annotations about pulling images ahead.
func (r *Reader) pullAhead(w *dialect.Workload) {
	p := &w.PullAhead
	p.Parallelism = r.wholeOr(w, kruise.PredownloadParallelismValue, DefaultPullParallelism)
	_, p.ParallelismGiven = w.Annotations[kruise.PredownloadParallelism]
	p.Timeout = time.Duration(r.wholeOr(w, kruise.PredownloadTimeoutValue, int32(DefaultPullTimeout/time.Second))) * time.Second
	p.Wait = ptr.Deref(Annotation(r, w, everynode.WaitForImageValue, "until then no update waits for images"), false)
	if _, said := w.Annotations[everynode.WaitForImage]; said && !p.Wait {
		p.NoWait = true
	}
	least := Annotation(r, w, kruise.PredownloadMinUpdatedReadyValue, untilPulled)
	switch {
	case least == nil:
	case p.Wait && least.Value > 0:
		// Both together would wait for each other: nothing is updated without images, and nothing is pulled without updated pods.
		r.Warn(ReasonIgnoredField, "Annotation %s has no effect together with %s: remove one of them; %s.",
			kruise.PredownloadMinUpdatedReady, everynode.WaitForImage, untilPulled)
	default:
		p.MinUpdatedReady = rollout.Quantity(*least)
	}
}

const untilPulled = "until then images are pulled as soon as an update begins"

// wholeOr is the number in an annotation, or fallback.
func (r *Reader) wholeOr(w *dialect.Workload, a annotation.Value[int32], fallback int32) int32 {
	return ptr.Deref(Annotation(r, w, a, fmt.Sprintf("until then it counts as %d", fallback)), fallback)
}
