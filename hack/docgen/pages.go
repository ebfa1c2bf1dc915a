// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"everynode.dev/everynode/internal/agent/rest"
	"everynode.dev/everynode/internal/rollout"
)

func pages() []page {
	return []page{
		{"annotations.md", annotations},
		{"openyurt.md", openyurtNames},
		{"verdicts.md", verdicts},
		{"events.md", eventsPage},
		{"flags.md", flags},
		{"metrics.md", metricsPage},
		{"agent.md", agentPage},
		{"rights.md", rightsPage},
		{"kubectl-everynode.md", cliPage},
		{"node-api.json", func(*sources) (string, error) { return rest.OpenAPI(), nil }},
		{"advanced-daemonset.md", advanced},
	}
}

// annotations lists Everynode's own keys.
func annotations(tree *sources) (string, error) {
	return namesIn(tree, "api/everynode", "# Annotations, labels and names\n\nThe keys and names that Everynode itself gives to things in a cluster.\n")
}

// openyurtNames lists what is taken over from OpenYurt.
func openyurtNames(tree *sources) (string, error) {
	return namesIn(tree, "api/openyurt", "# Annotations and conditions of OpenYurt\n\nWhat the dialect openyurt reads on DaemonSets of apps/v1, and what it "+
		"writes on their pods. [What differs from OpenYurt](../differences-from-openyurt.md).\n")
}

// namesIn lists the constants of a package.
func namesIn(tree *sources, dir, begins string) (string, error) {
	groups, err := constants(tree, dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(begins)
	values := valuesOf(groups)
	for _, g := range aloneLast(groups) {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.heading, "."))
		for _, d := range g.constants {
			if d.doc == "" {
				return "", fmt.Errorf("%s.%s has no comment: say in it what the reference shall say", dir, d.name)
			}
			fmt.Fprintf(&b, "\n### `%s`\n\n%s\n", d.value, spoken(sentence(d), values))
		}
	}
	return b.String(), nil
}

// aloneLast returns the groups that have constants. Declarations of a single constant, which has the only comment, come last, as one group.
func aloneLast(groups []group) (all []group) {
	alone := group{heading: "Other names"}
	for _, g := range groups {
		switch {
		case len(g.constants) == 0:
		case g.heading == g.constants[0].doc:
			alone.constants = append(alone.constants, g.constants...)
		default:
			all = append(all, g)
		}
	}
	if len(alone.constants) > 0 {
		all = append(all, alone)
	}
	return all
}

// valuesOf are the texts of constants by their names.
func valuesOf(groups []group) map[string]string {
	values := map[string]string{}
	for _, g := range groups {
		for _, d := range g.constants {
			if d.value != "" {
				values[d.name] = d.value
			}
		}
	}
	return values
}

// spoken returns a sentence with the values of constants in place of their names, which mean nothing to a user.
func spoken(text string, values map[string]string) string {
	return regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`).ReplaceAllStringFunc(text, func(word string) string {
		if value, ok := values[word]; ok {
			return "`" + value + "`"
		}
		return word
	})
}

// sentence is the comment of a constant without the constant's name, which means nothing to a user: "Domain is the ..."
// becomes "The ...".
func sentence(d declared) string {
	rest, ok := strings.CutPrefix(d.doc, d.name+" ")
	if !ok {
		return capital(d.doc)
	}
	return capital(strings.TrimPrefix(rest, "is "))
}

func capital(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// verdicts lists what can be the outcome of a decision for a node. It has the parts and headings of the
// declaration, and the names and sentences that the commands print.
func verdicts(tree *sources) (string, error) {
	groups, err := constants(tree, "internal/rollout")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Verdicts\n\nEvery decision gives every node that concerns a DaemonSet exactly one verdict.\n")
	listed := 0
	for _, g := range groups {
		if len(g.constants) == 0 || g.constants[0].kind != "VerdictKind" {
			continue
		}
		if listed > 0 {
			fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.heading, "."))
		}
		b.WriteString("\n| verdict | meaning |\n|---|---|\n")
		for _, d := range g.constants {
			kind := rollout.VerdictKind(d.number)
			fmt.Fprintf(&b, "| `%s` | %s |\n", kind, cell(kind.Sentence()))
			listed++
		}
	}
	if want := len(rollout.VerdictKinds()); listed != want {
		return "", fmt.Errorf("found declarations of %d verdicts, expected %d", listed, want)
	}
	details(&b, groups)
	return b.String(), nil
}

// details lists the details that a verdict can have.
func details(b *strings.Builder, groups []group) {
	for _, g := range groups {
		if len(g.constants) == 0 || g.constants[0].kind != "Detail" || g.constants[0].number == int(rollout.NoDetail) {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n| detail | meaning |\n|---|---|\n", strings.TrimSuffix(g.heading, "."))
		for _, d := range g.constants {
			detail := rollout.Detail(d.number)
			fmt.Fprintf(b, "| `%s` | %s |\n", detail, cell(detail.Sentence()))
		}
	}
}

// cell is a text as it may stand in a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
