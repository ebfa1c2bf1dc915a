// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// update writes the table of docs/support.md.
var update = flag.Bool("update", false, "write docs/support.md")

// minor is a line of hack/minors.
type minor struct {
	number                       int
	version, day, target, commit string
}

// TestOnlyWhatRanIsClaimed: the chart and the pages name the versions of Kubernetes that are in hack/minors, and no others.
func TestOnlyWhatRanIsClaimed(t *testing.T) {
	data, err := os.ReadFile("minors")
	if err != nil {
		t.Fatal(err)
	}
	ran, err := readMinors(string(data))
	if err != nil {
		t.Fatal(err)
	}
	newest, oldest, span := ran[0].version, ran[len(ran)-1].number, spanOf(ran)
	checkTable(t, ran)
	for name, line := range map[string]string{
		"localplane/go.mod":              "\tk8s.io/kubernetes " + newest,
		"charts/everynode/Chart.yaml":    fmt.Sprintf(`kubeVersion: ">=1.%d.0-0"`, oldest),
		"internal/cli/doctor/install.go": fmt.Sprintf("const oldestMinor, newestMinor = %d, %d", oldest, ran[0].number),
		"README.md":                      "**Maturity:** tested with Kubernetes " + span + " on local clusters and real nodes; not used in production, and not released yet.",
		"docs/support.md":                "Supported versions of Kubernetes: " + span + ".",
		"docs/install.md":                "You need a cluster with **Kubernetes " + span + "** and administrator permissions. No other version has been tested, and the chart refuses older",
		"docs/comparison.md":             "| tested versions of Kubernetes | each | many | many | **" + span + "** |",
	} {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(strings.Split(string(text), "\n"), line) {
			t.Errorf("%s has no line\n%s\nas hack/minors would have it", name, line)
		}
	}
}

// checkTable compares the table of docs/support.md with what ran, or writes it.
func checkTable(t *testing.T, ran []minor) {
	t.Helper()
	const page, begin, end = "../docs/support.md", "<!-- minors: begin -->\n", "<!-- minors: end -->"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no section minors", page)
	}
	text := before + begin + table(ran) + end + after
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if text != string(raw) {
		t.Errorf("the table of %s is not that of hack/minors: go test ./hack -run TestOnlyWhatRanIsClaimed -update", page)
	}
}

// table is what the page has of each minor.
func table(ran []minor) string {
	what := map[string]string{
		"test": "unit tests, smoke tests of all suites, Kubernetes' own end-to-end tests", "test-all": "all suites",
		"test-minor": "smoke tests of all dialects, handovers",
	}
	var text strings.Builder
	text.WriteString("| Kubernetes | tested patch | what passed | day | recorded in commit |\n|---|---|---|---|---|\n")
	for _, m := range ran {
		fmt.Fprintf(&text, "| 1.%d | %s | %s (`%s`) | %s | `%s` |\n", m.number, m.version, what[m.target], again(m), m.day, m.commit)
	}
	return text.String()
}

// again is the command that runs the same.
func again(m minor) string {
	switch m.target {
	case "test-minor":
		return fmt.Sprintf("make test SUITE=minor KUBE_MINOR=1.%d", m.number)
	default:
		return "make " + m.target
	}
}

// spanOf is how pages say which minors there are.
func spanOf(ran []minor) string {
	newest, oldest := ran[0].number, ran[len(ran)-1].number
	if newest == oldest {
		return fmt.Sprintf("1.%d", newest)
	}
	return fmt.Sprintf("1.%d to 1.%d", oldest, newest)
}

// readMinors reads the text of hack/minors.
func readMinors(text string) (ran []minor, err error) {
	entry := regexp.MustCompile(`^(v1\.(\d+)\.\d+) (\d{4}-\d\d-\d\d) (test|test-all|test-minor) ([0-9a-f]{8,40})$`)
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		match := entry.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("line %d of hack/minors is %q: write a version, a day, test, test-all or test-minor, and a commit", n+1, line)
		}
		number, err := strconv.Atoi(match[2])
		if err != nil {
			return nil, fmt.Errorf("line %d of hack/minors: %w", n+1, err)
		}
		if len(ran) > 0 && number != ran[len(ran)-1].number-1 {
			return nil, fmt.Errorf("line %d of hack/minors is about 1.%d, after 1.%d: no minor may be left out, and the newest is the first", n+1, number, ran[len(ran)-1].number)
		}
		ran = append(ran, minor{number, match[1], match[3], match[4], match[5]})
	}
	if ran == nil {
		return nil, fmt.Errorf("hack/minors names no version")
	}
	return ran, nil
}

func TestReadMinors(t *testing.T) {
	ran, err := readMinors("# one\nv1.37.1 2026-11-22 test 12345678\nv1.36.4 2026-11-23 test-all 12345678\nv1.35.0 2026-11-23 test-minor 12345678\n")
	if err != nil || len(ran) != 3 || ran[1] != (minor{36, "v1.36.4", "2026-11-23", "test-all", "12345678"}) || spanOf(ran) != "1.35 to 1.37" || spanOf(ran[:1]) != "1.37" {
		t.Errorf("read %+v, error %v", ran, err)
	}
	if got := table(ran[2:]); !strings.HasSuffix(got, "|\n| 1.35 | v1.35.0 | smoke tests of all dialects, handovers (`make test SUITE=minor KUBE_MINOR=1.35`) | 2026-11-23 | `12345678` |\n") {
		t.Errorf("the table is\n%s", got)
	}
	for text, want := range map[string]string{
		"":                                     `line 1 of hack/minors is ""`,
		"# none\n":                             "names no version",
		"v1.37 2026-11-22 test-all 12345678\n": "line 1",
		"v1.37.1 2026-11-22 seen 12345678\n":   "line 1",
		"v1.37.1 2026-11-22 test-all\n":        "line 1",
		"v1.37.1 2026-11-22 test-all 12345678\nv1.35.0 2026-11-22 test-minor 12345678\n": "line 2 of hack/minors is about 1.35, after 1.37",
		"v1.36.1 2026-11-22 test-all 12345678\nv1.37.1 2026-11-22 test-all 12345678\n":   "line 2 of hack/minors is about 1.37, after 1.36",
	} {
		if _, err := readMinors(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", text, err, want)
		}
	}
}
