// SPDX-License-Identifier: Apache-2.0

package base

import (
	"math"
	"strconv"
	"strings"
	"time"

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

// pullAhead reads the annotations about pulling images ahead. Where there is a webhook, it refuses most of what is noted here.
func (r *Reader) pullAhead(w *dialect.Workload) {
	p := &w.PullAhead
	p.Parallelism = r.wholeFromOne(w, kruise.PredownloadParallelism, DefaultPullParallelism)
	p.Timeout = time.Duration(r.wholeFromOne(w, kruise.PredownloadTimeout, int32(DefaultPullTimeout/time.Second))) * time.Second
	p.Wait = r.waitForImage(w)
	text, ok := w.Annotations[kruise.PredownloadMinUpdatedReady]
	if !ok {
		return
	}
	q, valid := wholeOrPercent(text)
	switch {
	case !valid:
		r.Warn(ReasonInvalidAnnotation, "Annotation %s is %q: set it to a whole number from 0, or a percentage up to 100%%; until then images are pulled as soon as an update begins.",
			kruise.PredownloadMinUpdatedReady, text)
	case p.Wait && q.Value > 0:
		// Both together would wait for each other: nothing is updated without images, and nothing is pulled without updated pods.
		r.Warn(ReasonIgnoredField, "Annotation %s has no effect together with %s: remove one of them; until then images are pulled as soon as an update begins.",
			kruise.PredownloadMinUpdatedReady, everynode.WaitForImage)
	default:
		p.MinUpdatedReady = q
	}
}

// wholeFromOne is the number in an annotation, or fallback.
func (r *Reader) wholeFromOne(w *dialect.Workload, key string, fallback int32) int32 {
	text, ok := w.Annotations[key]
	if !ok {
		return fallback
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		r.Warn(ReasonInvalidAnnotation, "Annotation %s is %q: set it to a whole number from 1 to %d; until then it counts as %d.", key, text, math.MaxInt32, fallback)
		return fallback
	}
	return int32(n)
}

func (r *Reader) waitForImage(w *dialect.Workload) bool {
	text, ok := w.Annotations[everynode.WaitForImage]
	if ok && text != "true" && text != "false" {
		r.Warn(ReasonInvalidAnnotation, "Annotation %s is %q: set it to \"true\" or \"false\"; until then no update waits for images.", everynode.WaitForImage, text)
	}
	return text == "true"
}

// wholeOrPercent reads a whole number from 0, or a percentage up to 100%.
func wholeOrPercent(text string) (rollout.Quantity, bool) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 || percent && n > 100 {
		return rollout.Quantity{}, false
	}
	return rollout.Quantity{Value: int(n), Percent: percent}, true
}
