// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
)

// goldens say for each verb which file shows its screens.
func goldens() map[string]string {
	return map[string]string{
		"plan":               "plan/testdata/image.txt",
		"apply":              "plan/testdata/apply.txt",
		"status":             "status/testdata/advanced.txt",
		"top":                "top/testdata/all.txt",
		"dashboard":          "dashboard/testdata/dashboard.txt",
		"explain-node":       "explain/testdata/all.txt",
		"history":            "history/testdata/advanced.txt",
		"diff":               "history/testdata/diff.txt",
		"doctor":             "doctor/testdata/healthy.txt",
		"version":            "version/testdata/wide.txt",
		"ota":                "ota/testdata/list.txt",
		"ota list":           "ota/testdata/list.txt",
		"ota pull":           "ota/testdata/pull.txt",
		"ota upgrade":        "ota/testdata/upgrade.txt",
		"images":             "images/testdata/images.txt",
		"migrate":            "migrate/testdata/to-advanced.txt",
		"adopt":              "adopt/testdata/adopt.txt",
		"adopt openyurt":     "adopt/testdata/openyurt.txt",
		"pause":              "edit/testdata/pause.txt",
		"resume":             "edit/testdata/pause.txt",
		"suspend":            "edit/testdata/suspend.txt",
		"approve":            "approve/testdata/approve.txt",
		"promote":            "approve/testdata/promote.txt",
		"reject":             "approve/testdata/reject.txt",
		"retry":              "approve/testdata/failed.txt",
		"policy":             "policies/testdata/init.txt",
		"policy init":        "policies/testdata/init.txt",
		"partition":          "edit/testdata/partition.txt",
		"canary":             "edit/testdata/canary.txt",
		"restart":            "edit/testdata/restart.txt",
		"set-image":          "edit/testdata/set-image.txt",
		"undo":               "edit/testdata/undo.txt",
		"pre-delete":         "edit/testdata/pre-delete.txt",
		"pre-delete list":    "edit/testdata/pre-delete.txt",
		"pre-delete release": "edit/testdata/pre-delete.txt",
	}
}

// A verb whose screens no golden shows can change them without anybody noticing. A file that shows command lines shows one of the verb.
func TestEveryVerbHasAGolden(t *testing.T) {
	left := goldens()
	for _, verb := range command.Verbs() {
		path := strings.TrimPrefix(verb.CommandPath(), options.Program+" ")
		file, listed := left[path]
		delete(left, path)
		if !listed {
			t.Errorf("%s has no golden: write one, and name it here", path)
			continue
		}
		raw, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
		text := string(raw)
		switch {
		case err != nil:
			t.Errorf("%s: %v", path, err)
		case text == "":
			t.Errorf("%s: %s is empty", path, file)
		case strings.Contains(text, "$ "+options.Program) && !strings.Contains(text, "$ "+options.Program+" "+path):
			t.Errorf("%s: %s shows no command line of it", path, file)
		}
	}
	for path := range left {
		t.Errorf("%s is no verb: take it out", path)
	}
}
