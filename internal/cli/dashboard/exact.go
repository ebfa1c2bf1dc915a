// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"maps"
	"strings"

	"everynode.dev/everynode/internal/cli/edit"
	"everynode.dev/everynode/internal/cli/options"
)

// checkExact returns an error for a request that changes something which its trial has not named: it could change something else than what the user has seen.
func (r *request) checkExact(v verb) error {
	for _, flag := range v.exact {
		if value := r.Flags[flag]; !r.DryRun && (value == "" || value == "0") {
			return options.Usagef("the confirmation of %s does not name what was shown (%s): open the action again, and confirm what it shows then", r.Verb, flag)
		}
	}
	return nil
}

// pods are the arguments that name the pods of a request.
func (r *request) pods() (args []string) {
	for name := range strings.SplitSeq(r.Flags[edit.PodsFlag], ",") {
		args = append(args, "pod/"+name)
	}
	return args
}

// tried adds the flags with which a request that was tried does exactly that. The command for a shell has them too.
func (o *outcome) tried(asked *request, exact map[string]string) {
	v, confirmed := offered()[asked.Verb], *asked
	if !asked.DryRun || len(v.exact) == 0 {
		return
	}
	confirmed.Flags = maps.Clone(asked.Flags)
	if confirmed.Flags == nil {
		confirmed.Flags = map[string]string{}
	}
	o.Exact = map[string]string{}
	for _, flag := range v.exact {
		if value := exact[flag]; value != "" {
			o.Exact[flag], confirmed.Flags[flag] = value, value
		}
	}
	if words, args, err := confirmed.arguments(); err == nil {
		o.Line = confirmed.line(words, args)
	}
}
