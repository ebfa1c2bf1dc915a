// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/policy"
)

func rolling(limit string) map[string]string {
	return map[string]string{edgeStrategy: "AdvancedRollingUpdate", edgeLimit: limit}
}

// both plays a test with the native dialect and as an external set next to upstream's controller.
func both(t *testing.T, play func(t *testing.T, kind string)) {
	for _, kind := range []string{"native", "external"} {
		t.Run(kind, func(t *testing.T) { play(t, kind) })
	}
}

// countOf is how many nodes have that.
func countOf(images map[string]string, image string) int {
	n := 0
	for _, have := range images {
		if have == image {
			n++
		}
	}
	return n
}

func TestAdvancedRollingUpdateLeavesOutNodesThatAreDown(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		e := newEdge(t, 10, kind, rolling("2"))
		e.turn("n3", false)
		e.turn("n7", false)
		e.clock.Step(time.Minute)
		e.edit("img:v2")
		e.roll()
		images := e.images()
		if images["n3"] != "v1" || images["n7"] != "v1" || countOf(images, "v2") != 8 {
			t.Fatalf("images %v: two nodes are down, the others are to be updated", images)
		}
		e.turn("n7", true)
		e.roll()
		if images = e.images(); images["n7"] != "v2" || images["n3"] != "v1" {
			t.Errorf("images %v: n7 has come back", images)
		}
	})
}

// TestNodesThatTheUpdateTookDown: a version that takes its node down stops at the budget, also after a restart; a node that goes down
// long after its update does not count.
func TestNodesThatTheUpdateTookDown(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		e := newEdge(t, 10, kind, rolling("2"))
		e.edit("img:bad")
		for range 60 {
			e.upstream()
			e.mustPass()
			e.live()
			e.clock.Step(time.Second)
			for node, image := range e.images() {
				if image == "bad" && !e.down[node] {
					e.turn(node, false)
				}
			}
		}
		if n := countOf(e.images(), "bad"); n != 2 {
			t.Fatalf("%d nodes have the bad version, the budget is 2", n)
		}
		e.restart()
		e.roll()
		if n := countOf(e.images(), "bad"); n != 2 {
			t.Fatalf("%d nodes have the bad version after a restart, the budget is 2", n)
		}
		e.clock.Step(time.Hour) // what was blamed stays blamed
		e.roll()
		if n := countOf(e.images(), "bad"); n != 2 {
			t.Fatalf("%d nodes have the bad version an hour later, the budget is 2", n)
		}
		for node := range maps.Clone(e.down) {
			e.turn(node, true)
		}
		e.roll()
		if n := countOf(e.images(), "bad"); n != 10 {
			t.Errorf("all nodes are healthy, and %d of 10 are updated", n)
		}
	})
}

// TestWhenANodeGoesDown decides whether it has the one slot, when the last old pod could be updated.
func TestWhenANodeGoesDown(t *testing.T) {
	for after, want := range map[time.Duration]string{time.Minute: "v1", time.Hour: "v2"} {
		both(t, func(t *testing.T, kind string) {
			e := newEdge(t, 4, kind, rolling("1"))
			e.turn("n4", false)
			e.clock.Step(time.Hour)
			e.edit("img:v2")
			e.roll()
			e.clock.Step(after)
			e.turn("n1", false)
			e.turn("n4", true)
			e.roll()
			if got := e.images()["n4"]; got != want {
				t.Errorf("n1 went down %v after its update, and n4 has %s, want %s", after, got, want)
			}
			e.turn("n1", true)
			e.roll()
			if got := e.images()["n4"]; got != "v2" {
				t.Errorf("all are up, and n4 has %s", got)
			}
		})
	}
}

