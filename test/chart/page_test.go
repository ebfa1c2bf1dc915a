// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// installPage is docs/install.md.
func installPage(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestPageInstall: what docs/install.md has people set is accepted, and each value of it changes what is installed.
func TestPageInstall(t *testing.T) {
	text := installPage(t)
	sets := regexp.MustCompile(`--set(?:-string)? (\S+)`).FindAllStringSubmatch(text, -1)
	for _, match := range sets {
		values, err := strvals.Parse(match[1])
		if err != nil {
			t.Errorf("--set %s: %v", match[1], err)
			continue
		}
		eachValueCounts(t, values)
	}
	// In the table, and in sentences: `dialects: [native]`.
	spans := regexp.MustCompile("`((?:"+strings.Join(topValues(t), "|")+"): [^`]+)`").FindAllStringSubmatch(text, -1)
	for _, match := range spans {
		values := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte("{"+match[1]+"}"), &values); err != nil {
			t.Errorf("%s: %v", match[1], err)
			continue
		}
		eachValueCounts(t, values)
	}
	_, table, found := strings.Cut(text, "| you want | values |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Count(table, "\n") + 1
	if !found || rows < 5 || len(sets) == 0 || len(spans) <= rows {
		t.Errorf("the page has %d rows of values, %d values in backticks and %d --set: that is not how they are found", rows, len(spans), len(sets))
	}
	for row := range strings.Lines(table) {
		if !slices.ContainsFunc(spans, func(span []string) bool { return strings.Contains(row, span[0]) }) {
			t.Errorf("no value is found in the row %s", row)
		}
	}
}

// topValues are the names of the values at the top.
func topValues(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(load(t).Values))
}

// eachValueCounts renders the chart with values, and without one of them after the other, which has to make a difference.
func eachValueCounts(t *testing.T, values map[string]any) {
	t.Helper()
	render := func(values map[string]any) map[string]string {
		t.Helper()
		data, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := release{values: string(data)}.texts(t)
		if err != nil {
			t.Errorf("%s: %v", data, err)
		}
		return texts
	}
	all := render(values)
	for _, at := range leaves(values) {
		if reflect.DeepEqual(all, render(without(values, at))) {
			t.Errorf("%v: the value %s changes nothing", values, strings.Join(at, "."))
		}
	}
}

// leaves are the paths of all values that are no maps.
func leaves(values map[string]any) (paths [][]string) {
	for name, value := range values {
		below, ok := value.(map[string]any)
		if !ok {
			paths = append(paths, []string{name})
		}
		for _, at := range leaves(below) {
			paths = append(paths, append([]string{name}, at...))
		}
	}
	return paths
}

// without is a copy of the values without that one.
func without(values map[string]any, at []string) map[string]any {
	values = maps.Clone(values)
	if len(at) == 1 {
		delete(values, at[0])
	} else {
		values[at[0]] = without(values[at[0]].(map[string]any), at[1:])
	}
	return values
}

// TestPagesNameValues: `manager.nodeSelector` and the like, which pages name, are values of the chart.
func TestPagesNameValues(t *testing.T) {
	named := regexp.MustCompile("`((?:" + strings.Join(topValues(t), "|") + `)(?:\.[a-zA-Z-]+)+)` + "`")
	count := 0
	for _, page := range pagesWithCommands(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllStringSubmatch(string(data), -1) {
			count++
			node := schemaOf(t)
			for step := range strings.SplitSeq(match[1], ".") {
				if node = node.Properties[step]; node == nil {
					t.Errorf("%s names the value %s, which is not there", page, match[1])
					break
				}
			}
		}
	}
	if count < 5 {
		t.Errorf("pages name %d values: that is not how they are found", count)
	}
}
