// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func keptNode(name, rv string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: rv}}
}

// heard collects what a NodeStore tells, sorted within each take.
type heard []string

func (h *heard) notify(now, before *corev1.Node) {
	version := func(n *corev1.Node) string {
		if n == nil {
			return "-"
		}
		return n.Name + "@" + n.ResourceVersion
	}
	*h = append(*h, version(before)+">"+version(now))
}

func (h *heard) take() string {
	slices.Sort(*h)
	said := strings.Join(*h, " ")
	*h = nil
	return said
}

func names(t *testing.T, r reader) string {
	t.Helper()
	list := &corev1.NodeList{}
	if err := r.List(t.Context(), list); err != nil {
		return err.Error()
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name+"@"+list.Items[i].ResourceVersion)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestNodesAreHandedOn: who opens the store is told of all that there is and then of each change, and reads what it was told.
func TestNodesAreHandedOn(t *testing.T) {
	s := NewNodeStore()
	r, said := reader{nodes: s}, &heard{}
	s.Put(keptNode("n0", "1"))
	if got := names(t, r); got != errNodesUnknown.Error() {
		t.Errorf("before the first list: %q", got)
	}
	if err := r.Get(t.Context(), types.NamespacedName{Name: "n0"}, &corev1.Node{}); !errors.Is(err, errNodesUnknown) {
		t.Errorf("a node that may be there is said to be gone: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Follow(ended, said.notify); !errors.Is(err, context.Canceled) {
		t.Errorf("opened before anything is known: %v", err)
	}
	s.Replace([]*corev1.Node{keptNode("n1", "2"), keptNode("n2", "2")})
	s.Put(keptNode("n1", "3"))
	if got := said.take(); got != "" {
		t.Errorf("told before open: %q", got)
	}
	if err := s.Follow(t.Context(), said.notify); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name       string
		do         func()
		told, have string
	}{
		{"open", func() {}, "->n1@3 ->n2@2", "n1@3 n2@2"},
		{"joins", func() { s.Put(keptNode("n3", "4")) }, "->n3@4", "n1@3 n2@2 n3@4"},
		{"changes", func() { s.Put(keptNode("n2", "5")) }, "n2@2>n2@5", "n1@3 n2@5 n3@4"},
		{"leaves", func() { s.Remove("n1") }, "n1@3>-", "n2@5 n3@4"},
		{"leaves, said again", func() { s.Remove("n1") }, "", "n2@5 n3@4"},
		{"listed anew", func() { s.Replace([]*corev1.Node{keptNode("n3", "6"), keptNode("n4", "6")}) }, "->n4@6 n2@5>- n3@4>n3@6", "n3@6 n4@6"},
	}
	for _, step := range steps {
		step.do()
		if told, have := said.take(), names(t, r); told != step.told || have != step.have {
			t.Errorf("%s: told %q, want %q; have %q, want %q", step.name, told, step.told, have, step.have)
		}
	}
	n := &corev1.Node{}
	if err := r.Get(t.Context(), types.NamespacedName{Name: "n4"}, n); err != nil || n.ResourceVersion != "6" {
		t.Errorf("n4 is %v, %v", n, err)
	}
	if err := r.Get(t.Context(), types.NamespacedName{Name: "n1"}, n); !apierrors.IsNotFound(err) {
		t.Errorf("n1: %v", err)
	}
}

// TestWhatIsReportedMayBeRead: a handler may read the nodes while it is called for one.
func TestWhatIsReportedMayBeRead(t *testing.T) {
	s := NewNodeStore()
	r, seen := reader{nodes: s}, ""
	s.Replace(nil)
	if err := s.Follow(t.Context(), func(_, _ *corev1.Node) { seen = names(t, r) }); err != nil {
		t.Fatal(err)
	}
	if s.Put(keptNode("n1", "1")); seen != "n1@1" {
		t.Errorf("seen %q", seen)
	}
}

// TestWhatIsKeptOfANode is what image pulls ask for.
func TestWhatIsKeptOfANode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"large"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "long", LastTransitionTime: metav1.Unix(9, 0)}}
	kept := (&NodeStore{}).Keep(n)
	isReady, since := Readiness(kept)
	if !isReady || since.Unix() != 9 || kept.Labels["a"] != "b" || kept.UID != "u" || !CanPull(kept) {
		t.Errorf("kept %+v", kept)
	}
	if kept.Annotations != nil || kept.ManagedFields != nil || kept.Status.Images != nil || len(kept.Status.Conditions) != 1 || kept.Status.Conditions[0].Message != "" {
		t.Errorf("too much is kept: %+v", kept)
	}
	if n.Annotations == nil || n.ManagedFields == nil {
		t.Error("the node itself was changed")
	}
}

// TestNodesAtOnce: however writers and readers meet, who opens the store is told of one change at a time, each from what it was told before,
// and in the end knows what there is. The race detector sees whether anything is read while it is changed.
func TestNodesAtOnce(t *testing.T) {
	s := NewNodeStore()
	r, known := reader{nodes: s}, map[string]*corev1.Node{} // which nothing guards but that one is told at a time
	notify := func(now, before *corev1.Node) {
		runtime.Gosched() // so that another writer gets in between, if one can
		either := now
		if now == nil {
			either = before
		}
		if known[either.Name] != before {
			t.Errorf("%s: told of a change from another version than the one before", either.Name)
		}
		if now == nil {
			delete(known, either.Name)
		} else {
			known[either.Name] = now
		}
	}
	const rounds, nodes = 200, 20
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Follow(t.Context(), notify); err != nil {
			t.Error(err)
		}
	})
	for w := range 4 {
		all.Go(func() {
			for i := range rounds {
				name := fmt.Sprint("n", (w*7+i)%nodes)
				switch i % 5 {
				case 0:
					s.Remove(name)
				case 1:
					s.Replace([]*corev1.Node{keptNode(name, "r"), keptNode("n0", "r")})
				default:
					s.Put(keptNode(name, fmt.Sprint(i)))
				}
			}
		})
		all.Go(func() {
			for i := range rounds {
				n := &corev1.Node{}
				if err := r.Get(t.Context(), types.NamespacedName{Name: fmt.Sprint("n", i%nodes)}, n); err == nil && n.Name == "" {
					t.Error("a node without a name")
				}
				if err := r.List(t.Context(), &corev1.NodeList{}); err != nil && !errors.Is(err, errNodesUnknown) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if !maps.Equal(known, s.all) {
		t.Errorf("told of %d nodes, there are %d, or others", len(known), len(s.all))
	}
}
