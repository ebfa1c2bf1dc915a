// SPDX-License-Identifier: Apache-2.0

package options

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestSelector: what a selector chooses is what kubectl -l chooses with the same text.
func TestSelector(t *testing.T) {
	var nodes []labels.Set
	for _, a := range []string{"", "b", "c"} {
		for _, d := range []string{"", "e"} {
			node := labels.Set{}
			if a != "" {
				node["a"] = a
			}
			if d != "" {
				node["d"] = d
			}
			nodes = append(nodes, node)
		}
	}
	for _, text := range []string{"", "a=b", "a==b", "a!=b", "a=b,d!=e", "a", "!a", "a in (b,c)", "a notin (b,c),d", "a=b,a=c", "a=b,a!=c"} {
		want, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		read, err := Selector(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, err := metav1.LabelSelectorAsSelector(read)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, node := range nodes {
			if got.Matches(node) != want.Matches(node) {
				t.Errorf("%q of a node with %v: %v, want %v (%v)", text, node, got.Matches(node), want.Matches(node), read)
			}
		}
	}
	for _, text := range []string{"a>1", "a<1", "a=b=c", "a in", "=b"} {
		if read, err := Selector(text); err == nil {
			t.Errorf("%q is read as %v", text, read)
		}
	}
}
