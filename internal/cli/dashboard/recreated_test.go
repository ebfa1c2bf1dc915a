// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// A set that is deleted and created again is another one: its page does not show the conditions, the containers and the policy of the first, also if those of the second cannot be read yet.
func TestASetThatIsCreatedAgain(t *testing.T) {
	cluster := zoned(t, roll())
	watched := cluster.Watched("pods")
	w := open(t, cluster)
	<-watched
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	messages := w.follow(ctx, "/api/set/stream"+setQuery)
	seen := viewed{}
	seen.until(t, messages, func() bool { return seen.parts["details"] != nil })
	resource := schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "daemonsets"}
	answered := make(chan struct{})
	t.Cleanup(func() { close(answered) })
	cluster.Dynamic.PrependReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-answered
		return false, nil, nil
	})
	if err := cluster.Dynamic.Tracker().Delete(resource, "default", "agent"); err != nil {
		t.Fatal(err)
	}
	seen.until(t, messages, func() bool { return part[head](t, message{Parts: seen.parts}, "head").Missing })
	again := roll().Object()
	again.SetUID(types.UID("another"))
	again.SetResourceVersion("8")
	if err := cluster.Dynamic.Tracker().Create(resource, again, "default"); err != nil {
		t.Fatal(err)
	}
	seen.until(t, messages, func() bool { return !part[head](t, message{Parts: seen.parts}, "head").Missing })
	if seen.parts["details"] != nil {
		t.Errorf("the page has the details of the first set: %s", seen.parts["details"])
	}
}

// viewed is what a page has of a stream.
type viewed struct{ parts map[string]json.RawMessage }

// until takes messages until what the page has is as it should be.
func (v *viewed) until(t *testing.T, messages <-chan message, is func() bool) {
	t.Helper()
	for m := range messages {
		if m.Full {
			v.parts = map[string]json.RawMessage{}
		}
		maps.Copy(v.parts, m.Parts)
		if is() {
			return
		}
	}
	t.Fatalf("it has only %s", v.parts)
}