// TestAnExternalSetWritesNothingElse: whatever happens, an external set deletes pods and sets conditions.
func TestAnExternalSetWritesNothingElse(t *testing.T) {
	allowed := []string{"delete", "patch-status", "status"}
	e := newEdge(t, 6, "external", rolling("2"))
	happen := map[string]func(){
		"a new template":      func() { e.edit("img:v2") },
		"a rollback":          func() { e.edit("img:v1") },
		"a node goes":         func() { e.turn("n2", false) },
		"it comes back":       func() { e.turn("n2", true) },
		"a wrong annotation":  func() { e.annotate(edgeLimit, "0") },
		"OTA":                 func() { e.annotate(edgeStrategy, "OTA") },
		"an old pod is alone": func() { e.orphan("n4") },
		"a pod fails":         func() { e.fail("n5") },
		"a pod has gone":      func() { e.gone(e.podOn("n6").Name) },
		"nothing is asked":    func() { e.unannotate(edgeStrategy) },
		"a new leader":        func() { e.restart() },
	}
	for i, name := range append(slices.Sorted(maps.Keys(happen)), slices.Sorted(maps.Keys(happen))...) {
		happen[name]()
		e.alone(name)
		for _, verb := range e.verbs() {
			if !slices.Contains(allowed, verb) {
				t.Fatalf("%s (%d): an external set has done: %v", name, i, e.wrote(verb))
			}
		}
		e.roll()
	}
	for name, r := range e.revisions {
		if len(r.OwnerReferences) != 1 || len(r.Labels) != 2 {
			t.Errorf("revision %s was changed: %+v", name, r.ObjectMeta)
		}
	}
}

// TestAnExternalSetNeverTrustsAnOldHistory: the watch of revisions is behind; the pods that the other controller has made meanwhile are of a
// revision that the index does not know, and stay.
func TestAnExternalSetNeverTrustsAnOldHistory(t *testing.T) {
	e := newEdge(t, 4, "external", rolling("100%"))
	e.edit("img:v2")
	e.blind = true
	newest := false
	r := e.history(&newest)
	for _, name := range slices.Sorted(maps.Keys(e.pods)) { // somebody deletes all pods by hand
		e.gone(name)
	}
	e.forgetLog()
	for node := range e.nodes() {
		e.create(node, r)
	}
	delete(e.podOn("n1").Labels, "pod-template-generation")
	e.changed(e.podOn("n1"))
	e.mustPass() // the other controller has not said that it has seen the template
	e.upstream()
	e.mustPass()
	e.roll()
	if deleted := e.wrote("delete"); len(deleted) > 0 {
		t.Errorf("deleted %v, all of which were up to date", deleted)
	}
}

// A rollback gives the old revision a new number. As long as the index has the old one, pods that were never updated look old.
func TestAnExternalSetSeesARollbackInTime(t *testing.T) {
	e := newEdge(t, 4, "external", rolling("1"))
	e.turn("n1", false)
	e.clock.Step(time.Minute)
	e.edit("img:v2")
	e.roll() // n1 has kept v1
	e.blind = true
	e.edit("img:v1")
	e.turn("n1", true)
	before := e.podOn("n1").UID
	e.roll()
	if after := e.podOn("n1").UID; after != before {
		t.Error("the pod of n1 was of the wanted revision all the time, and was deleted")
	}
	if n := countOf(e.images(), "v1"); n != 4 {
		t.Errorf("images %v", e.images())
	}
}

// Before the other controller has seen a rollback, the newest revision is the one that is to go.
func TestAnExternalSetWaitsForTheOtherController(t *testing.T) {
	e := newEdge(t, 4, "external", rolling("100%"))
	e.turn("n1", false)
	e.clock.Step(time.Minute)
	e.edit("img:v2")
	e.roll()
	e.edit("img:v1")
	e.turn("n1", true)
	e.forgetLog()
	e.mustPass()
	if deleted := e.wrote("delete"); len(deleted) > 0 {
		t.Errorf("deleted %v: nobody has said yet which revision the template is", deleted)
	}
	e.roll()
	if n := countOf(e.images(), "v1"); n != 4 {
		t.Errorf("images %v", e.images())
	}
}

// Reading the history from the API server itself is for a new template, and not for every pass.
func TestAnExternalSetReadsTheHistoryOnce(t *testing.T) {
	e := newEdge(t, 10, "external", rolling("1"))
	e.edit("img:v2")
	e.lists = 0
	e.roll()
	if n := countOf(e.images(), "v2"); n != 10 || e.lists != 1 {
		t.Errorf("%d of 10 nodes are updated, and the history was read %d times", n, e.lists)
	}
}

// The newest revision is deleted by somebody: until the other controller has written it anew nothing is deleted.
func TestTheNewestRevisionIsDeleted(t *testing.T) {
	e := newEdge(t, 3, "external", rolling("100%"))
	e.edit("img:v2")
	e.roll()
	e.edit("img:v1") // the pods of v1 have another generation than the first ones
	e.roll()
	e.forgetLog()
	for name, r := range e.revisions {
		if r.Revision == 3 {
			delete(e.revisions, name)
			e.index.DropRevision(r.UID)
		}
	}
	for _, p := range e.pods {
		p.Labels["pod-template-generation"] = "0"
		e.changed(p)
	}
	e.mustPass()
	if deleted := e.wrote("delete"); len(deleted) > 0 {
		t.Errorf("deleted %v on the word of a history that lost its newest revision", deleted)
	}
}

