// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCovers(t *testing.T) {
	for path, want := range map[string]string{
		"/var/lib/kubelet/plane": "/var/lib/kubelet",
		"/var/lib/containerd":    "/var/lib/containerd",
		"/var/log/plane":         "/var/log",
		"/var/lib/plane":         "",
		"/var/lib/kubelets":      "",
		"/tmp/plane":             "",
	} {
		if got, is := Covers(path); got != want || is != (want != "") {
			t.Errorf("%s is below %q, want %q", path, got, want)
		}
	}
}

func TestAnotherProgramHasAnotherTag(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agent")
	tag := func(content string) string {
		t.Helper()
		if err := os.WriteFile(program, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		tag, err := Tag(program)
		if err != nil {
			t.Fatal(err)
		}
		return tag
	}
	first := tag("one")
	if second := tag("another"); first == second || tag("one") != first {
		t.Errorf("tags %s and %s of two programs", first, second)
	}
	if _, err := Tag(program + "-gone"); err == nil {
		t.Error("a program that is not there has a tag")
	}
}
