// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// shown is a row of the table of what users see of changes in place.
type shown struct{ name, peer, does, because, page, tests string }

// readShown reads the table of what users see.
func readShown(t *testing.T) (rows []*shown) {
	t.Helper()
	const file = "testdata/openkruise-in-place.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || strings.HasPrefix(word, "#") {
			continue
		}
		if word == "row" {
			rows = append(rows, &shown{name: rest})
			continue
		}
		r := rows[len(rows)-1]
		field := map[string]*string{"peer": &r.peer, "does": &r.does, "because": &r.because, "page": &r.page, "tests": &r.tests}[word]
		if field == nil {
			t.Fatalf("%s:%d: unknown word %q", file, i+1, word)
		}
		*field = rest
	}
	return rows
}

// TestWhatUsersSeeOfChangesInPlace: each row names tests that exist, and each difference has a reason and is on the page of differences.
func TestWhatUsersSeeOfChangesInPlace(t *testing.T) {
	data, err := os.ReadFile("../../docs/differences-from-openkruise.md")
	if err != nil {
		t.Fatal(err)
	}
	page, known := strings.Join(strings.Fields(string(data)), " "), allTests(t)
	for _, r := range readShown(t) {
		differs := r.does != ""
		switch {
		case r.peer == "" || r.tests == "":
			t.Errorf("%s: a row needs peer and tests", r.name)
		case differs != (r.because != "") || differs != (r.page != ""):
			t.Errorf("%s: does, because and page belong together", r.name)
		case differs && !strings.Contains(page, r.page):
			t.Errorf("%s: docs/differences-from-openkruise.md does not have the words %q", r.name, r.page)
		}
		for _, name := range strings.Fields(r.tests) {
			if !known[name] {
				t.Errorf("%s: there is no test %s", r.name, name)
			}
		}
	}
}

// allTests are the names of the tests and scripts of the repository.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	known, test := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, root := range []string{"../../internal", ".."} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if strings.Contains(path, "/testdata/") {
				known[d.Name()] = true
			}
			if !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			data, err := os.ReadFile(path)
			for _, found := range test.FindAllSubmatch(data, -1) {
				known[string(found[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return known
}

// TestColumns: `kubectl get ads` shows the columns of OpenKruise's definition of July 2026, in both versions, from the same fields.
func TestColumns(t *testing.T) {
	openKruise := []string{
		"DESIRED integer .status.desiredNumberScheduled 0", "CURRENT integer .status.currentNumberScheduled 0", "READY integer .status.numberReady 0",
		"UP-TO-DATE integer .status.updatedNumberScheduled 0", "AVAILABLE integer .status.numberAvailable 0", "AGE date .metadata.creationTimestamp 0",
		"CONTAINERS string .spec.template.spec.containers[*].name 1", "IMAGES string .spec.template.spec.containers[*].image 1",
	}
	data, err := os.ReadFile("../../config/kruise/00-crd-daemonsets.apps.kruise.io.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &definition); err != nil {
		t.Fatal(err)
	}
	for _, v := range definition.Spec.Versions {
		var columns []string
		for _, c := range v.AdditionalPrinterColumns {
			columns = append(columns, fmt.Sprint(c.Name, " ", c.Type, " ", c.JSONPath, " ", c.Priority))
		}
		if !slices.Equal(columns, openKruise) {
			t.Errorf("%s has the columns %q", v.Name, columns)
		}
	}
	if names := definition.Spec.Names; len(definition.Spec.Versions) != 2 || !slices.Contains(names.ShortNames, "ads") || !slices.Contains(names.ShortNames, "daemon") {
		t.Errorf("the short names are %q, and there are %d versions", names.ShortNames, len(definition.Spec.Versions))
	}
}
