// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"math"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/internal/revision"
)

// restoreRevision puts an older revision with that number into the history, as a restore or a user with the right to make revisions does.
func (e *edge) restoreRevision(number int64) *appsv1.ControllerRevision {
	e.t.Helper()
	data, err := revision.Data(map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "x"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "img:old"}}},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	r := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "ds-restored", UID: "rev-restored",
		Labels: map[string]string{"app": "x", "controller-revision-hash": "restored"}, OwnerReferences: []metav1.OwnerReference{e.owner()},
	}}
	r.Data.Raw, r.Revision, r.ResourceVersion = data, number, e.next()
	e.revisions[r.Name] = r
	e.seeRevision(r)
	return r
}

// A revision that does not have the template is not that of the template, whatever its number is: the other controller restarts nothing because of it. The pods
// are older than the last change of the template, which was taken back.
func TestRestoredRevisionRestartsNothing(t *testing.T) {
	for name, number := range map[string]int64{"a high number": 1000, "the highest number": math.MaxInt64} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, 4, "external", rolling("1"))
			e.edit("img:v2")
			e.edit("img:v1")
			e.roll()
			before := len(e.log)
			e.restoreRevision(number)
			for range 30 {
				_ = e.pass()
				e.live()
				e.clock.Step(time.Second)
				e.upstream()
			}
			if got := e.log[before:]; len(got) > 0 {
				t.Errorf("the template is the same, and these writes were made: %v", got)
			}
		})
	}
}

// A revision with the highest number, which the other controller cannot exceed, holds no update, also when it is gone again.
func TestRestoredRevisionHoldsNothing(t *testing.T) {
	for name, goes := range map[string]bool{"it stays": false, "it goes": true} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, 4, "external", rolling("1"))
			e.edit("img:v2")
			e.upstream()
			r := e.restoreRevision(math.MaxInt64)
			_ = e.pass()
			if goes {
				delete(e.revisions, r.Name)
				e.index.DropRevision(r.UID)
			}
			e.lasts(time.Minute)
			if n := countOf(e.images(), "v2"); n != 4 {
				t.Errorf("%d of 4 nodes are updated", n)
			}
			before := len(e.log)
			e.lasts(time.Minute)
			if got := e.log[before:]; len(got) > 0 {
				t.Errorf("all is done, and these writes were made: %v", got)
			}
		})
	}
}
