// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"everynode.dev/everynode/internal/cli/view"
)

// Age formats a duration: "12s", "5m30s", and from an hour on as kubectl does, "26h" or "14d".
func Age(d time.Duration) string {
	if d < time.Hour {
		return view.Duration(d)
	}
	return duration.HumanDuration(d)
}
