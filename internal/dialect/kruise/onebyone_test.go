// SPDX-License-Identifier: Apache-2.0

package kruise_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/kruise"
)

// TestEditsThatAreSentOneByOne: when a pass sends only the first of two edits, because answers are slow, the next pass sends the second one and not the
// first one again. Otherwise the pod would never be deleted.
func TestEditsThatAreSentOneByOne(t *testing.T) {
	e := kruise.Edits{}
	hook := &dialect.Workload{PreDelete: &dialect.PreDelete{MarkNotReady: true}}
	for name, p := range map[string]*corev1.Pod{
		"open": pod(gate(api.KruisePodReady, corev1.ConditionTrue, 0)), "held by another": pod(held(`[{"userAgent":"Other","key":"k"}]`)),
	} {
		first := func(p *corev1.Pod, edits []dialect.Edit) *corev1.Pod { return apply(t, p, edits[:1]) }
		p = first(p, e.Prepare(hook, p, false, after(1)))
		if p = first(p, e.Prepare(hook, p, false, after(2))); !kruise.Facts(p).Preparing {
			t.Errorf("%s: not prepared by two edits", name)
		}
		p = first(p, e.Restore(hook, p, after(3)))
		if p = first(p, e.Restore(hook, p, after(4))); kruise.Facts(p).Preparing {
			t.Errorf("%s: not restored by two edits", name)
		}
	}
}
