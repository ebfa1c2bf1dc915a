// SPDX-License-Identifier: Apache-2.0

package textdiff

import "testing"

func TestUnified(t *testing.T) {
	a := map[string]any{"spec": map[string]any{"a": int64(1), "image": "one", "z": "x"}}
	b := map[string]any{"spec": map[string]any{"a": int64(1), "image": "two", "z": "x"}}
	want := `--- before
+++ after
@@ -1,4 +1,4 @@
 spec:
   a: 1
-  image: one
+  image: two
   z: x
`
	if got, err := Unified("before", "after", a, b); err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	if got, err := Unified("before", "after", a, a); err != nil || got != "" {
		t.Errorf("equal objects differ: %v\n%s", err, got)
	}
	if got, err := Unified("before", "after", nil, map[string]any{"a": "b"}); err != nil || got != "--- before\n+++ after\n@@ -0,0 +1 @@\n+a: b\n" {
		t.Errorf("what is new: %v\n%s", err, got)
	}
}
