// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// verdictCount is the number of verdict kinds.
const verdictCount = int(Blocked) + 1

// VerdictKinds returns all kinds of verdict, in the order in which they are declared.
func VerdictKinds() []VerdictKind {
	kinds := make([]VerdictKind, verdictCount)
	for i := range kinds {
		kinds[i] = VerdictKind(i)
	}
	return kinds
}

// String returns the name of a kind, for machines and tables.
func (k VerdictKind) String() string {
	name, _ := k.text()
	return name
}

// Sentence says what a kind means, for people; Node.Obstacle has more to say about Blocked.
func (k VerdictKind) Sentence() string {
	_, sentence := k.text()
	return sentence
}

// Acts is whether a node with this verdict has an action in the plan.
func (k VerdictKind) Acts() bool { return k >= Creating && k <= FinishingInPlace }

// Waits is whether a node with this verdict is not as it should be, and nothing is done about it now.
func (k VerdictKind) Waits() bool { return k >= WaitAvailable && k <= Blocked }

func (k VerdictKind) text() (name, sentence string) {
	if int(k) >= verdictCount {
		return fmt.Sprintf("verdict-%d", k), "unknown verdict"
	}
	if k.Waits() {
		t := k.waiting()
		return t[0], t[1]
	}
	t := k.calm()
	return t[0], t[1]
}

// calm holds the texts of the verdicts that wait for nothing, waiting those of the others.
func (k VerdictKind) calm() [2]string {
	return [WaitAvailable][2]string{
		NotEvaluated:     {"not-evaluated", "placement or the wanted revision is not known yet; nothing is done"},
		UpToDate:         {"up-to-date", "the pod is of the wanted revision and available"},
		NotWanted:        {"not-wanted", "the node needs no pod and has none"},
		Stays:            {"stays", "no new pod may be placed here; the one that runs may stay"},
		Creating:         {"creating", "the pod is missing and is created"},
		Recreating:       {"recreating", "the old pod is deleted so that a new one can take its place"},
		Surging:          {"surging", "a new pod is created beside the old one"},
		FinishingSurge:   {"finishing-surge", "the new pod has taken over, or the old one was not ready; the old one is deleted"},
		Removing:         {"removing", "no new pod may be placed here; the pods that are left are deleted"},
		ReplacingFailed:  {"replacing-failed", "the pod failed and is deleted, so that it can be replaced"},
		ReplacingEnded:   {"replacing-ended", "the pod ended by itself and is deleted, so that it can be replaced"},
		RemovingExcess:   {"removing-excess", "there are more pods than allowed; the excess is deleted"},
		Preparing:        {"preparing", "a pod is to be deleted; its preDelete hook is told"},
		Restoring:        {"restoring", "the pod was to be deleted and is wanted again; its preDelete hook is told"},
		UpdatingInPlace:  {"updating-in-place", "the old pod is changed in place"},
		FinishingInPlace: {"finishing-in-place", "the node runs the changed pod, or the change was called off; the pod may be ready again"},
	}[k]
}

func (k VerdictKind) waiting() [2]string {
	return [verdictCount][2]string{
		WaitAvailable:   {"wait-available", "the new pod is not available yet"},
		WaitTerminating: {"wait-terminating", "a pod is terminating; nothing else is done before it is gone"},
		WaitBudget:      {"wait-budget", "the pod is old; the update budget is used up"},
		WaitReplacing:   {"wait-replacing", "the pod is old and not available; as many nodes as allowed are being replaced already"},
		WaitOnDelete:    {"wait-on-delete", "the pod is old; the strategy OnDelete leaves it to you to delete it"},
		WaitBackoff:     {"wait-backoff", "the pod failed again; its replacement waits for the back-off"},
		WaitBurst:       {"wait-burst", "there is something to do, but this pass already makes as many writes as allowed"},
		WaitSurgeRemove: {"wait-surge-remove", "no new pod may be placed here; the old one goes when enough pods are available elsewhere"},
		WaitCollection:  {"wait-collection", "the node is gone; its pods are left to the pod garbage collector"},
		WaitHook:        {"wait-hook", "a pod is to be deleted; its preDelete hook has not released it yet"},
		WaitPaused:      {"wait-paused", "the pod is old; the update is paused"},
		WaitPartition:   {"wait-partition", "the pod is old; the partition keeps it as it is"},
		WaitSelector:    {"wait-selector", "the pod is old; the update is restricted to other nodes"},
		WaitEligible:    {"wait-eligible", "the pod is old; it may stay, but no new one may be placed here, so it is not updated"},
		WaitProgressive: {"wait-progressive", "the pod is missing; the partition does not allow to create it yet"},
		WaitGrace:       {"wait-grace", "the old pod is not ready, and is changed in place when its grace period is over"},
		WaitInPlace:     {"wait-in-place", "the pod has been changed in place; the node does not run the change yet"},
		WaitImage:       {"wait-image", "waiting for image: the pod is old, and the node has not pulled the images of the new one yet"},
		WaitUnreachable: {"wait-unreachable", "the node is not ready; the update leaves it out until it is"},
		WaitController:  {"wait-controller", "something is to be created, repaired or removed; that is up to the controller that keeps the pods"},
		WaitOwner:       {"wait-owner", "the pod is old and says so; it is updated when the owner of the node says so"},
		Blocked:         {"blocked", "a write for this node was refused"},
	}[k]
}

// detailCount is the number of details.
const detailCount = int(DetailYoung) + 1

// String returns the name of a detail; empty for none.
func (d Detail) String() string { return d.text()[0] }

// Sentence says what a detail means, for people; empty for none.
func (d Detail) Sentence() string { return d.text()[1] }

func (d Detail) text() [2]string {
	if int(d) >= detailCount {
		return [2]string{fmt.Sprintf("detail-%d", d), "unknown detail"}
	}
	return [detailCount][2]string{
		DetailNotInHistory:  {"not-in-history", "it cannot be changed in place: its revision is not in the history any more"},
		DetailNoGate:        {"no-gate", "it cannot be changed in place: it was made without the readiness gate for that"},
		DetailTemplate:      {"template", "it cannot be changed in place: the templates differ in more than images, labels and annotations"},
		DetailInitImage:     {"init-image", "it cannot be changed in place: the image of an init container differs"},
		DetailFieldRef:      {"field-ref", "it cannot be changed in place: an environment variable reads a label, an annotation or an amount of a resource that differs"},
		DetailResources:     {"resources", "it cannot be changed in place: the resources differ, and the feature InPlaceWorkloadVerticalScaling is off"},
		DetailResize:        {"resize", "it cannot be changed in place: its resources cannot become the wanted ones while it runs"},
		DetailResizeRefused: {"resize-refused", "it cannot be changed in place: the API server refused to change its resources"},
		DetailInfeasible:    {"infeasible", "its change in place cannot come to an end: the node cannot give it the wanted resources"},
		DetailUnfinished:    {"unfinished", "its change in place cannot come to an end: it needs a restart that only the controller which began it can make"},

		DetailDownBefore:      {"down-before", "as far as its times say, it went down before the update touched it, so it takes no slot of the budget"},
		DetailDownAfterUpdate: {"down-after-update", "it went down at about the time when an update touched it, which may be why, so it takes a slot of the budget"},
		DetailDownLater:       {"down-later", "as far as its times say, it went down long after the update touched it, so it takes no slot of the budget"},

		DetailYoung: {"young", "its pod is ready, but not for minReadySeconds yet, and more nodes are unavailable than may be; if that lasts, check the clocks of the manager and of the node"},
	}[d]
}
