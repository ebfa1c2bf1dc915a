// SPDX-License-Identifier: Apache-2.0

package words

import (
	"maps"
	"slices"
	"testing"
	"testing/fstest"
)

// TestCheckCanFail: the check finds words in prose, in each kind of file and across lines, and only there; and the numbers can neither rise nor fall unnoticed.
func TestCheckCanFail(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"docs/a/page.md":        "He is\ntold `told` [x](told.md)\n\n    told\n\n```\ntold\n```\n<!-- told -->\nis `x` over by\nhand",
		"internal/x/x.go":       "package x // told\n\nimport _ \"told\"\n\n// It is\n// over.\ntype told struct{ a int `told:\"\"` }\n\nvar s = \"a\\ntold\"\n",
		"internal/x/x_test.go":  "package x // told\n",
		"internal/sim/x.go":     "package sim // told\n",
		"test/x.go":             "package x // told\n",
		"config/x/x.yaml":       "a: b # told, untold, Told right\n",
		"charts/everynode/c.md": "told",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := newCheck("# words\ntold | say\nis over | has ended\nby hand | manually\n", "config/ | Told right | a name\n* | never | nothing\n")
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.findings(files)
	if err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, place := range slices.Sorted(maps.Keys(found)) {
		at = append(append(at, place), found[place]...)
	}
	if want := []string{
		"config/x", `config/x/x.yaml:1: "told": write: say`,
		"docs/a/page.md", `docs/a/page.md:2: "told": write: say`, `docs/a/page.md:10: "by hand": write: manually`,
		"internal/x", `internal/x/x.go:1: "told": write: say`, `internal/x/x.go:9: "told": write: say`, `internal/x/x.go:5: "is over": write: has ended`,
	}; !slices.Equal(at, want) {
		t.Errorf("found\n%q, want\n%q", at, want)
	}
	if unused := c.unused(); len(unused) != 1 || unused[0].text != "never" {
		t.Errorf("%d exceptions are unused, want the second one", len(unused))
	}
	for pending, want := range map[string]int{
		"config/x 1\ndocs/a/page.md 2\ninternal/x 3\n": 0, "config/x 1\ndocs/a/page.md 3\ninternal/x 2\n": 2, "# none\n": 3,
		"config/x 1\ndocs/a/page.md 2\ninternal/x 3\ngone 1\n": 1,
	} {
		if list := differences(found, pending); len(list) != want {
			t.Errorf("with %q pending there are the differences %q, want %d", pending, list, want)
		}
	}
}
