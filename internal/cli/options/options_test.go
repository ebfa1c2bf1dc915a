// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestCode(t *testing.T) {
	for want, err := range map[int]error{
		ExitOK:         nil,
		ExitError:      errors.New("x"),
		ExitUsage:      Usagef("x %d", 1),
		ExitUnfinished: fmt.Errorf("waiting: %w", &Exit{Code: ExitUnfinished, Err: io.EOF}),
	} {
		if got := Code(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	if err := error(&Exit{Code: ExitStale, Err: io.EOF}); !errors.Is(err, io.EOF) || err.Error() != "EOF" {
		t.Errorf("the error in it is lost: %v", err)
	}
}

func TestExplain(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	request := Request{Verb: "list", Resource: pods, Namespace: "default"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{apierrors.NewForbidden(pods, "", nil), `you are not allowed to list pods in namespace default: ask for the verb "list" on "pods", and see whether you have it with: kubectl auth can-i list pods -n default`},
		{apierrors.NewUnauthorized("no"), "the cluster rejects your credentials: log in again"},
		{io.EOF, "list pods in namespace default: EOF"},
		{apierrors.NewInternalError(errors.New(`failed calling webhook "v.kb.io": no endpoints`)),
			"list pods in namespace default: Internal error occurred: failed calling webhook \"v.kb.io\": no endpoints (see `kubectl everynode doctor`)"},
	} {
		if got := Explain(c.err, request); strings.Contains(got.Error(), Viewer) || !strings.HasPrefix(got.Error(), c.want) || !errors.Is(got, c.err) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	// A policy answers as a missing right does, but for the text.
	write := Request{Verb: "delete", Resource: pods, Namespace: "default", Name: "a"}
	for text, want := range map[string]string{
		"ValidatingAdmissionPolicy 'registry' with binding 'registry' denied request: no": "the API server refuses to delete pods default/a: ",
		`admission webhook "v.io" denied the request: image "a:1" cannot be used`:         "the API server refuses to delete pods default/a: ",
		`User "jane" cannot delete resource "pods" in API group ""`:                       "you are not allowed to delete pods default/a: ",
	} {
		if got := Explain(apierrors.NewForbidden(pods, "a", errors.New(text)), write); !strings.HasPrefix(got.Error(), want) || !strings.Contains(got.Error(), text) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	nodes := schema.GroupResource{Resource: "nodes"}
	want := `on "nodes" (view, edit and admin have no right to nodes: ask for a ClusterRoleBinding to everynode-viewer), and see whether you have it with: kubectl auth can-i watch nodes --all-namespaces (`
	if got := Explain(apierrors.NewForbidden(nodes, "", nil), Request{Verb: "watch", Resource: nodes}); !strings.Contains(got.Error(), want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := Explain(nil, request); err != nil {
		t.Errorf("success became %v", err)
	}
}

func TestPrint(t *testing.T) {
	value := struct {
		A string `json:"a"`
	}{"x"}
	for output, want := range map[string]string{OutputJSON: "{\n  \"a\": \"x\"\n}\n", OutputYAML: "a: x\n", OutputTable: "table", OutputWide: "table"} {
		var out bytes.Buffer
		o := New(genericiooptions.IOStreams{Out: &out})
		o.Output = output
		err := errors.Join(o.Validate(), o.Print(value, func(w io.Writer) error { _, err := io.WriteString(w, "table"); return err }))
		if err != nil || out.String() != want {
			t.Errorf("%s: %q, %v", output, out.String(), err)
		}
	}
	o := New(genericiooptions.IOStreams{})
	o.Output = "xml"
	if err := o.Validate(); Code(err) != ExitUsage || !strings.Contains(err.Error(), "table, wide, json, yaml") {
		t.Errorf("got %v", err)
	}
}

func TestColumnsDropControlCharacters(t *testing.T) {
	var out bytes.Buffer
	if err := Columns(&out, [][]string{{"NAME", "WHY"}, {"n-1\x1b[2J", "a\nb"}}); err != nil {
		t.Fatal(err)
	}
	if want := "NAME     WHY\nn-1[2J   ab\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestErrorsDropControlCharacters(t *testing.T) {
	if got, want := PrintableLines("a\x1b[2Jb\n\u009bc\td\n"), "a[2Jb\ncd\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{1: "1 KiB", 1 << 10: "1 KiB", 1<<20 - 1: "1024 KiB", 1 << 20: "1.0 MiB", 3_400_000: "3.2 MiB", 10 << 20: "10 MiB", 84 << 20: "84 MiB"} {
		if got := Size(bytes); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
}
