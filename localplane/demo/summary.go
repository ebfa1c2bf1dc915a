// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"strings"
	"time"

	"everynode.dev/everynode/internal/cli/view"
)

// summary returns the observations with numbers.
func (s *story) summary(total time.Duration) string {
	f, budget := s.seen.figures, s.budget()
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\nWhat was shown, with %d simulated nodes on Kubernetes %s:\n", s.count, s.version)
	row("created", "a pod on each of %d nodes in %s", s.count, view.Duration(s.seen.created))
	row("rolled", "%d nodes in %s while 2 were cut off; those 2 followed within %s of coming back",
		s.count-len(s.cut), view.Duration(s.seen.rolled), view.Duration(s.seen.caughtUp))
	row("bad image", "stopped at %d of %d nodes and waited for %s", s.seen.spoilt, s.count, view.Duration(s.seen.stopped))
	row("undone", "%d nodes recovered in %s; the other %d kept their pods (same UIDs)",
		s.seen.spoilt, view.Duration(s.seen.recovered), s.seen.kept)
	b.WriteString("Counted from the API server's own watch of pods, not from the controller:\n")
	row("unavailable at once", "at most %d of %d nodes, the 2 cut ones left out while they were away; the budget is %d",
		f.Unavailable, s.count, budget)
	with := ""
	if f.UnavailableInAll > budget {
		with = ": a node that goes dark comes on top of what is under way at that moment"
	}
	row("", "at most %d with them%s", f.UnavailableInAll, with)
	row("beyond the budget", "%d pods taken down while it was used up (for more than %s)", f.Beyond, view.Duration(tooLate))
	row("pods on one node", "at most %d at once, terminating ones included", f.MostPerNode)
	row("restarted needlessly", "%d of %d pods", f.Needless, f.Made)
	fmt.Fprintf(&b, "Everything is stopped; it took %s from start to end.", view.Duration(total))
	return b.String()
}
