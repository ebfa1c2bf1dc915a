// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/plan"
)

// formName is the name that a field of the form has on the page, by the flag whose value it is; empty for none.
func formName(flag string) string {
	switch flag {
	case plan.ImageFlag:
		return "Image"
	case "partition":
		return "Partition"
	case "selector":
		return "Canary"
	case policyFlag:
		return "Rollout policy"
	}
	return ""
}

// formText is the text of an error for the page: it names the fields of the form, and not the flags that the page has made of them.
func (r *request) formText(err error) string {
	text := options.PageText(err)
	for flag := range r.Flags {
		if name := formName(flag); name != "" {
			text = strings.ReplaceAll(text, "--"+flag, name)
		}
	}
	return text
}
