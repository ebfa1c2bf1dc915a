// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"everynode.dev/everynode/internal/dialects"
	"everynode.dev/everynode/internal/rbac"
)

// rightsPage lists what the programs may do in a cluster.
func rightsPage(*sources) (string, error) {
	var b strings.Builder
	b.WriteString("# Rights\n\nWhat the manager and the agents of nodes may do in a cluster, and why. The manifests in `config/` allow this and nothing else. " +
		"What it means for who takes one of them over is in [security](../security.md).\n")
	for _, role := range dialects.Roles() {
		kind, where := "ClusterRole", "the whole cluster"
		if role.Namespace != "" {
			kind, where = "Role", "the namespace `"+role.Namespace+"`"
		}
		fmt.Fprintf(&b, "\n## %s `%s`, in %s\n\nFor %s. ", kind, role.Name, where, role.For)
		if role.BoundBy == "" {
			fmt.Fprintf(&b, "Bound to `%s`.\n", rbac.User(role.Program))
		} else {
			fmt.Fprintf(&b, "Not bound by what is shipped: that is for %s.\n", role.BoundBy)
		}
		b.WriteString("\n| resource | verbs | why |\n|---|---|---|\n")
		for _, rule := range role.Rules {
			fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", strings.Trim(rule.Resource+"."+rule.Group, "."), only(rule.Names), strings.Join(slices.Sorted(slices.Values(rule.Verbs)), ", "), cell(rule.Why))
		}
	}
	return b.String(), nil
}

// only names the objects that a rule is about.
func only(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", only `" + strings.Join(names, "`, `") + "`"
}
