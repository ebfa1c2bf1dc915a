// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"everynode.dev/everynode/internal/testing/fakecluster"
	"everynode.dev/everynode/test/chrome"
)

// answering lets a test answer the requests for verbs itself: sent has what the page has sent, and answers the functions that answer.
const answering = `window.fetch = ((send) => {
	window.sent = []; window.answers = [];
	return (path, how) => {
		if (String(path) !== "api/verb") return send(path, how);
		sent.push(JSON.parse(how.body));
		return new Promise((done) => answers.push((outcome) => done(new Response(JSON.stringify(outcome)))));
	};
})(window.fetch.bind(window)); null`

// sends waits until the page has sent that many requests for verbs, the last of which has this JSON.
func sends(count, last string) chromedp.Action {
	return chrome.Until(`sent.length === ` + count + ` && ((r) => JSON.stringify([r.dryRun, r.arguments || [], Object.entries(r.flags || {}).sort()]))(sent[sent.length - 1]) === JSON.stringify(` + last + `)`)
}

// TestWhatIsConfirmedWasTried: an answer to a trial is about the value that was tried. If the user has entered another one meanwhile, that must be tried first.
func TestWhatIsConfirmedWasTried(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 3"), chromedp.Evaluate(answering, nil))
	b.Does("a trial", chrome.Press(chrome.Named(".actions > button", "partition")), chrome.Enter("dialog input", "90%"), chrome.Press(chrome.Find("dialog button[type=submit]")), sends("1", `[true, ["90%"], []]`))
	var late int
	b.Does("another value, and then the answer", chrome.Enter("dialog input", "0"), chromedp.Evaluate(`answers[0]({line: "kubectl", output: "partition set to 90%"})`, nil), chromedp.Sleep(time.Second/2),
		chromedp.Evaluate(`document.querySelectorAll("dialog pre, dialog button.main:not(:disabled)").length`, &late))
	if late > 0 {
		t.Error("the page offers to confirm 0, and shows what 90% would do")
	}
	b.Does("a trial of that value", chrome.Press(chrome.Find("dialog button[type=submit]")), sends("2", `[true, ["0"], []]`), chromedp.Evaluate(`answers[1]({line: "kubectl", output: "partition set to 0"})`, nil),
		chrome.Until(shows("dialog pre", "partition set to 0")), chrome.Press(chrome.Find("dialog button.main")), sends("3", `[false, ["0"], []]`))
	b.Quiet()
}

// TestWhatIsConfirmedIsExact: what a trial has found, such as the revision to return to, is part of what the user confirms, and of the line for a shell.
func TestWhatIsConfirmedIsExact(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}`, `"phase": "WaitingForApproval", "wave": "canary", "next": {"action": "Approve"}, "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "WaitingForApproval"}]`)
	b.Does("a set", firstSet(address), chrome.Until(shows("main", "Waves of rolloutpolicy/waves")), chromedp.Evaluate(answering, nil))
	b.Does("an undo", chrome.Press(chrome.Named(".actions > button", "undo")), sends("1", `[true, [], []]`),
		chromedp.Evaluate(`answers[0]({line: "kubectl everynode undo --to-revision=1 --dry-run=server", output: "back to revision 1", exact: {"to-revision": "1"}})`, nil),
		chrome.Until(shows("dialog .line code", "kubectl everynode undo --to-revision=1")), chrome.Press(chrome.Find("dialog button.main")), sends("2", `[false, [], [["to-revision", "1"]]]`),
		chromedp.Evaluate(`answers[1]({line: "kubectl everynode undo --to-revision=1", output: "back to revision 1"})`, nil),
		chrome.Press(chrome.Named("dialog .buttons button", "Close")), chrome.Until(`!document.querySelector("dialog")`))
	b.Does("an approval", chrome.Press(chrome.Named(".actions > button", "approve")), sends("3", `[true, [], []]`),
		chromedp.Evaluate(`answers[2]({line: "kubectl everynode approve --revision=agent-7f --wave=canary --dry-run=server", output: "approved", exact: {revision: "agent-7f", wave: "canary"}})`, nil),
		chrome.Enter("dialog input", "tested"), chrome.Until(shows("dialog .line code", "kubectl everynode approve --revision=agent-7f --wave=canary --reason='tested'")),
		chrome.Press(chrome.Find("dialog button.main")), sends("4", `[false, [], [["reason", "tested"], ["revision", "agent-7f"], ["wave", "canary"]]]`))
	b.Quiet()
}

