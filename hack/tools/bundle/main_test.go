// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChannels: a pre-release is in a channel of its own. What the bundle holds is tested where a release is: TestBundle and TestBundleIsTheChart of test/chart.
func TestChannels(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "channels.v1: stable\n", "v1.2.3-rc.1": "channels.v1: candidate\n"} {
		dir := t.TempDir()
		if err := run([]string{"-version", version, "../../..", dir}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "metadata", "annotations.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), want) {
			t.Errorf("%s: no %q in\n%s", version, want, data)
		}
	}
}

// TestUnknownObjects: an object of a kind that a bundle cannot hold is refused, so that config/ does not grow by one that is lost here.
func TestUnknownObjects(t *testing.T) {
	b := &bundle{files: map[string]object{}}
	err := b.add(object{"kind": "FlowSchema", "metadata": object{"name": "everynode-manager"}})
	if err == nil || !strings.Contains(err.Error(), "FlowSchema everynode-manager") {
		t.Errorf("got %v", err)
	}
	if err := run([]string{"-version", "1.2.3", "../../..", t.TempDir()}); err == nil {
		t.Error("a version without v is accepted")
	}
}
