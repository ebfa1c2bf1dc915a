// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const root = "../../.."

// most is the maximum size of the compressed page, in bytes.
const most = 300_000

// TestThePageIsBuiltFromItsSource compares the committed files with a new build.
func TestThePageIsBuiltFromItsSource(t *testing.T) {
	files, err := build(filepath.Join(root, "web"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(root, target))
	if err != nil {
		t.Fatal(err)
	}
	var committed []string
	for _, e := range entries {
		committed = append(committed, e.Name())
	}
	if want := slices.Sorted(maps.Keys(files)); !slices.Equal(committed, want) {
		t.Fatalf("%s has %v, want %v", target, committed, want)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	for _, name := range committed {
		data, err := os.ReadFile(filepath.Join(root, target, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, files[name]) {
			t.Errorf("%s/%s is not what web builds: run make web", target, name)
		}
		if _, err := zip.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if packed.Len() > most {
		t.Errorf("the page has %d bytes when it is compressed, and may have %d", packed.Len(), most)
	}
}

// TestPicturesAreNoOlder: the screenshots in docs are of this page.
func TestPicturesAreNoOlder(t *testing.T) {
	sum := sha256.New()
	for _, name := range []string{"app.css", "app.js", "index.html"} {
		data, err := os.ReadFile(filepath.Join(root, target, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(data)
	}
	noted, err := os.ReadFile(filepath.Join(root, "docs/images/dashboard.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if now := fmt.Sprintf("%x\n", sum.Sum(nil)); string(noted) != now {
		t.Error("the screenshots docs/images/dashboard-*.png are of another page: run make pictures, and look at them")
	}
}

// TestTextIsNeverMarkup: names and messages come from the cluster, and are put into the page as text only.
func TestTextIsNeverMarkup(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "web/src/*.ts*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no sources: %v", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{"innerHTML", "InnerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function", "javascript:", "srcdoc"} {
			if bytes.Contains(data, []byte(never)) {
				t.Errorf("%s has %s", name, never)
			}
		}
	}
}
