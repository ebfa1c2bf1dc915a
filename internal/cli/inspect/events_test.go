// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

// A kubelet can create any number of events about a set, with messages of a megabyte. They are read in pages, and not without end, and little of each message is kept.
func TestEventsWithoutEnd(t *testing.T) {
	cluster := fakecluster.New(t)
	set := &resolver.Set{Object: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "default", "name": "agent", "uid": "uid-agent"}}}}
	pages := 0
	cluster.Kubernetes.PrependReactor("list", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		how := action.(clienttesting.ListActionImpl).ListOptions //nolint:forcetypeassert // it is a list
		if how.Limit == 0 || pages > 0 && how.Continue != fmt.Sprint(pages) {
			t.Fatalf("page %d is read with %+v", pages, how)
		}
		if pages++; pages > 100 {
			t.Fatal("it reads without end")
		}
		list := &corev1.EventList{ListMeta: metav1.ListMeta{Continue: fmt.Sprint(pages)}}
		for range how.Limit {
			list.Items = append(list.Items, corev1.Event{InvolvedObject: corev1.ObjectReference{UID: "uid-agent"}, Reason: "Bad", Message: strings.Repeat("é", 10000)})
		}
		return true, list, nil
	})
	list, err := Events(t.Context(), cluster.Options.Given, set, 50)
	if err != nil || len(list.Events) != 50 || pages != mostEventPages {
		t.Fatalf("%d events of %d pages: %v", len(list.Events), pages, err)
	}
	if says := list.String(); !strings.HasPrefix(says, "50 of 2000 or more: ") {
		t.Errorf("it reports %q", says)
	}
	for _, e := range list.Events {
		if n := utf8.RuneCountInString(e.Message); n > longestMessage || !strings.HasSuffix(e.Message, "é...") {
			t.Fatalf("a message has %d characters", n)
		}
	}
}

// Which of the events are shown is reported, unless these are all.
func TestWhichEventsAreShown(t *testing.T) {
	for want, l := range map[string]EventList{
		"":                    {Events: make([]Event, 50), Read: 50},
		"The last 50 of 312.": {Events: make([]Event, 50), Read: 312},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
