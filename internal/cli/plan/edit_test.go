// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// As set-image does it: * is every container, those that run first among them, but for the ones of which something else is said.
func TestImageOfEveryContainer(t *testing.T) {
	container := func(name string) any { return map[string]any{"name": name, "image": "old"} }
	object := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{container("a"), container("b")}, "initContainers": []any{container("c")},
	}}}}
	b := &builder{object: object}
	for _, text := range everyFirst([]string{"b=other", "*=new"}) {
		if err := b.image(text); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(object["spec"].(map[string]any)["template"].(map[string]any)["spec"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"containers":[{"image":"new","name":"a"},{"image":"other","name":"b"}],"initContainers":[{"image":"new","name":"c"}]}`
	if string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	if len(b.ops) != 8 || b.ops[4].Path != "/spec/template/spec/initContainers/0/name" || b.ops[4].Value != "c" || b.ops[7].Value != "other" {
		t.Errorf("the patch is %+v", b.ops)
	}
}

// A plan is a file that anybody may have written: what its edit holds has to be what its type says.
func TestEditsOfAnotherShape(t *testing.T) {
	const object, list = "edit.patch is no JSON object, as edit.type ", "edit.patch is not a list of steps, as edit.type "
	for _, c := range []struct{ kind, patch, want string }{
		{string(types.MergePatchType), "{}", ""},
		{string(types.StrategicMergePatchType), `{"metadata":null}`, ""},
		{string(types.JSONPatchType), "[]", ""},
		{string(types.MergePatchType), "null", object},
		{string(types.StrategicMergePatchType), "null", object},
		{string(types.StrategicMergePatchType), "[]", object},
		{typeCreate, "null", object},
		{typeCreate, "", object},
		{string(types.JSONPatchType), "null", list},
		{string(types.JSONPatchType), "{}", list},
		{"other", "{}", `edit.type "other" is not known`},
	} {
		e := Edit{Type: c.kind, Patch: json.RawMessage(c.patch)}
		err := e.check()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.kind, c.patch, err, c.want)
		}
		if err != nil || c.kind == typeCreate {
			continue
		}
		if guarded, err := e.guarded("uid", "7"); err != nil || !strings.Contains(string(guarded.Patch), `"7"`) {
			t.Errorf("%s %s: guarded as %s, %v", c.kind, c.patch, guarded.Patch, err)
		}
	}
}

// A field that is misspelled is not left out without a word: the server is asked to refuse it, and what is tried here refuses it, too.
func TestMisspelledFields(t *testing.T) {
	for patch, field := range map[string]string{
		`{"spec":{"template":{"spec":{"containers":[{"name":"agent","imagee":"x"}]}}}}`:  `unknown field "spec.template.spec.containers[0].imagee"`,
		`{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavaliable":3}}}}`:             `unknown field "spec.updateStrategy.rollingUpdate.maxUnavaliable"`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"agent","image":"x:y"}]}}}}`: "",
	} {
		for _, advanced := range []bool{false, true} {
			err := newServer(t, settled(advanced, 1).Objects(t)...).Run(t, New, "agent", "--local", "--patch", patch)
			if advanced && field == "" {
				continue // a merge patch of a list leaves no more than it names
			}
			if (err == nil) != (field == "") || err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(field, "unknown field ")) {
				t.Errorf("advanced %v, %s: %v, want %s", advanced, patch, err, field)
			}
		}
	}
	s := newServer(t, settled(false, 1).Objects(t)...)
	if err := s.Run(t, New, "agent", "--max-unavailable", "3"); err != nil {
		t.Fatal(err)
	}
	asked := slices.ContainsFunc(s.Dynamic.Actions(), func(a clienttesting.Action) bool {
		patch, ok := a.(clienttesting.PatchActionImpl)
		return ok && patch.PatchOptions.FieldValidation == metav1.FieldValidationStrict
	})
	if !asked {
		t.Errorf("the server was not asked to be strict: %v", s.Dynamic.Actions())
	}
}

// What a server has stored that knows more fields than this program is no reason to refuse an edit of another field.
func TestFieldsThatOnlyTheServerKnows(t *testing.T) {
	roll := settled(false, 1)
	roll.Spec = map[string]any{"fieldOfTomorrow": int64(1)}
	if err := newServer(t, roll.Objects(t)...).Run(t, New, "agent", "--local", "--max-unavailable", "3"); err != nil {
		t.Error(err)
	}
}

// An image is completed with the containers, and what else is to be changed is no file.
func TestCompletionOfFlags(t *testing.T) {
	for flag, want := range map[string]string{"--image": "agent=", "--max-surge": "", "--strategy": "RollingUpdate OnDelete"} {
		s := newServer(t, settled(false, 1).Objects(t)...)
		cmd := New(s.Options)
		cmd.SetContext(t.Context())
		complete, found := cmd.GetFlagCompletionFunc(strings.TrimPrefix(flag, "--"))
		if !found {
			t.Fatalf("%s falls back to files", flag)
		}
		names, directive := complete(cmd, []string{"agent"}, "")
		if strings.Join(names, " ") != want || directive&cobra.ShellCompDirectiveNoFileComp == 0 {
			t.Errorf("%s: %v, %v, want %s", flag, names, directive, want)
		}
	}
}
