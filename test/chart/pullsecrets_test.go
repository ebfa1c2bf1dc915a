// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
)

// TestPullSecretNamespaces: the right to read secrets is given only where its role is installed. A binding to a role that is missing is refused to users who may not bind
// every role, and would give a right later.
func TestPullSecretNamespaces(t *testing.T) {
	const name = "/everynode-manager-read-pull-secrets"
	for what, c := range map[string]struct {
		release
		want bool
	}{
		"with the dialect":   {release{values: "manager: {pullSecretNamespaces: [one]}"}, true},
		"without it":         {release{values: "dialects: [native]\nmanager: {pullSecretNamespaces: [one]}"}, false},
		"next to OpenKruise": {release{values: "manager: {pullSecretNamespaces: [one]}", in: cluster{definitions()[0]: nil}}, false},
	} {
		var found []string
		for object := range c.objects(t) {
			if strings.HasSuffix(object, name) {
				found = append(found, object)
			}
		}
		if want := map[bool]int{true: 2}[c.want]; len(found) != want {
			t.Errorf("%s: there are %q", what, found)
		}
	}
}
