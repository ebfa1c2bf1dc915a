// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestTextsAndButtons: the page shows what a manager reports as it is, and reads no actions out of it. What a user can do is data: the button, what it concerns, and the command.
func TestTextsAndButtons(t *testing.T) {
	b := browse(t)
	cluster := fakecluster.New(t, fakecluster.Roll{Name: set, Advanced: true, Letters: "uoo"}.Objects(t)...)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 1}}`, `"phase": "Failed", "wave": "canary", "failure": {"wave": "canary", "action": "Pause", "message": "It failed. Change the template, or create a RolloutApproval with the decision Retry."},
		"blocking": [{"reason": "Approval", "message": "To continue, run kubectl everynode approve daemonset/x, or set spec.suspend to false."}], "waves": [{"name": "canary", "nodes": 1, "updated": 1, "available": 0, "phase": "Rolling"}]`)
	address := served(t, cluster)
	b.Does("a failure", firstSet(address), chrome.Until(shows(".summary", "Change the template, or create a RolloutApproval with the decision Retry.")),
		chrome.Until(shows(".summary", "To continue, run kubectl everynode approve daemonset/x, or set spec.suspend to false.")),
		chrome.Until(`[...document.querySelectorAll(".remedies li")].map((e) => e.innerText).join() === "retry (revision `+set+`-`+fakecluster.NewHash+`): kubectl everynode retry -n default ads/`+set+`,undo (ads/`+set+`): kubectl everynode undo -n default ads/`+set+`"`))
	b.accessible("what a user can do")
	b.Quiet()
}
