// SPDX-License-Identifier: Apache-2.0

// Package textdiff compares objects as YAML, line by line.
package textdiff

import (
	"fmt"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"
)

// context is the number of equal lines around differences.
const context = 3

// Unified returns a unified diff of the YAML of a and b, with these names; it is empty if they do not differ.
func Unified(nameA, nameB string, a, b map[string]any) (string, error) {
	linesA, err := lines(a)
	if err != nil {
		return "", err
	}
	linesB, err := lines(b)
	if err != nil {
		return "", err
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: linesA, B: linesB, FromFile: nameA, ToFile: nameB, Context: context})
	if err != nil {
		return "", fmt.Errorf("comparing %s with %s: %w", nameA, nameB, err)
	}
	return text, nil
}

func lines(object map[string]any) ([]string, error) {
	if len(object) == 0 {
		return nil, nil
	}
	data, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing an object as YAML: %w", err)
	}
	all := difflib.SplitLines(string(data))
	return all[:len(all)-1], nil // there is no line after the last line end
}
