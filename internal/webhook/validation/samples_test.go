// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"everynode.dev/everynode/internal/webhook/conversion"
	"everynode.dev/everynode/internal/webhook/defaulting"
)

// TestSamples: whoever applies a sample of the documentation gets it, with no more said than its comment says, in the version
// in which it is written and in the one that is stored.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "samples", "advanced", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d samples: %v", len(files), err)
	}
	said := map[string][]string{"surging.yaml": {
		"warning: spec.updateStrategy.rollingUpdate.rollingUpdateType: Surging is an old spelling; write Standard, with maxSurge 1 and maxUnavailable 0",
	}}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			obj := sample(t, file)
			defaulting.Default(obj)
			if got := lines(Create(obj, Options{})); !slices.Equal(got, said[filepath.Base(file)]) {
				t.Errorf("as it is written: got %q, want %q", got, said[filepath.Base(file)])
			}
			stored, err := conversion.Convert(obj, beta)
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(Create(stored, Options{})); got != nil {
				t.Errorf("as it is stored: %q", got)
			}
		})
	}
}

func sample(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}
