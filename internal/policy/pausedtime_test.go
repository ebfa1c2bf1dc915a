// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

// TestTheTimeOfAPauseDoesNotCountForANode: the time in which the set is paused does not count for nodeDeadline, and counts again afterwards.
func TestTheTimeOfAPauseDoesNotCountForANode(t *testing.T) {
	w := canary(t, judged)
	w.fails("a", hangs)
	w.fails("b", hangs)
	w.pass(time.Second)
	w.s.Set.Paused = true
	w.pass(time.Second)
	w.pass(24 * time.Hour)
	w.wantNoFailure()
	w.s.Set.Paused = false
	w.pass(time.Second)
	w.pass(4 * time.Minute)
	w.wantNoFailure()
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
}

// TestTheTimeOfASuspensionDoesNotCountForANode: the same for a policy that is suspended.
func TestTheTimeOfASuspensionDoesNotCountForANode(t *testing.T) {
	w := canary(t, judged)
	running := w.policies
	w.fails("a", hangs)
	w.fails("b", hangs)
	w.pass(time.Second)
	w.policies = []*policy.Policy{read(t, judged+"suspend: true\n")}
	w.pass(time.Second)
	w.pass(24 * time.Hour)
	w.wantNoFailure()
	w.policies = running
	w.pass(time.Second)
	w.pass(4 * time.Minute)
	w.wantNoFailure()
	w.pass(time.Minute)
	w.want("", v1alpha1.PhaseFailed, "canary")
}
