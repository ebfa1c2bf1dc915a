// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commitOf is what a manager says that it was built from; of a tree with changes it ends with -dirty.
func commitOf(ctx context.Context, program string) (string, error) {
	said, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w; run `make build`", program, err)
	}
	words := strings.Fields(string(said))
	if len(words) == 0 || words[len(words)-1] == "unknown" {
		return "", fmt.Errorf("%s does not say which commit it was built from, but %q: build it with `make build`, in a clone", program, said)
	}
	return words[len(words)-1], nil
}

func TestCommitOf(t *testing.T) {
	program := func(script string) string {
		name := filepath.Join(t.TempDir(), "manager")
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if commit, err := commitOf(t.Context(), program(`test "$1" = --version && echo everynode-manager version 5fa849d-dirty`)); err != nil || commit != "5fa849d-dirty" {
		t.Errorf("%q, %v", commit, err)
	}
	for _, script := range []string{"echo everynode-manager version unknown", "exit 1", "true"} {
		if commit, err := commitOf(t.Context(), program(script)); err == nil {
			t.Errorf("%s: %q", script, commit)
		}
	}
}