// TestADecisionAfterNodesAreGone: when all nodes of a wave are gone, a person decides: the page offers that.
func TestADecisionAfterNodesAreGone(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}}`, `"phase": "Stalled", "wave": "canary", "blocking": [{"reason": "NodesGone", "message": "No node shows that the revision works: decide with the decision Promote."}], "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "Rolling"}]`)
	b.Does("a set", firstSet(address), chrome.Until(shows(".blocking", "with the decision Promote")),
		chrome.Until(`["promote", "reject"].every((verb) => [...document.querySelectorAll(".actions > button")].some((e) => e.innerText === verb))`))
	b.Quiet()
}

// TestAnEstimateOfAnEarlierPhase goes away when the phase has changed.
func TestAnEstimateOfAnEarlierPhase(t *testing.T) {
	b := browse(t)
	r, begun := fakecluster.Roll{Name: set, Advanced: true, Letters: "uuo"}, time.Now()
	cluster := fakecluster.New(t, r.Objects(t)...)
	cluster.Options.Now = func() time.Time { return fakecluster.Now().Add(time.Since(begun)) } // policies are read again after a time
	const waves = `{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}`
	governed(t, cluster, waves, `"phase": "WaitingForApproval", "wave": "canary", "next": {"action": "Approve"}, "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "WaitingForApproval"}, {"name": "remaining", "nodes": 1, "phase": "Pending"}]`)
	address := served(t, cluster)
	b.Does("an estimate", firstSet(address), chrome.Press(chrome.Named("section button", "Estimate the times")),
		chrome.Until(shows("[data-estimate]", "estimate: ")), chrome.Until(chrome.Count(".timeline .part.planned")+" > 0"))
	governed(t, cluster, waves, `"phase": "Rolling", "wave": "remaining", "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "Passed"}, {"name": "remaining", "nodes": 1, "phase": "Rolling"}]`)
	b.Does("the next phase", chrome.Until(shows(".waves .active", "remaining")), chrome.Until(chrome.Count("[data-estimate], .timeline .part.planned")+" === 0 && "+shows("main", "The rollout has changed since the estimate")))
	b.Quiet()
}

// TestWhatAnActionDoesToNodes: a dialog names the nodes that follow, and a button that would do nothing is disabled with the reason.
func TestWhatAnActionDoesToNodes(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}, "after": [{"type": "Approval"}]}`, `"phase": "WaitingForApproval", "wave": "canary", "next": {"action": "Approve"}, "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "WaitingForApproval"}, {"name": "remaining", "nodes": 1, "updated": 0, "available": 0, "phase": "Pending"}]`)
	b.Does("the actions", firstSet(address), chrome.Until(shows(".actions .use", "It waits for a user: approve or reject.")),
		chrome.Until(chrome.Named(".actions > button", "promote")+".disabled"), chrome.Until(`document.querySelector(".denied li")?.textContent === "promote: no wave soaks now"`))
	b.Does("an approval", chrome.Press(chrome.Named(".actions > button", "approve")), chrome.Until(`/^1 node of the wave remaining can begin, at most \d+ nodes? at a time\.$/.test(document.querySelector("dialog [data-effect]")?.innerText)`))
	b.accessible("an approval")
	b.Does("a way back", chrome.Press(chrome.Named("dialog .buttons button", "Cancel")), chrome.Press(chrome.Named("td button", "undo to 1")),
		chrome.Until(shows("dialog [data-effect]", "2 nodes get revision 1 (registry.example/agent:1) instead of revision 2 (registry.example/agent:2), at most ")))
	b.Quiet()
}

