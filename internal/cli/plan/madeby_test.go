// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"everynode.dev/everynode/internal/cli/options"
)

// A document is accepted for the flags that it was made with, and for no others: it could hold any edit.
func TestMadeBy(t *testing.T) {
	p := newPlanned(t, newServer(t, settled(true, 3).Objects(t)...), image3()...)
	made := func() *Document {
		d, err := readDocument(p.Options, p.file)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	own := map[string]string{"image": "agent=registry.example/agent:3", "partition": "1"}
	patch := func(text string) func(d *Document) { return func(d *Document) { d.Edit.Patch = json.RawMessage(text) } }
	for name, c := range map[string]struct {
		change func(d *Document)
		flags  map[string]string
		want   string
	}{
		"its own flags": {func(*Document) {}, own, ""},
		"written in another way": {func(d *Document) {
			d.Edit.Patch = json.RawMessage(strings.ReplaceAll(string(d.Edit.Patch), ",", " ,\n"))
		}, own, ""},
		"another image":     {func(*Document) {}, map[string]string{"image": "agent=registry.example/agent:4", "partition": "1"}, "is not the one of these values"},
		"a flag is missing": {func(*Document) {}, map[string]string{"image": "agent=registry.example/agent:3"}, "is not the one of these values"},
		"another edit":      {patch(`[{"op":"add","path":"/spec/template/spec/hostNetwork","value":true}]`), own, "is not the one of these values"},
		"one step more": {func(d *Document) {
			d.Edit.Patch = append(d.Edit.Patch[:len(d.Edit.Patch)-1], []byte(`,{"op":"add","path":"/spec/template/spec/hostNetwork","value":true}]`)...)
		}, own, "is not the one of these values"},
		"no steps":             {patch(`null`), own, "is not the one of these values"},
		"another kind of edit": {func(d *Document) { d.Edit.Type = "application/merge-patch+json" }, own, "is not the one of these values"},
		"a new set":            {func(d *Document) { d.Edit.Type = typeCreate }, own, "the plan creates ads/agent"},
		"no such container":    {func(*Document) {}, map[string]string{"image": "other=x"}, "the template has no container"},
		"no such flag":         {func(*Document) {}, map[string]string{"surprise": "x"}, "--surprise"},
		"the set is gone":      {func(d *Document) { d.Set = "ads/none" }, own, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := made()
			c.change(d)
			err := d.MadeBy(t.Context(), p.Options.Given, c.flags)
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || options.Code(err) != options.ExitUsage) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	p.editSet(t, func(u *unstructured.Unstructured) { u.SetGeneration(5) })
	if err := made().MadeBy(t.Context(), p.Options.Given, map[string]string{"image": "agent=x"}); err != nil {
		t.Errorf("the set has changed, for which apply refuses the plan: %v", err)
	}
}
