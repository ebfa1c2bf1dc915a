// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/apply/executor"
)

// An announcement that is refused sends an event, and is tried again later and later, like any other write.
func TestARefusedAnnouncement(t *testing.T) {
	e := newEdge(t, 2, "native", map[string]string{edgeStrategy: "OTA"})
	e.edit("img:v2")
	e.before = func(verb, _ string) error {
		if strings.HasPrefix(verb, "patch-") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("policy"))
		}
		return nil
	}
	e.forgetLog()
	for range 300 {
		_ = e.pass()
		e.clock.Step(time.Second)
	}
	if n := len(e.wrote("patch-status")); n < 2 || n > 60 {
		t.Errorf("%d announcements were sent in 5 minutes for 2 pods", n)
	}
	if events := e.allEvents(); !strings.Contains(events, "FailedPodCondition") || !strings.Contains(events, "policy") {
		t.Errorf("events:\n%s", events)
	}
	e.before = nil
	e.forgetLog()
	for range 300 {
		e.mustPass()
		e.clock.Step(time.Second)
	}
	if n := len(e.wrote("patch-status")); n != 2 {
		t.Errorf("%d announcements were sent after the policy has gone, want 2", n)
	}
}

// An announcement that a webhook makes slow is sent again without a pass that waits for it, and once.
func TestASlowAnnouncement(t *testing.T) {
	e := newEdge(t, 2, "native", map[string]string{edgeStrategy: "OTA"})
	h := &webhook{worldPods: worldPods{e.world}, says: make(chan struct{})}
	e.slowly(h, "patch-status")
	e.edit("img:v2")
	_ = e.pass()
	e.clock.Step(executor.Fence)
	e.mustPass()
	e.clock.Step(10 * time.Second)
	e.mustPass()
	e.forgetLog()
	h.answered()
	e.mustPass()
	if got := e.wrote("patch-status"); len(got) != 2 || got[0] == got[1] {
		t.Errorf("announcements %v, want one of each pod", got)
	}
}
