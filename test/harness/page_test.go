// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"reflect"
	"strings"
	"testing"
)

// TestCommandsOfAPage: commands, comments, output, fences, lists and marks.
func TestCommandsOfAPage(t *testing.T) {
	const page = "# Title\n\n    make demo     # see it work\n\n## One\n\n" +
		"```yaml\n    kubectl: not a command\n```\n\n" +
		"- in a list\n\n      kubectl patch x -p '{\"a\":1}'\n\n" +
		"text\n\n    kubectl get pods\n    kubectl everynode status x\n\n    x: rolling\n      and more\n\n" +
		"<!-- not typed: there is no Helm -->\n\n    helm upgrade x\n    helm list\n\ntext\n\n    curl y\n" +
		"\n<!-- not typed: no node -->\n\n    $ ip=$(kubectl get x)\n    $ ssh $ip \\\n      -- ls   # as root\n    make\n" +
		"\ntext\n\n    kubectl create y \\\n      --z\n    made\n"
	want := []PageCommand{
		{Text: "make demo", Line: 3},
		{Text: `kubectl patch x -p '{"a":1}'`, Line: 13, Section: "One"},
		{Text: "kubectl get pods", Line: 17, Section: "One"},
		{Text: "kubectl everynode status x", Line: 18, Section: "One", Shows: []string{"x: rolling", "  and more"}},
		{Text: "helm upgrade x", Line: 25, Section: "One", Untyped: "there is no Helm"},
		{Text: "helm list", Line: 26, Section: "One", Untyped: "there is no Helm"},
		{Text: "curl y", Line: 30, Section: "One"},
		{Text: "ip=$(kubectl get x)", Line: 34, Section: "One", Untyped: "no node"},
		{Text: "ssh $ip -- ls", Line: 35, Section: "One", Untyped: "no node", Shows: []string{"make"}},
		{Text: "kubectl create y --z", Line: 41, Section: "One", Shows: []string{"made"}},
	}
	have, err := commandsOf(page)
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("the commands are\n%+v\nand should be\n%+v (%v)", have, want, err)
	}
}

// TestPagesThatCannotBeTyped: what nobody would notice is an error.
func TestPagesThatCannotBeTyped(t *testing.T) {
	for page, want := range map[string]string{
		"text\n\n    kubctl get pods\n":                        `line 3: the block begins with "kubctl"`,
		"<!-- not typed: why -->\n\ntext\n":                    "line 3: no indented block follows the mark",
		"<!-- not typed: a -->\n\n<!-- not typed: b -->\n":     "line 3: no indented block follows the mark of what is not typed (a)",
		"text\n\n    kubectl get \\\n\ntext\n":                 `line 5: the command "kubectl get " is incomplete`,
		"text\n\n<!-- not typed: why -->\n":                    "no indented block follows the mark of what is not typed (why)",
		"<!-- not typed: why -->\n\n```\nkubectl get x\n```\n": "line 3: no indented block follows the mark",
	} {
		if _, err := commandsOf(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", page, err, want)
		}
	}
}