// TestWhatAPlanDoesToNodes: the dialog in which a plan is applied names the images, the nodes and the time; a plan without an edit cannot be applied.
func TestWhatAPlanDoesToNodes(t *testing.T) {
	b := browse(t)
	_, address := imagine(t, "uuuuuu", set)
	b.Does("a set", firstSet(address), chrome.Until(chrome.Count(".cell.g1")+" === 6"))
	b.Does("a plan without an edit", chrome.Press(chrome.Find(".foresight summary")), chrome.Press(chrome.Find(".foresight button[type=submit]")),
		chrome.Until(shows("[data-plan]", "there is nothing to apply")), chrome.Until(chrome.Find("[data-plan] button.main")+".disabled"))
	b.Does("another image", chrome.Enter(".foresight input.wide", "registry.example/agent:3"), chrome.Press(chrome.Find(".foresight button[type=submit]")), chrome.Press(chrome.Find("[data-plan] button.main")),
		chrome.Until(`/^Image of agent: registry.example\/agent:2 → registry.example\/agent:3. 6 nodes: 6 recreate; it takes \S+/.test(document.querySelector("dialog [data-effect]")?.innerText)`))
	b.Quiet()
}

// TestTheTimelineOfWaves draws what a wave did, one after the other on one axis: the update, the soak, and how long it waits for its approval.
func TestTheTimelineOfWaves(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "uuo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}, "soak": "5m", "after": [{"type": "Approval"}]}`, `"phase": "WaitingForApproval", "wave": "canary", "next": {"action": "Approve"}, "waves": [
		{"name": "canary", "nodes": 2, "updated": 2, "available": 2, "phase": "WaitingForApproval", "rollingSince": "2026-03-01T00:00:00Z", "completedAt": "2026-03-01T00:10:00Z", "waitingSince": "2026-03-01T00:15:00Z"},
		{"name": "remaining", "nodes": 1, "updated": 0, "available": 0, "phase": "Pending"}]`)
	parts := `[...document.querySelectorAll(".timeline .part")].map((e) => e.className.replace("part ", "")).join() === "rolled,soak,approval"`
	b.Does("the waves", firstSet(address), chrome.Until(parts),
		chrome.Until(`((p) => p.every((e, i) => i === 0 || parseFloat(e.style.left) >= parseFloat(p[i - 1].style.left)))([...document.querySelectorAll(".timeline .part")])`),
		chrome.Until(`document.querySelector(".timeline .part.soak").title === "canary: it soaks, 2026-03-01 00:10:00 UTC to 2026-03-01 00:15:00 UTC"`))
	b.accessible("a timeline")
	b.Quiet()
}

// TestTheTimelineOfAFailedWave ends the update of a wave when it has failed: from then on it is not drawn as one that is updated.
func TestTheTimelineOfAFailedWave(t *testing.T) {
	b := browse(t)
	cluster, address := imagine(t, "aoo", set)
	governed(t, cluster, `{"name": "canary", "nodes": {"count": 2}}`, `"phase": "Failed", "wave": "canary", "failure": {"wave": "canary", "action": "Pause", "at": "2026-03-01T00:10:00Z", "message": "Wave canary failed."}, "waves": [
		{"name": "canary", "nodes": 2, "updated": 1, "available": 0, "failed": 1, "phase": "Rolling", "rollingSince": "2026-03-01T00:00:00Z"}, {"name": "remaining", "nodes": 1, "phase": "Pending"}]`)
	b.Does("the waves", firstSet(address), chrome.Until(`[...document.querySelectorAll(".timeline .part")].map((e) => e.className.replace("part ", "")).join() === "rolled,failed"`),
		chrome.Until(`document.querySelector(".timeline .part.rolled").title === "canary: its nodes are updated, 2026-03-01 00:00:00 UTC to 2026-03-01 00:10:00 UTC"`),
		chrome.Until(shows(".timeline .hint", "has failed")))
	b.accessible("a timeline of a failed wave")
	b.Quiet()
}
