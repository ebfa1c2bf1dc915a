// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOnlyWhatRanIsClaimed: the chart and the pages name the versions of Kubernetes that are in hack/minors, and no others.
func TestOnlyWhatRanIsClaimed(t *testing.T) {
	data, err := os.ReadFile("minors")
	if err != nil {
		t.Fatal(err)
	}
	newest, minors, err := readMinors(string(data))
	if err != nil {
		t.Fatal(err)
	}
	oldest, span := slices.Min(minors), spanOf(minors)
	for name, line := range map[string]string{
		"localplane/go.mod":              "\tk8s.io/kubernetes " + newest,
		"charts/everynode/Chart.yaml":    fmt.Sprintf(`kubeVersion: ">=1.%d.0-0"`, oldest),
		"internal/cli/doctor/install.go": fmt.Sprintf("const oldestMinor = %d", oldest),
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

// spanOf is how pages say which minors there are.
func spanOf(minors []int) string {
	if len(minors) == 1 {
		return fmt.Sprintf("1.%d", minors[0])
	}
	return fmt.Sprintf("1.%d to 1.%d", slices.Min(minors), slices.Max(minors))
}

// readMinors reads the newest version and all minors from the text of hack/minors.
func readMinors(text string) (newest string, minors []int, err error) {
	entry := regexp.MustCompile(`^(v1\.(\d+)\.\d+) \d{4}-\d\d-\d\d (test|test-all|test-minor)$`)
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		match := entry.FindStringSubmatch(line)
		if match == nil {
			return "", nil, fmt.Errorf("line %d of hack/minors is %q: write a version, a day, and test, test-all or test-minor", n+1, line)
		}
		minor, err := strconv.Atoi(match[2])
		if err != nil {
			return "", nil, fmt.Errorf("line %d of hack/minors: %w", n+1, err)
		}
		switch last := len(minors) - 1; {
		case last < 0:
			newest = match[1]
		case minor != minors[last]-1:
			return "", nil, fmt.Errorf("line %d of hack/minors is about 1.%d, after 1.%d: no minor may be left out, and the newest is the first", n+1, minor, minors[last])
		}
		minors = append(minors, minor)
	}
	if minors == nil {
		return "", nil, fmt.Errorf("hack/minors names no version")
	}
	return newest, minors, nil
}

func TestReadMinors(t *testing.T) {
	newest, minors, err := readMinors("# one\nv1.37.1 2026-11-22 test\nv1.36.4 2026-11-23 test-all\nv1.35.0 2026-11-23 test-minor\n")
	if err != nil || newest != "v1.37.1" || !slices.Equal(minors, []int{37, 36, 35}) || spanOf(minors) != "1.35 to 1.37" || spanOf(minors[:1]) != "1.37" {
		t.Errorf("newest %s, minors %v, error %v", newest, minors, err)
	}
	for text, want := range map[string]string{
		"":                            `line 1 of hack/minors is ""`,
		"# none\n":                    "names no version",
		"v1.37 2026-11-22 test-all\n": "line 1",
		"v1.37.1 2026-11-22 seen\n":   "line 1",
		"v1.37.1 2026-11-22 test-all\nv1.35.0 2026-11-22 test-minor\n": "line 2 of hack/minors is about 1.35, after 1.37",
		"v1.36.1 2026-11-22 test-all\nv1.37.1 2026-11-22 test-all\n":   "line 2 of hack/minors is about 1.37, after 1.36",
	} {
		if _, _, err := readMinors(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", text, err, want)
		}
	}
}
