// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/dialect/native"
	"everynode.dev/everynode/internal/rollout"
)

func TestStatusPatch(t *testing.T) {
	status := rollout.Status{Desired: 3, Current: 2, Ready: 2, Updated: 1, Available: 2, Unavailable: 1}
	const numbers = `"currentNumberScheduled":2,"desiredNumberScheduled":3,"numberAvailable":2,"numberMisscheduled":0,"numberReady":2,"numberUnavailable":1`
	const same = `currentNumberScheduled: 2, desiredNumberScheduled: 3, numberAvailable: 2, numberMisscheduled: 0, numberReady: 2, numberUnavailable: 1, updatedNumberScheduled: 1`
	two, three := int32(2), int32(3)
	cases := []struct {
		name, current string
		observed      int64
		collisions    *int32
		want          string
	}{
		{"first", `{metadata: {uid: u1}}`, 4, nil, `{"metadata":{"uid":"u1"},"status":{` + numbers + `,"observedGeneration":4,"updatedNumberScheduled":1}}`},
		{"nothing changed", `{metadata: {uid: u1}, status: {` + same + `, observedGeneration: 4}}`, 4, nil, ``},
		{"an observed generation only", `{metadata: {uid: u1}, status: {` + same + `, observedGeneration: 3}}`, 4, nil, `{"metadata":{"uid":"u1"},"status":{` + numbers + `,"observedGeneration":4,"updatedNumberScheduled":1}}`},
		{"seen by somebody newer", `{metadata: {generation: 5}, status: {` + same + `, observedGeneration: 5}}`, 4, nil, ``},
		{"numbers changed, seen by a newer manager", `{metadata: {generation: 5}, status: {observedGeneration: 5}}`, 4, nil, `{"status":{` + numbers + `,"updatedNumberScheduled":1}}`},
		{"numbers onto any version", `{metadata: {resourceVersion: "7"}, status: {observedGeneration: 4}}`, 4, nil, `{"status":{` + numbers + `,"updatedNumberScheduled":1}}`},
		{"an observed generation onto the version that was read", `{metadata: {resourceVersion: "7"}, status: {observedGeneration: 3}}`, 4, nil, `{"metadata":{"resourceVersion":"7"},"status":{` + numbers + `,"observedGeneration":4,"updatedNumberScheduled":1}}`},
		{"a generation of before a restore", `{metadata: {generation: 4}, status: {` + same + `, observedGeneration: 5}}`, 4, nil, `{"status":{` + numbers + `,"observedGeneration":4,"updatedNumberScheduled":1}}`},
		{"conditions stay out of it", `{metadata: {uid: u1}, status: {conditions: [{type: Mine}]}}`, 1, nil, `{"metadata":{"uid":"u1"},"status":{` + numbers + `,"observedGeneration":1,"updatedNumberScheduled":1}}`},
		{"first collision", `{status: {` + same + `, observedGeneration: 4}}`, 4, &two, `{"status":{"collisionCount":2,` + numbers + `,"updatedNumberScheduled":1}}`},
		{"one collision more", `{status: {` + same + `, observedGeneration: 4, collisionCount: 2}}`, 4, &three, `{"status":{"collisionCount":3,` + numbers + `,"updatedNumberScheduled":1}}`},
		{"the same collisions", `{status: {` + same + `, observedGeneration: 4, collisionCount: 2}}`, 4, &two, ``},
		{"collisions of an old cache", `{status: {` + same + `, observedGeneration: 4, collisionCount: 3}}`, 4, &two, ``},
		{"collisions not known", `{status: {` + same + `, observedGeneration: 4, collisionCount: 3}}`, 4, nil, ``},
		{"numbers as another decoder has them", `{status: {` + same + `, observedGeneration: 4.0}}`, 4, nil, ``},
		{"status of a wrong type", `{metadata: 7, status: x}`, 4, nil, `{"status":{` + numbers + `,"observedGeneration":4,"updatedNumberScheduled":1}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := native.Digest(decode(t, c.current))
			got, changed := native.StatusPatch(&w, dialect.Report{Numbers: status, ObservedGeneration: c.observed, CollisionCount: c.collisions})
			if string(got) != c.want || changed != (c.want != "") {
				t.Errorf("got  %s, %v\nwant %s", got, changed, c.want)
			}
		})
	}
}

// What the patch makes of the object, read again, must need no other patch.
func TestStatusPatchIsReadBack(t *testing.T) {
	want := rollout.Status{Desired: 1, Current: 2, Misscheduled: 3, Ready: 4, Updated: 5, Available: 6, Unavailable: 7}
	count := int32(5)
	patch, changed := native.StatusPatch(&dialect.Workload{}, dialect.Report{Numbers: want, ObservedGeneration: 12, CollisionCount: &count})
	if !changed {
		t.Fatal("nothing to change")
	}
	obj := decode(t, string(patch))
	w := native.Digest(obj)
	if w.Status != want || w.ObservedGeneration != 12 || w.CollisionCount == nil || *w.CollisionCount != 5 {
		t.Errorf("read back: %+v", w)
	}
	if again, changed := native.StatusPatch(&w, dialect.Report{Numbers: want, ObservedGeneration: 12, CollisionCount: &count}); changed {
		t.Errorf("a second patch: %s", again)
	}
}

func TestEvents(t *testing.T) {
	cases := []struct {
		note                       rollout.Note
		eventType, reason, message string
	}{
		{rollout.Note{Kind: rollout.FoundFailedPod, Pod: "p"}, "Warning", "FailedDaemonPod", "Found failed daemon pod ns/p on node n, will try to kill it"},
		{rollout.Note{Kind: rollout.FoundSucceededPod, Pod: "p"}, "Normal", "SucceededDaemonPod", "Found succeeded daemon pod ns/p on node n, will try to delete it"},
		{rollout.Note{}, "", "", ""},
	}
	for _, c := range cases {
		eventType, reason, message := native.Event(c.note, "ns", "n")
		if eventType != c.eventType || reason != c.reason || message != c.message {
			t.Errorf("%+v: got %q %q %q", c.note, eventType, reason, message)
		}
	}
}
