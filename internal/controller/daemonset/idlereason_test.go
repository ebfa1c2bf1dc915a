// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"strings"
	"testing"

	"everynode.dev/everynode/internal/dialect"
)

// TestIdleReason: the status of a policy names the one cause for which a set is not updated.
func TestIdleReason(t *testing.T) {
	invalid := &dialect.Workload{Problems: []dialect.Problem{{Message: "The field x is deprecated."}, {Message: "The selector is missing.", Fatal: true}}}
	for name, c := range map[string]struct {
		w       *dialect.Workload
		blocked bool
		want    string
	}{
		"invalid":            {invalid, false, "its specification is not valid. The selector is missing."},
		"another controller": {&dialect.Workload{}, false, "another controller keeps its pods. To let"},
		"blocked":            {invalid, true, "another controller of this kind of daemon set is active. Stop it"},
		"OpenYurt":           {&dialect.Workload{ForOpenYurt: true}, false, "OpenYurt's own manager"},
	} {
		if got := idleReason(c.w, c.blocked).Message; !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
