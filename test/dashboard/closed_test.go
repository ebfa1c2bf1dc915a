// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"everynode.dev/everynode/test/chrome"
)

// TestTheTimesInWhichNoUpdateStarts are marked on the axis of the waves, and listed in words for screen readers.
func TestTheTimesInWhichNoUpdateStarts(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}}], "windows": [{"schedule": "0 22 * * *", "duration": "4h"}], "freezes": [{"from": "2026-03-01T22:30:00Z", "to": "2036-03-02T00:00:00Z"}`,
		`"phase": "WaitingForWindow", "wave": "remaining", "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "Passed", "rollingSince": "2026-03-01T01:00:00Z", "completedAt": "2026-03-01T01:10:00Z"},
		{"name": "remaining", "nodes": 1, "updated": 0, "available": 0, "phase": "Pending"}]`)
	b.Does("the axis", firstSet(address), chrome.Until(`[...document.querySelectorAll(".timeline .track:first-child .closed")].map((e) => e.title).join() ===
		"No update starts: no window is open, 2026-03-01 02:00:00 UTC to 2026-03-01 22:00:00 UTC,No update starts: a freeze is active, 2026-03-01 22:30:00 UTC to 2026-03-15 12:00:00 UTC"`),
		chrome.Until(`((marks) => marks.every((e) => e.getBoundingClientRect().width > 0) && marks.length === 4)([...document.querySelectorAll(".timeline .track .closed")])`),
		chrome.Until(shows(".timeline .hint", "no update starts")), chrome.Until(shows("ul[aria-label='When no update starts']", "2 such times have passed since the rollout began.")))
	b.accessible("a timeline with windows")
	b.Quiet()
}
