// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// TestTextsNameTheButtons: what a manager reports names objects to create and fields to set. On the page it also names the button that does it.
func TestTextsNameTheButtons(t *testing.T) {
	b := browse(t)
	cluster := fakecluster.New(t, fakecluster.Roll{Name: set, Advanced: true, Letters: "uoo"}.Objects(t)...)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 1}}`, `"phase": "Failed", "wave": "canary", "failure": {"wave": "canary", "action": "Pause", "message": "It failed. Change the template, or create a RolloutApproval with the decision Retry."},
		"blocking": [{"reason": "Suspended", "message": "The policy is suspended: set spec.suspend to false to continue."}, {"reason": "NodesGone", "message": "Go on without them with a RolloutApproval with the decision Promote."},
		{"reason": "Approval", "message": "To continue, run kubectl everynode approve daemonset/x, or create a RolloutApproval."}], "waves": [{"name": "canary", "nodes": 1, "updated": 1, "available": 0, "phase": "Rolling"}]`)
	address := served(t, cluster)
	b.Does("a failure", firstSet(address),
		chrome.Until(shows(".summary", "or use the button retry, or create a RolloutApproval with the decision Retry.")), chrome.Until(shows(".summary", "use the button resume, or set spec.suspend to false to continue.")),
		chrome.Until(shows(".summary", "with the button promote, or with a RolloutApproval with the decision Promote.")), chrome.Until(shows(".summary", "use the button approve, run kubectl everynode approve daemonset/x, or create")))
	b.Quiet()
}
