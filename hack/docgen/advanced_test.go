// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/webhook/validation"
)

const specType = `package v1

type Spec struct {
	Inlined
	// Size is how much there is.
	// +optional
	Size int32 ` + "`json:\"size,omitempty\"`" + `
	// Names are lists of words,
	// one for each.
	Names []string ` + "`json:\"names\"`" + `
	// Inner holds more.
	Inner *Inner ` + "`json:\"inner\"`" + `
	// Old is from before. It is rejected.
	Old *Inner ` + "`json:\"old\"`" + `
	hidden int
}

type Inner struct {
	// On switches it on.
	On *bool ` + "`json:\"on\"`" + `
}
`

func TestFieldsOf(t *testing.T) {
	rows, err := fieldsOf(tree(t, map[string]string{"api/v1/types.go": specType}), "api/v1", "Spec", "spec")
	if err != nil {
		t.Fatal(err)
	}
	want := []fieldRow{
		{Path: "spec.size", Kind: "number", Doc: "How much there is.", Zero: "0"},
		{Path: "spec.names", Kind: "list of strings", Doc: "Lists of words, one for each."},
		{Path: "spec.inner", Kind: "object", Doc: "Holds more."},
		{Path: "spec.inner.on", Kind: "boolean", Doc: "Switches it on."},
		{Path: "spec.old", Kind: "object", Doc: "From before. It is rejected."},
	}
	if !slices.Equal(rows, want) {
		t.Errorf("got  %+v\nwant %+v", rows, want)
	}
}

func TestFieldWithoutCommentIsRefused(t *testing.T) {
	silent := "package v1\n\ntype Spec struct {\n\tSize int32 `json:\"size\"`\n}\n"
	_, err := fieldsOf(tree(t, map[string]string{"api/v1/types.go": silent}), "api/v1", "Spec", "spec")
	if err == nil || !strings.Contains(err.Error(), "field size of api/v1.Spec has no comment") {
		t.Errorf("got error %v", err)
	}
}

func TestAMistakeThatIsNoneIsRefused(t *testing.T) {
	fine := []input{{"v1beta1", []string{"spec.minReadySeconds", "1"}}}
	_, err := ask(fine, func(r validation.Result) []string { return r.Warnings })
	if err == nil || !strings.Contains(err.Error(), "nothing is said to spec.minReadySeconds: 1") {
		t.Errorf("got error %v", err)
	}
}

func TestNamesWithoutCommentAreRefused(t *testing.T) {
	_, err := named(tree(t, map[string]string{"a/a.go": "package a\n\n// The keys.\nconst (\n\tKey = \"x\"\n)\n"}), "a", "The keys")
	if err == nil || !strings.Contains(err.Error(), "a.Key has no comment") {
		t.Errorf("got error %v", err)
	}
	if _, err := named(tree(t, map[string]string{"a/a.go": "package a\n"}), "a", "The keys"); err == nil {
		t.Error("a declaration that is not there was found")
	}
}

// TestAForeignTypeHidesNoValue: the value of a constant is known though its type is not looked into.
func TestAForeignTypeHidesNoValue(t *testing.T) {
	entries, err := named(tree(t, map[string]string{"a/a.go": `package a

import "example.com/unknown"

// The gates.
const (
	// Gate is a gate.
	Gate unknown.Type = "Gate"
)
`}), "a", "The gates")
	if err != nil || len(entries) != 1 || entries[0] != (entry{"Gate", "A gate."}) {
		t.Errorf("got %+v, %v", entries, err)
	}
}

func TestNamesAreWrittenAsUsersWriteThem(t *testing.T) {
	entries, err := named(tree(t, map[string]string{"api/names.go": `package api

// Annotations on a set.
const (
	// Taint is put on nodes.
	Taint = "x.dev/taint"
	// First asks for the taint Taint, and for the reason Same.
	First = "x.dev/first"
	// Same is a reason.
	Same = "Same"
)
`}), "api", "Annotations on a set")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := entries[1].Doc, "Asks for the taint `x.dev/taint`, and for the reason Same."; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
