// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
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

const mit = `MIT License

Copyright (c) 2026 Bob

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to
deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense,
and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER
DEALINGS IN THE SOFTWARE.
`

func TestLicencesAreKnown(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"LICENSE": "ISC", "licence.md": "ISC", "COPYING-ISC": "ISC", "LICENSE.docs": "", "license.go": "", "README": ""} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(isc), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := l.read(dir); err != nil || strings.Join(found, " ") != want {
			t.Errorf("in %s there are %q, %v", name, found, err)
		}
	}
}

// TestLicencesOfWhatWasTakenOver are found where a program holds it, and no licence is passed over that is not known.
func TestLicencesOfWhatWasTakenOver(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": isc, "third_party/LICENSE": mit, "third_party/forked/a/a.go": "package a", "internal/b/b.go": "package b", "odd/COPYING": "All rights reserved.",
	} {
		name = filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for packages, want := range map[string]string{"": "ISC", "internal/b": "ISC", "third_party/forked/a": "ISC MIT", "internal/b third_party/forked/a": "ISC MIT"} {
		if found, err := l.collect(module, strings.Fields(packages)); err != nil || strings.Join(found, " ") != want {
			t.Errorf("with %q: %q, %v", packages, found, err)
		}
	}
	if _, err := l.collect(module, []string{"odd"}); err == nil || !strings.Contains(err.Error(), filepath.Join("odd", "COPYING")+" holds no licence that is known") {
		t.Errorf("a licence that nobody knows: %v", err)
	}
	if _, err := l.collect(filepath.Join(module, "internal"), nil); err == nil || !strings.Contains(err.Error(), "there is no licence in") {
		t.Errorf("no licence: %v", err)
	}
}

func TestPackageOf(t *testing.T) {
	for function, want := range map[string]string{
		"main.main": "main", "gopkg.in/yaml%2ev3.(*parser).peek": "gopkg.in/yaml.v3", "k8s.io/api/core/v1.init": "k8s.io/api/core/v1", "go:main.inittasks": "go:main",
		"example.com/a.F[go.shape.struct { example.com/b.X }]": "example.com/a",
		"example.com/a.(*T).golang.org/x/net/http2.f":          "example.com/a", "_rt0_amd64_linux": "", "example.com/a%zz.F": "",
	} {
		if got := packageOf(function); got != want {
			t.Errorf("%s is of %q, want %q", function, got, want)
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
	if linked, err := packages(program); err != nil || !slices.Contains(linked, "github.com/google/licenseclassifier/v2/assets") {
		t.Errorf("the packages of this program are %q, %v", linked, err)
	}
	if err := l.check(program, allowed()); err != nil {
		t.Error(err)
	}
	if err := l.check(program, []string{"MIT"}); err == nil || !strings.Contains(err.Error(), "is under Apache-2.0, which is none of MIT: do without it") {
		t.Errorf("with another list: %v", err)
	}
	if err := l.check(filepath.Join("testdata", "nothing"), allowed()); err == nil || !strings.Contains(err.Error(), "build it first") {
		t.Errorf("what is no program: %v", err)
	}
}

// TestLicencesOfThePage: what the page of the dashboard is built from is in no module, so the licence of each part is in the file next to it.
func TestLicencesOfThePage(t *testing.T) {
	l, err := newLibrary()
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("../../../web/vendor/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("nothing is in web/vendor: %v", err)
	}
	for _, dir := range dirs {
		found, err := l.read(dir)
		if err != nil || len(found) != 1 || !slices.Contains(allowed(), found[0]) {
			t.Errorf("%s is under %q, %v", dir, found, err)
		}
	}
}
