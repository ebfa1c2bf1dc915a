// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"slices"
	"testing"
)

// TestAnUpdateThatHasBegunGoesOn: a node whose old pod was deleted for the newest revision gets that one, also when the update is held back before the
// pod has gone. It has to be remembered, for nothing in the cluster says so.
func TestAnUpdateThatHasBegunGoesOn(t *testing.T) {
	for name, hold := range map[string]map[string]any{
		"paused": {"paused": true}, "kept": {"partition": int64(3)}, "not selected": {"selector": map[string]any{"matchLabels": map[string]any{"zone": "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdvanced(t, 3, standard)
			a.settle()
			a.image("img:v2")
			a.mustPass()
			if n := len(a.wrote("delete")); n != 1 {
				t.Fatalf("%d deletes, want one", n)
			}
			a.change(func(spec map[string]any) { spec["updateStrategy"] = map[string]any{"rollingUpdate": hold} })
			a.settle()
			var images []string
			for _, p := range a.pods {
				images = append(images, p.Spec.Containers[0].Image)
			}
			slices.Sort(images)
			if want := []string{"img:v1", "img:v1", "img:v2"}; !slices.Equal(images, want) {
				t.Errorf("the pods have %v, want %v", images, want)
			}
			if got := a.status("updatedNumberScheduled"); got != 1 {
				t.Errorf("updated %d, want 1", got)
			}
		})
	}
}
