// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/revision"
)

// finds is whether another controller, which compares bytes, finds the pods of the set up to date: of all revisions with the bytes that it would write
// for the template, one has the hash that the pods have.
func (w *world) finds(encode func(map[string]any) ([]byte, error)) bool {
	w.t.Helper()
	data, err := encode(w.template())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range w.pods {
		hash := p.Labels[appsv1.ControllerRevisionHashLabelKey]
		found := false
		for _, r := range w.revisions {
			found = found || r.Labels[appsv1.ControllerRevisionHashLabelKey] == hash && string(r.Data.Raw) == string(data)
		}
		if !found {
			return false
		}
	}
	return true
}

func (w *world) template() map[string]any {
	return w.set.Object["spec"].(map[string]any)["template"].(map[string]any)
}

// encoded gives every revision the data that encode makes of its template, as if another controller had written it.
func (w *world) encoded(encode func(map[string]any) ([]byte, error)) {
	w.t.Helper()
	for _, r := range w.revisions {
		template, err := revision.Decode(r.Data.Raw)
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Data.Raw, err = encode(template); err != nil {
			w.t.Fatal(err)
		}
		r.ResourceVersion = w.next()
		w.seeRevision(r)
	}
}

// TestOtherControllersFindTheirRevision: a controller that takes the set over finds the revision of the pods by its bytes, and replaces none. Upstream's
// controller may take an Advanced DaemonSet directly, where it keeps the pods of apps/v1.
func TestOtherControllersFindTheirRevision(t *testing.T) {
	for _, upstream := range []bool{false, true} {
		a := newAdvanced(t, 3, inPlace)
		a.c.UpstreamWorks = func() bool { return upstream }
		a.settle()
		a.image("img:v2")
		a.settle()
		if !a.finds(revision.DataOfOpenKruise) || a.finds(revision.Data) != upstream {
			t.Errorf("upstream at work %v: OpenKruise finds its revision: %v, upstream: %v", upstream, a.finds(revision.DataOfOpenKruise), a.finds(revision.Data))
		}
		if n := len(a.wrote("delete")); n != 0 {
			t.Errorf("%d pods were deleted", n)
		}
	}
}

// TestASetThatWasAdvanced: the revisions are in the form of OpenKruise, and the set can be handed on to upstream's controller; nothing restarts, and the
// revision is written once.
func TestASetThatWasAdvanced(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.settle()
	w.encoded(revision.DataOfOpenKruise)
	w.forgetLog()
	w.settle()
	if !w.finds(revision.Data) {
		t.Error("upstream's controller does not find the revision of the pods")
	}
	if got := w.wrote("create-revision"); len(got) != 1 || len(w.wrote("delete")) != 0 {
		t.Errorf("revisions written %v, deletes %v", got, w.wrote("delete"))
	}
	w.forgetLog()
	_ = w.passesFor(5 * time.Second)
	if len(w.log) != 0 {
		t.Errorf("writes %v, want none", w.log)
	}
	w.edit("img:v2")
	w.settle()
	if !w.finds(revision.Data) || len(w.wrote("create-revision")) != 1 {
		t.Errorf("after the next template: writes of revisions %v", w.wrote("create-revision"))
	}
}

// TestNameOfAFormIsTaken: one event reports the object that keeps the form from being written, because it has the name and other data: a revision of the set, or of a
// stranger.
func TestNameOfAFormIsTaken(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		w := newWorld(t, 2, nil)
		w.settle()
		w.encoded(revision.DataOfOpenKruise)
		taken := w.currentRevision().DeepCopy()
		taken.Name, taken.UID = taken.Name+"-kubernetes", "stranger"
		taken.Data.Raw, taken.ResourceVersion = []byte(`{"spec":{"template":{"$patch":"replace"}}}`), w.next()
		if foreign {
			taken.Labels, taken.OwnerReferences = nil, nil
		}
		w.revisions[taken.Name] = taken
		w.seeRevision(taken)
		for len(w.events.Events) > 0 {
			<-w.events.Events
		}
		_ = w.passesFor(5 * time.Minute)
		var events []string
		for len(w.events.Events) > 0 {
			events = append(events, <-w.events.Events)
		}
		if len(events) != 1 || !strings.Contains(events[0], "ControllerRevision "+taken.Name+" exists with other data or another owner") {
			t.Errorf("foreign %t: events %q, want one that names %s", foreign, events, taken.Name)
		}
	}
}

// TestFormsAreForPods: without pods nothing is written for others, and without a history to keep nothing is deleted and written for ever.
func TestFormsAreForPods(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		none := int32(0)
		w := newWorld(t, nodes, func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = &none })
		w.settle()
		w.encoded(revision.DataOfOpenKruise)
		w.forgetLog()
		_ = w.passesFor(time.Minute)
		if got := len(w.wrote("create-revision")); got != min(nodes, 1) || len(w.wrote("delete-revision")) != 0 {
			t.Errorf("%d nodes: %d revisions written, %v deleted", nodes, got, w.wrote("delete-revision"))
		}
	}
}

// TestAFormThatIsRefused holds nothing, is asked for once a minute, and says why.
func TestAFormThatIsRefused(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.settle()
	w.encoded(revision.DataOfOpenKruise)
	w.before = func(verb, name string) error {
		if verb == "create-revision" && strings.HasSuffix(name, "-kubernetes") {
			return denial(403, "Forbidden")
		}
		return nil
	}
	w.forgetLog()
	_ = w.passesFor(90 * time.Second)
	if n := len(w.wrote("create-revision")); n > 2 {
		t.Errorf("asked for %d times in 90 s", n)
	}
	if events := w.allEvents(); !strings.Contains(events, "it stays") {
		t.Errorf("events %s", events)
	}
	w.edit("img:v2")
	_ = w.passesFor(30 * time.Second)
	for _, p := range w.pods {
		if p.Spec.Containers[0].Image != "img:v2" {
			t.Errorf("pod %s has image %s", p.Name, p.Spec.Containers[0].Image)
		}
	}
}

// TestANameOfAFormThatIsTaken by a revision with another template is left alone.
func TestANameOfAFormThatIsTaken(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.settle()
	other := w.currentRevision().DeepCopy()
	other.Name += "-kubernetes"
	other.UID, other.ResourceVersion = types.UID("other"), w.next()
	other.Data.Raw = []byte(`{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"containers":[{"name":"x","image":"y"}]}}}}`)
	w.revisions[other.Name] = other
	w.seeRevision(other)
	w.encoded(revision.DataOfOpenKruise)
	w.forgetLog()
	_ = w.passesFor(30 * time.Second)
	if len(w.wrote("create-revision"))+len(w.wrote("delete")) != 0 {
		t.Errorf("writes %v", w.log)
	}
}