func TestPodsSayWhetherThereIsANewerRevision(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		e := newEdge(t, 3, kind, map[string]string{edgeStrategy: "OTA"})
		all := func(want string) map[string]string { return map[string]string{"n1": want, "n2": want, "n3": want} }
		expect := func(when string, want map[string]string) {
			t.Helper()
			e.roll()
			if got := e.says(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		expect("first", all("False"))
		e.edit("img:v2")
		expect("a new template", all("True"))
		e.edit("img:v3")
		expect("another one", all("True"))
		e.edit("img:v1")
		expect("rolled back", all("False"))
		e.edit("img:v2")
		e.gone(e.podOn("n2").Name) // its owner has asked for it
		expect("one is updated", map[string]string{"n1": "True", "n2": "False", "n3": "True"})
		e.orphan("n3")
		e.roll()
		e.adopt("n3")
		expect("adopted", map[string]string{"n1": "True", "n2": "False", "n3": "True"})
		e.restart()
		e.forgetLog()
		e.roll()
		if writes := e.wrote("patch-status"); len(writes) > 0 {
			t.Errorf("a new leader has written %v again", writes)
		}
		e.unannotate(edgeStrategy)
		expect("nothing is asked any more", map[string]string{})
	})
}

// The annotation goes while nobody leads: what the pods say tells the next leader.
func TestAnnotationsThatGoWhileNobodyLeads(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		e := newEdge(t, 3, kind, map[string]string{edgeStrategy: "OTA"})
		e.unannotate(edgeStrategy)
		e.restart()
		e.roll()
		if said := e.says(); len(said) > 0 {
			t.Errorf("pods still say %v", said)
		}
	})
}

// One pod cannot be told; the others are, and it is tried again.
func TestAConflictStopsNoOther(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		e := newEdge(t, 4, kind, map[string]string{edgeStrategy: "OTA"})
		e.edit("img:v2")
		e.upstream()
		name := e.podOn("n2").Name
		e.before = func(verb, pod string) error {
			if verb == "patch-status" && pod == name {
				return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod, fmt.Errorf("the object has been modified"))
			}
			return nil
		}
		if err := e.pass(); err == nil {
			t.Error("a pass that could not tell a pod is to be repeated")
		}
		if got := e.says(); countOf(got, "True") != 3 {
			t.Errorf("said %v, all but n2 can be told", got)
		}
		e.before = nil
		e.roll()
		if got := e.says(); countOf(got, "True") != 4 {
			t.Errorf("said %v", got)
		}
	})
}

// TestTheTimeOfAConditionIsThatOfItsStatus: another newest revision is no change of the status.
func TestTheTimeOfAConditionIsThatOfItsStatus(t *testing.T) {
	e := newEdge(t, 1, "external", map[string]string{edgeStrategy: "OTA"})
	since := func() time.Time {
		for _, c := range e.podOn("n1").Status.Conditions {
			if c.Type == "PodNeedUpgrade" {
				return c.LastTransitionTime.Time
			}
		}
		return time.Time{}
	}
	first := since()
	e.edit("img:v2")
	e.roll()
	turned := since()
	e.clock.Step(time.Minute)
	e.edit("img:v3")
	e.roll()
	if !turned.After(first) || !since().Equal(turned) || e.says()["n1"] != "True" {
		t.Errorf("said since %v, turned %v, then %v; says %v", first, turned, since(), e.says())
	}
}

