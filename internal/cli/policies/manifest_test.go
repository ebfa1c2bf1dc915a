// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"strings"
	"testing"

	"everynode.dev/everynode/internal/cli/policies"
)

// TestParse: each error has the path of the field and how it is written.
func TestParse(t *testing.T) {
	const head = "apiVersion: everynode.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: a, creationTimestamp: null}\nspec: "
	for spec, want := range map[string]string{
		"{targets: []}":                                  "",
		"{waves: [{name: a, sok: 1h}]}":                  "spec.waves[0].sok: there is no such field: correct its name or remove it; the fields are after, analysis, growth, name, nodes, soak",
		"{waves: [{name: a, Soak: 1h}]}":                 "spec.waves[0].Soak: there is no such field",
		"{waves: [{name: a, soak: 1d}]}":                 `spec.waves[0].soak: "1d" is not a duration: write a duration such as 30s, 10m or 24h`,
		"{unreachableAfter: 15}":                         "spec.unreachableAfter: 15 is not a duration",
		"{waves: [{name: 7, nodes: []}]}":                "spec.waves[0].name: 7 is a number: write a text, in quotes if it looks like a number; spec.waves[0].nodes: it is a list: write an object",
		"{waves: {}}":                                    "spec.waves: it is an object: write a list",
		"{waves: [{nodes: {count: \"3\"}}]}":             `spec.waves[0].nodes.count: "3" is a text: write a whole number`,
		"{waves: [{nodes: {count: 1.5}}]}":               "spec.waves[0].nodes.count: 1.5 is a number: write a whole number",
		"{suspend: 1}":                                   "spec.suspend: 1 is a number: write true or false",
		"{pace: {maxUpgrading: [1]}}":                    "spec.pace.maxUpgrading: [1] is neither a number nor a percentage such as 10%",
		"{freezes: [{from: tomorrow}]}":                  `spec.freezes[0].from: "tomorrow" is not a time: write one such as 2026-12-24T18:00:00Z`,
		"{targets: [{selector: {matchLabels: {a: 1}}}]}": "spec.targets[0].selector.matchLabels.a: 1 is a number: write a text, in quotes if it looks like a number",
		"{targets: [{selector: {matchLabels: a}}]}":      "spec.targets[0].selector.matchLabels: it is a text: write an object",
		"{suspend: true, suspend: false}":                `key "suspend" already set`,
	} {
		_, object, err := policies.Parse([]byte(head + spec))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && object["spec"] == nil {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}
