// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"testing"

	"everynode.dev/everynode/internal/rollout"
)

func TestPreDeleteState(t *testing.T) {
	labels := map[string]string{"block": "true", "other": ""}
	byLabel, byFinalizer := &PreDelete{Labels: map[string]string{"block": "true"}}, &PreDelete{Finalizers: []string{"a/b", "c/d"}}
	both := &PreDelete{Labels: byLabel.Labels, Finalizers: byFinalizer.Finalizers}
	for _, c := range []struct {
		name   string
		hook   *PreDelete
		labels map[string]string
		facts  *PodFacts
		want   rollout.Hook
	}{
		{"no hook", nil, labels, nil, rollout.HookNone},
		{"no hook any more", nil, labels, &PodFacts{Preparing: true}, rollout.HookReleased},
		{"the label", byLabel, labels, nil, rollout.HookArmed},
		{"another value", byLabel, map[string]string{"block": "false"}, nil, rollout.HookNone},
		{"an empty value is not a missing label", &PreDelete{Labels: map[string]string{"x": ""}}, nil, nil, rollout.HookNone},
		{"an empty value", &PreDelete{Labels: map[string]string{"other": ""}}, labels, nil, rollout.HookArmed},
		{"one of the finalizers", byFinalizer, nil, &PodFacts{Finalizers: []string{"c/d"}}, rollout.HookArmed},
		{"no finalizer", byFinalizer, labels, &PodFacts{Gate: true}, rollout.HookNone},
		{"either handler is enough: the label", both, labels, nil, rollout.HookArmed},
		{"either handler is enough: the finalizer", both, nil, &PodFacts{Finalizers: []string{"a/b"}}, rollout.HookArmed},
		{"one of two labels is left", &PreDelete{Labels: map[string]string{"block": "true", "gone": "x"}}, labels, &PodFacts{Preparing: true}, rollout.HookWaiting},
		{"the finalizer is left", both, nil, &PodFacts{Preparing: true, Finalizers: []string{"a/b"}}, rollout.HookWaiting},
		{"prepared", byLabel, labels, &PodFacts{Preparing: true}, rollout.HookWaiting},
		{"released", byLabel, nil, &PodFacts{Preparing: true}, rollout.HookReleased},
	} {
		if got := c.hook.State(c.labels, c.facts); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
