// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const isc = `Copyright (c) 2026 Ann

Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided that the above
copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES
WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN
CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`

func TestLicencesAreKnown(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"LICENSE": "ISC", "licence.md": "ISC", "COPYING-ISC": "ISC", "LICENSE.docs": "", "README": ""} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(isc), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := l.read(dir); err != nil || strings.Join(found, " ") != want {
			t.Errorf("in %s there are %q, %v", name, found, err)
		}
	}
}

// TestThisProgram is built from modules itself.
func TestThisProgram(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.check(program, allowed()); err != nil {
		t.Error(err)
	}
	if err := l.check(program, []string{"MIT"}); err == nil || !strings.Contains(err.Error(), "is under Apache-2.0, which is none of MIT: do without it") {
		t.Errorf("with another list: %v", err)
	}
	var first, second bytes.Buffer
	for _, to := range []*bytes.Buffer{&first, &second} {
		if err := l.sbom(program, to); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() || !strings.Contains(first.String(), `"purl": "pkg:golang/github.com/google/licenseclassifier/v2@v2.0.0"`) {
		t.Errorf("the bill of materials is\n%s", &first)
	}
	if err := l.check(filepath.Join("testdata", "nothing"), allowed()); err == nil || !strings.Contains(err.Error(), "build it first") {
		t.Errorf("what is no program: %v", err)
	}
}
