// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

const primer = root + "/web/vendor/primer"

// TestTokens: the tokens that a style sheet uses are declared, with those that their values use, and no others; one that does not exist is an error.
func TestTokens(t *testing.T) {
	css, err := tokens(primer, []byte(":root{--back:var(--bgColor-inset)}body{color:var(--back);border-radius:var(--borderRadius-default)}"))
	if err != nil {
		t.Fatal(err)
	}
	light, dark, found := strings.Cut(string(css), "@media (prefers-color-scheme:dark)")
	if want := ":root{--bgColor-inset:var(--bgColor-muted);--bgColor-muted:#f6f8fa;--borderRadius-default:var(--borderRadius-medium);--borderRadius-medium:0.375rem}"; light != want || !found {
		t.Errorf("the tokens are %s, want %s", light, want)
	}
	if !strings.HasPrefix(dark, "{:root{--bgColor-inset:") || strings.Contains(dark, "borderRadius") || strings.Contains(dark, "--back") {
		t.Errorf("the tokens of dark pages are %s", dark)
	}
	if _, err := tokens(primer, []byte("a{color:var(--no-such-token)}")); err == nil || !strings.Contains(err.Error(), "--no-such-token") {
		t.Errorf("a token that does not exist: %v", err)
	}
}
