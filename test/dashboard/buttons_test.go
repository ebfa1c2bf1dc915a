// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

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

// TestUndoOfTheOnlyRevision: a set with one revision has nothing to return to, so the button is disabled, with the reason.
func TestUndoOfTheOnlyRevision(t *testing.T) {
	b := browse(t)
	objects := slices.DeleteFunc(fakecluster.Roll{Name: set, Advanced: true, Letters: "uuu"}.Objects(t), func(o runtime.Object) bool {
		r, is := o.(*appsv1.ControllerRevision)
		return is && r.Revision == 1
	})
	b.Does("the actions", firstSet(served(t, fakecluster.New(t, objects...))), chrome.Until(chrome.Named(".actions > button", "undo")+"?.disabled"),
		chrome.Until(`document.querySelector(".denied li")?.textContent === "undo: there is no other revision to return to"`))
	b.Quiet()
}
