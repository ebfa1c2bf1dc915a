// SPDX-License-Identifier: Apache-2.0

package daemonset

import "testing"

// Without the lease nothing is sent. The pods that were to go count again, nobody is told, and the rest comes when the lease is there again.
func TestNothingIsDoneWithoutTheLease(t *testing.T) {
	w := newWorld(t, 4, nil)
	w.settle()
	w.edit("img:v2")
	w.mustPass() // makes the revision, and deletes the first pod
	w.settle()
	w.edit("img:v3")
	w.allEvents()
	w.forgetLog()
	leads := false
	w.c.Executor.Pace.Leads = func() bool { return leads }
	for range 3 {
		if err := w.pass(); err == nil {
			t.Fatal("a pass that could send nothing has no error")
		}
	}
	if got := append(w.wrote("delete"), w.wrote("create")...); len(got) != 0 {
		t.Errorf("written: %v", got)
	}
	if events := w.allEvents(); events != "" {
		t.Errorf("events: %s", events)
	}
	if s := w.index.Ownership(w.key, 0); len(s.Unsettled)+len(s.Pending) != 0 {
		t.Errorf("%d deletes and %d creates are in doubt that were not sent", len(s.Unsettled), len(s.Pending))
	}
	leads = true
	w.settle()
	for name, p := range w.pods {
		if p.Spec.Containers[0].Image != "img:v3" {
			t.Errorf("pod %s has %s", name, p.Spec.Containers[0].Image)
		}
	}
}
