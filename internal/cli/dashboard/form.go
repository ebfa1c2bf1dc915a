// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/plan"
)

// formNames are the names that the fields of the form have on the page, by the flags whose values they are.
var formNames = map[string]string{plan.ImageFlag: "Image", "partition": "Partition", "selector": "Canary", policyFlag: "Rollout policy"}

// formText is the text of an error for the page: it names the fields of the form, and not the flags that the page has made of them.
func (r *request) formText(err error) string {
	text := options.PageText(err)
	for flag := range r.Flags {
		if name, has := formNames[flag]; has {
			text = strings.ReplaceAll(text, "--"+flag, name)
		}
	}
	return text
}
