// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/localplane"
)

// revisionOf is the entry of the set's history for an image, as the controller writes it.
func revisionOf(t *testing.T, set *appsv1.DaemonSet, number int64, image string) *appsv1.ControllerRevision {
	t.Helper()
	template := set.Spec.Template.DeepCopy()
	template.Spec.Containers[0].Image = image
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte(`"template":{`), []byte(`"template":{"$patch":"replace",`), 1)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", set.Name, number),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Revision: number, Data: runtime.RawExtension{Raw: raw},
	}
}

func TestUndoRestoresTheLastTemplateButOne(t *testing.T) {
	set := daemonSet()
	set.UID = "u1"
	other := daemonSet()
	other.Name, other.UID = "other", "u2"
	client := fake.NewClientset(set, revisionOf(t, set, 4, imageTwo), revisionOf(t, set, 1, imageOne),
		revisionOf(t, set, 5, imageBroken), revisionOf(t, other, 9, "registry.example/other:1"))
	if err := setImage(t.Context(), client, imageBroken); err != nil {
		t.Fatal(err)
	}
	if got := imageNow(t, client); got != imageBroken {
		t.Fatalf("after setImage the image is %s", got)
	}
	if err := undo(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if got := imageNow(t, client); got != imageTwo {
		t.Errorf("after undo the image is %s, want %s", got, imageTwo)
	}
}

func imageNow(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	set, err := client.AppsV1().DaemonSets(namespace).Get(t.Context(), setName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec.Containers[0].Image
}

func TestUndoOfASetWithoutHistory(t *testing.T) {
	set := daemonSet()
	set.UID = "u1"
	err := undo(t.Context(), fake.NewClientset(set, revisionOf(t, set, 1, imageOne)))
	if err == nil || !strings.Contains(err.Error(), "its history holds 1 revision(s)") {
		t.Errorf("got %v", err)
	}
}

func TestTooFewNodes(t *testing.T) {
	err := Run(t.Context(), Options{Plane: localplane.Options{Nodes: LeastNodes - 1}})
	if usage := (*localplane.UsageError)(nil); !errors.As(err, &usage) || !strings.Contains(err.Error(), "needs at least 12") {
		t.Errorf("got %v", err)
	}
}

func TestSubset(t *testing.T) {
	for _, c := range []struct {
		names, of string
		want      bool
	}{{"", "", true}, {"a", "", false}, {"a c", "a b c", true}, {"a d", "a b c", false}, {"b", "a", false}, {"", "a", true}} {
		if got := subset(strings.Fields(c.names), strings.Fields(c.of)); got != c.want {
			t.Errorf("%q in %q: %v", c.names, c.of, got)
		}
	}
}

func TestJudgeFindsEachBrokenPromise(t *testing.T) {
	good := func() *story {
		s := &story{count: 30, witness: &Witness{tally: newTally(nil, 6)}}
		s.seen.kept = 24
		s.model.Done = 30
		s.witness.tally.figures = Figures{Made: 72, MostPerNode: 1, Unavailable: 6, UnavailableInAll: 8}
		return s
	}
	if err := good().judge(t.Context()); err != nil {
		t.Errorf("all promises kept: %v", err)
	}
	for want, spoil := range map[string]func(*story, *Figures){
		"the budget is 6":                      func(_ *story, f *Figures) { f.Unavailable = 7 },
		"2 available pods were taken down":     func(_ *story, f *Figures) { f.Beyond = 2 },
		"a node had 2 pods at once":            func(_ *story, f *Figures) { f.MostPerNode = 2 },
		"1 pods that were ready":               func(_ *story, f *Figures) { f.Needless = 1 },
		"23 of the 24 pods that the bad image": func(s *story, _ *Figures) { s.seen.kept = 23 },
	} {
		s := good()
		spoil(s, &s.witness.tally.figures)
		if err := s.judge(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestAFailureNamesNodesThatWentDarkByThemselves(t *testing.T) {
	failure := errors.New("7 nodes were down")
	s := &story{cut: []string{"n1"}, dark: map[string]bool{}}
	s.remember(view.Model{Cells: []view.Cell{{Node: "n1", NotReady: true}, {Node: "n2"}}})
	if err := s.withDarkNodes(failure); !errors.Is(err, failure) || err.Error() != failure.Error() {
		t.Errorf("only a node that was cut is dark: %v", err)
	}
	s.remember(view.Model{Cells: []view.Cell{{Node: "n3", NotReady: true}}})
	s.remember(view.Model{})
	if err := s.withDarkNodes(failure); !errors.Is(err, failure) || !strings.Contains(err.Error(), "(n3)") {
		t.Errorf("n3 went dark: %v", err)
	}
	if err := s.withDarkNodes(nil); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
}
