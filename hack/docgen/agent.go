// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"everynode.dev/everynode/internal/agent"
)

// agentPage lists the flags and the metrics of everynode-agent.
func agentPage(*sources) (string, error) {
	command := agent.NewCommand("")
	table, err := flagTable(command.Flags())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Flags and metrics of everynode-agent\n\n%s\n\n## Flags\n\n%s\n## Metrics\n\n", command.Long, table)
	b.WriteString("In addition to these, the agent serves the metrics of the Go runtime and of its process.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range agent.Declared() {
		if d.Help == "" {
			return "", fmt.Errorf("metric %s has no description", d.Name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(d.Labels, ", "), cell(d.Help))
	}
	return b.String(), nil
}
