// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// TestPoliciesOfThePagesAreAccepted: an API server accepts each rollout policy that a page shows, without a field that it does not know. The page about migration, whose
// commands no test types, shows one.
func TestPoliciesOfThePagesAreAccepted(t *testing.T) {
	d := policyDefinition(t)
	var shown []string
	for _, pattern := range []string{"../../docs/*.md", "../../docs/dialects/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("found no page %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, manifest := range policiesOf(string(text)) {
				shown = append(shown, filepath.Base(file))
				for _, wrong := range refusedFields(t, d, manifest) {
					t.Errorf("%s: %s\n%s", file, wrong, manifest)
				}
			}
		}
	}
	if !slices.Contains(shown, "rollout-policy-migration.md") {
		t.Errorf("the page about migration shows no policy, only these do: %q", shown)
	}
}

// policiesOf returns the manifests of rollout policies that a page shows.
func policiesOf(page string) (manifests []string) {
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for _, document := range strings.Split(block[1], "\n---\n") {
			if strings.Contains("\n"+document, "\nkind: RolloutPolicy\n") {
				manifests = append(manifests, document)
			}
		}
	}
	return manifests
}

// refusedFields returns why an API server refuses a manifest, and which of its fields it would drop.
func refusedFields(t *testing.T, d *definition, manifest string) (wrong []string) {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		return []string{err.Error()}
	}
	written := map[string]any{}
	if err := json.Unmarshal(data, &written); err != nil {
		return []string{err.Error()}
	}
	for _, err := range d.creates(t, written) {
		wrong = append(wrong, err.Error())
	}
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, dropped := range pruning.PruneWithOptions(written, d.schema, true, options) {
		wrong = append(wrong, "there is no field "+dropped)
	}
	return wrong
}
