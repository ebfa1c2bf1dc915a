// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"flag"
	"runtime"
	"strings"
	"testing"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/testing/fakecluster"
)

var update = flag.Bool("update", false, "write the golden files")

// TestScreens: what the program was built with, and for, is replaced, for it is another thing on every machine.
func TestScreens(t *testing.T) {
	same := strings.NewReplacer(runtime.Version(), "GO", runtime.GOOS+"/"+runtime.GOARCH, "PLATFORM")
	silent := fakecluster.New(t)
	silent.Options.Given = nil
	fakecluster.Golden(t, *update, "silent.txt", same.Replace(silent.Session(t, command.Root, "version --server http://127.0.0.1:1", "version -o yaml --server http://127.0.0.1:1")))
	for name, lines := range map[string][]string{
		"wide": {"version", "version -o wide", "version --client -o wide"},
		"json": {"version -o json", "version --client -o json", "version -o yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			fakecluster.Golden(t, *update, name+".txt", same.Replace(fakecluster.New(t).Session(t, command.Root, lines...)))
		})
	}
}