func TestWhatCannotBeHonouredIsReportedAndDeletesNothing(t *testing.T) {
	both(t, func(t *testing.T, kind string) {
		for _, wrong := range []map[string]string{
			{edgeStrategy: "Rolling"}, rolling("0"), rolling("0%"), rolling("200%"), rolling("x"),
		} {
			e := newEdge(t, 3, kind, wrong)
			e.forgetLog()
			e.allEvents()
			e.edit("img:v2")
			e.gone(e.podOn("n2").Name)
			e.roll()
			if got := e.wrote("delete"); len(got) > 0 {
				t.Errorf("%v: deleted %v", wrong, got)
			}
			if len(e.pods) != 3 || e.images()["n2"] != "v2" {
				t.Errorf("%v: what is missing is created all the same: %v", wrong, e.images())
			}
			if got := e.degraded(); !strings.HasPrefix(got, "True InvalidAnnotation: Annotation apps.openyurt.io/") || !strings.Contains(got, "set it to") {
				t.Errorf("%v: condition %q", wrong, got)
			}
			if events := e.allEvents(); !strings.Contains(events, "Warning InvalidAnnotation Annotation apps.openyurt.io/") {
				t.Errorf("%v: events %q", wrong, events)
			}
			e.unannotate(edgeLimit)
			e.annotate(edgeStrategy, "AdvancedRollingUpdate")
			e.roll()
			if got := e.degraded(); got != "" || countOf(e.images(), "v2") != 3 {
				t.Errorf("%v: mended, but condition %q, images %v", wrong, got, e.images())
			}
		}
	})
}

// TestOpenYurtsOwnManagerAtWork: its annotations are its own business then, and everything else goes on.
func TestOpenYurtsOwnManagerAtWork(t *testing.T) {
	e := newEdge(t, 4, "native", rolling("1"))
	may := false
	e.c.dialects["native"].MayAnnotate = func() bool { return may }
	e.edit("img:v2")
	e.forgetLog()
	e.gone(e.podOn("n2").Name)
	e.roll()
	if got := e.wrote("delete"); len(got) > 0 || e.images()["n2"] != "v2" {
		t.Errorf("deleted %v, images %v", got, e.images())
	}
	may = true
	e.roll()
	if n := countOf(e.images(), "v2"); n != 4 {
		t.Errorf("images %v: it has gone", e.images())
	}
	e.annotate(edgeStrategy, "OTA")
	e.roll()
	may = false
	e.forgetLog()
	e.unannotate(edgeStrategy)
	e.edit("img:v3")
	e.roll()
	if got := e.wrote("patch-status"); len(got) > 0 {
		t.Errorf("what pods say was changed: %v", got)
	}
}

// TestPolicyAlongsideOpenYurtsOwnManager: that manager deletes old pods until all nodes have the newest revision, so a held node that got an older one would
// lose it again and again. The policy reports that it controls nothing, and holds again when that manager has stopped.
func TestPolicyAlongsideOpenYurtsOwnManager(t *testing.T) {
	e := newEdge(t, 4, "native", rolling("1"))
	r := &rules{Governance: Governance{Policies: []*policy.Policy{policy.Read(canaryPolicy())}}}
	e.c.Policies = r
	e.roll()
	may := false
	e.c.dialects["native"].MayAnnotate = func() bool { return may }
	e.edit("img:v2")
	e.roll()
	e.gone(e.podOn("n3").Name) // as that manager does
	e.roll()
	if got := r.last(); got.Enforcement != v1alpha1.EnforcementNone || got.Phase != v1alpha1.PhaseStalled || len(got.Blocking) != 1 || got.Blocking[0].Reason != "OpenYurt" || e.images()["n3"] != "v2" {
		t.Errorf("%+v, images %v", got, e.images())
	}
	may = true
	for range 30 {
		e.roll()
	}
	if got := r.last(); got.Phase != v1alpha1.PhaseWaitingForApproval || countOf(e.images(), "v2") != 1 { // the node that has the revision already is the canary
		t.Errorf("%+v, images %v", got, e.images())
	}
}

// Helpers of these tests.

func (e *edge) podOn(node string) *corev1.Pod {
	e.t.Helper()
	for _, p := range e.pods {
		if p.Spec.NodeName == node {
			return p
		}
	}
	e.t.Fatalf("no pod on %s", node)
	return nil
}

// orphan takes the owner from a pod, as the deletion of a set with orphans does.
func (e *edge) orphan(node string) {
	p := e.podOn(node)
	p.OwnerReferences = nil
	e.changed(p)
}

// adopt gives it back, as upstream's controller does.
func (e *edge) adopt(node string) {
	for _, p := range e.pods {
		if p.Spec.NodeName == node && len(p.OwnerReferences) == 0 {
			p.OwnerReferences = append(p.OwnerReferences, e.owner())
			e.changed(p)
		}
	}
}

func (e *edge) fail(node string) {
	p := e.podOn(node)
	p.Status.Phase = corev1.PodFailed
	e.changed(p)
}

// alone is a pass in which nobody else has done anything yet.
func (e *edge) alone(name string) {
	e.t.Helper()
	if err := e.pass(); err != nil {
		e.t.Fatalf("%s: %v", name, err)
	}
}
