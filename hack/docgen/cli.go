// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"everynode.dev/everynode/internal/cli/command"
	"everynode.dev/everynode/internal/cli/options"
)

// cliPage is the help of every verb of kubectl everynode.
func cliPage(*sources) (string, error) {
	var b strings.Builder
	b.WriteString("# kubectl everynode\n\nkubectl finds the plugin `kubectl-everynode` where it looks for programs (`PATH`). Where `kubectl_complete-everynode` is there as well, " +
		"the shell completes verbs, flags, and the names of sets, nodes, revisions, namespaces and contexts.\n\n" +
		"Each verb takes the flags by which kubectl names a cluster too, such as `--context`, `-n` (`--namespace`) and `--as`, and `-o table|wide|json|yaml` (`--output`).\n\n" + options.ExitText + "\n")
	for _, verb := range command.Verbs() {
		if verb.Short == "" || verb.Long == "" || verb.Example == "" {
			return "", fmt.Errorf("the verb %s has no complete help", verb.Name())
		}
		about := strings.TrimSpace(strings.ReplaceAll(verb.Long, options.ExitText, ""))
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n    %s\n\n%s\n", strings.TrimPrefix(verb.CommandPath(), options.Program+" "), paragraphs(about), strings.TrimSuffix(verb.UseLine(), " [flags]"), shell(verb.Example))
		flags := verb.LocalNonPersistentFlags()
		if !flags.HasAvailableFlags() {
			continue
		}
		table, err := flagTable(flags)
		if err != nil {
			return "", fmt.Errorf("the verb %s: %w", verb.Name(), err)
		}
		b.WriteString("\n" + table)
	}
	return b.String(), nil
}

// paragraphs joins the lines of each paragraph: a page wraps lines to the width of its window.
func paragraphs(text string) string {
	parts := strings.Split(text, "\n\n")
	for i := range parts {
		if !strings.HasPrefix(parts[i], " ") {
			parts[i] = strings.Join(strings.Fields(parts[i]), " ")
		}
	}
	return strings.Join(parts, "\n\n")
}

// shell is an example as a block of commands, without the indentation that help gives it.
func shell(example string) string {
	lines := strings.Split(strings.TrimRight(example, "\n "), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return "```sh\n" + strings.Join(lines, "\n") + "\n```"
}
