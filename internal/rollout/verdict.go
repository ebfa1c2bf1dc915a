// SPDX-License-Identifier: Apache-2.0

package rollout

import "fmt"

// VerdictKind is the outcome of a decision for one node.
type VerdictKind uint8

// The verdicts. Every node gets exactly one; the first that applies in the order of the table in the package comment.
const (
	NotEvaluated VerdictKind = iota // placement or the wanted revision is not known yet: nothing is done

	// Nothing to do.
	UpToDate  // the pod is of the wanted revision and available
	NotWanted // the node needs no pod and has none
	Stays     // no new pod may come here, the one that runs may stay

	// Something is done now.
	Creating         // a missing pod is created
	Recreating       // the old pod is deleted so that a new one can take its place
	Surging          // a new pod is created next to the old one
	FinishingSurge   // the new pod is available (or the old one is not ready), the old one is deleted
	Removing         // no new pod may come here: the pods that are left are deleted
	ReplacingFailed  // the pod failed and is deleted
	ReplacingEnded   // the pod succeeded and is deleted
	RemovingExcess   // more pods than allowed: the excess is deleted
	Preparing        // a pod is to be deleted: its preDelete hook is notified
	Restoring        // a pod that was to be deleted is wanted again: its preDelete hook is notified
	UpdatingInPlace  // the old pod is made not ready, or changed in place
	FinishingInPlace // the node runs the changed pod, or the change is called off: the pod may be ready again

	// Waiting.
	WaitAvailable   // the pod is of the wanted revision and not yet available
	WaitTerminating // a pod is terminating; its successor, if any, is created when it is gone
	WaitBudget      // the pod is old; the budget is used up
	WaitReplacing   // the pod is old and unavailable; the cap on replacements (Set.MaxReplacing) is used up
	WaitOnDelete    // the pod is old; with the strategy OnDelete, users delete it
	WaitBackoff     // the pod failed; its replacement waits for the back-off
	WaitBurst       // this plan already holds as many actions as it may
	WaitSurgeRemove // the pod is old, no new one may come here; it goes when enough are available elsewhere (surge)
	WaitCollection  // the Node object is gone; the pod garbage collector removes the pod
	WaitHook        // a pod is to be deleted; its preDelete hook has not released it
	WaitPaused      // the pod is old; the update is paused
	WaitPartition   // the pod is old; the partition keeps it
	WaitSelector    // the pod is old; the node is not selected for the update
	WaitEligible    // the pod is old; the node only may keep it, and the set updates no such node
	WaitProgressive // the pod is missing; the partition keeps it from being created
	WaitGrace       // the pod is not ready, and is changed in place when the grace period has ended
	WaitInPlace     // the pod has been changed in place; the node does not run it yet
	WaitImage       // the pod is old; the images of the new one are not on the node yet
	WaitUnreachable // the node is not ready; the update leaves it out, and Detail says whether it is charged
	WaitController  // what is to be done here is up to the controller that keeps the pods (Set.ExternalController)
	WaitNodeOwner   // the pod is old and has a condition that reports this; OnDelete leaves it to the owner of the node (Set.Announce)

	// Waiting for the rollout policy (Snapshot.Gate).
	WaitWave      // the pod is old; the wave of the node, or the node's part of it, has not begun
	WaitSoak      // the pod is old; an earlier wave is being observed
	WaitApproval  // the pod is old; an earlier wave is not approved
	WaitAnalysis  // the pod is old; an analysis of an earlier wave does not pass, or has no answer
	WaitWindow    // the pod is old; no window of the policy is open
	WaitFreeze    // the pod is old; a freeze of the policy is active
	WaitAlerts    // the pod is old; alerts that the policy names are firing
	WaitOrder     // the pod is old; another group of nodes is updated first
	WaitGroup     // the pod is old; another set of the concurrency group is being updated there
	WaitPace      // the pod is old; the pace of the policy lets no further update start
	WaitSuspended // the pod is old; the policy is suspended
	WaitRejected  // the pod is old; the wanted revision was rejected
	WaitFailed    // the pod is old; the wanted revision has failed
	WaitConflict  // the pod is old; more than one policy applies to the set
	WaitPolicy    // the pod is old; the policy that governs the set is gone, or cannot be followed

	WaitManager // something is to be done; the manager is being stopped (DecideEnding)

	Blocked // a write was refused or got no clear answer; Node.Obstacle has the message
)

// Group is a handful of verdicts that look the same to a person.
type Group uint8

// The groups, from the calmest to the one that needs attention most.
const (
	GroupIdle     Group = iota // the node needs no pod, or nothing is known of it yet
	GroupDone                  // the wanted pod is there and available
	GroupQueued                // an old pod, or none, whose turn has not come
	GroupStarting              // the wanted pod is there, or the old one is being changed into it, and it is not available yet
	GroupStopping              // a pod is terminating, or about to
	GroupActing                // a write is made now
	GroupHeld                  // something is in the way that may need a person
)

// GroupCount is the number of groups.
const GroupCount = int(GroupHeld) + 1

// Tone is the meaning of a colour.
type Tone uint8

// The tones. A command line has a colour for each of them.
const (
	TonePlain  Tone = iota // nothing to notice
	ToneFaint              // of less interest than the rest
	ToneGood               // as wanted
	ToneBusy               // on its way
	ToneActing             // a write is made now
	ToneBad                // a person may be needed
)

// groupRow describes a group. The rows are in the order of the constants.
type groupRow struct {
	tone    Tone
	waiting bool
}

// groups is the table of the groups.
var groups = [GroupCount]groupRow{ //nolint:gochecknoglobals // a table: nothing changes it
	GroupIdle:     {ToneFaint, false},
	GroupDone:     {ToneGood, false},
	GroupQueued:   {TonePlain, true},
	GroupStarting: {ToneBusy, true},
	GroupStopping: {ToneBusy, true},
	GroupActing:   {ToneActing, false},
	GroupHeld:     {ToneBad, true},
}

// Tone is the tone in which nodes of this group are shown.
func (g Group) Tone() Tone { return groups[g].tone }

// Waiting reports whether nodes of this group wait for something that a person may ask about.
func (g Group) Waiting() bool { return groups[g].waiting }

// Cause is what ends the wait of a node.
type Cause uint8

// The causes. Conditions, metrics, alerts and plans classify verdicts by them.
const (
	NoCause        Cause = iota // the node does not wait
	CauseProgress               // it ends by itself: a pod starts, a pod ends, a node returns, an image arrives
	CauseTurn                   // the node's turn in the update
	CauseSpec                   // a change of the specification that concerns all nodes: pause, strategy
	CauseLimit                  // a change of the specification that concerns this node: partition, selector
	CausePlacement              // the node may keep its pod, and the set updates no such node
	CauseHook                   // the owner of a preDelete hook
	CauseOwner                  // the owner of the node
	CauseOther                  // another controller, which keeps the pods
	CauseCollector              // the pod garbage collector
	CauseBackoff                // the back-off of a pod that fails again and again
	CauseRefusal                // the API server admits the write
	CausePolicy                 // the rollout policy releases the node: a wave, a soak, an approval, a window
)

// causeCount is the number of causes.
const causeCount = int(CausePolicy) + 1

// Alert is the name of an alert of the chart.
type Alert string

// The alerts about verdicts.
const (
	AlertStuck   Alert = "EverynodeRolloutStuck"    // a rollout makes no progress, and such a node does not wait for a person
	AlertBlocked Alert = "EverynodeNodeBlocked"     // the API server refuses writes
	AlertHook    Alert = "EverynodeHookNotReleased" // a preDelete hook holds a pod
)

// causeRow describes a cause.
type causeRow struct {
	// continues reports whether the wait ends, or should, without a person.
	continues bool
	alert     Alert
}

// causes is the table of the causes.
var causes = [causeCount]causeRow{ //nolint:gochecknoglobals // a table: nothing changes it
	NoCause:        {false, ""},
	CauseProgress:  {true, AlertStuck},
	CauseTurn:      {true, AlertStuck},
	CauseSpec:      {false, ""},
	CauseLimit:     {false, ""},
	CausePlacement: {false, ""},
	CauseHook:      {false, AlertHook},
	CauseOwner:     {false, ""},
	CauseOther:     {true, AlertStuck},
	CauseCollector: {false, ""},
	CauseBackoff:   {true, AlertStuck},
	CauseRefusal:   {false, AlertBlocked},
	CausePolicy:    {false, ""},
}

// step is how a verdict relates to an update of the node.
type step uint8

const (
	anyTime      step = iota // nodes also have it without an update
	ofUpdate                 // only an update of the node leads to it
	replaces                 // an update deletes the old pod
	startsUpdate             // the update of the node starts: the old pod is deleted or changed, or gets a new one next to it
)

// verdict describes a kind of verdict. A new kind needs a constant and a row in this file, and the rule that gives it.
type verdict struct {
	// name is the name in tables and JSON, and the value of the metric label "verdict".
	name, sentence string
	// group has the colour, the order, and whether the node waits or a write is made.
	group Group
	// cause has the alert, and whether the wait ends without a person.
	cause Cause
	step  step
}

// verdicts is the one table of the verdicts.
var verdicts = [...]verdict{ //nolint:gochecknoglobals // a table: nothing changes it
	NotEvaluated:     {"not-evaluated", "placement or the wanted revision is not known yet; nothing is done", GroupIdle, NoCause, anyTime},
	UpToDate:         {"up-to-date", "the pod is of the wanted revision and available", GroupDone, NoCause, anyTime},
	NotWanted:        {"not-wanted", "the node needs no pod and has none", GroupIdle, NoCause, anyTime},
	Stays:            {"stays", "no new pod may be placed here; the one that runs may stay", GroupIdle, NoCause, anyTime},
	Creating:         {"creating", "the pod is missing and is created", GroupActing, NoCause, anyTime},
	Recreating:       {"recreating", "the old pod is deleted so that a new one can take its place", GroupActing, NoCause, startsUpdate},
	Surging:          {"surging", "a new pod is created next to the old one", GroupActing, NoCause, startsUpdate},
	FinishingSurge:   {"finishing-surge", "the new pod has taken over, or the old one was not ready; the old one is deleted", GroupActing, NoCause, replaces},
	Removing:         {"removing", "no new pod may be placed here; the pods that are left are deleted", GroupActing, NoCause, anyTime},
	ReplacingFailed:  {"replacing-failed", "the pod failed and is deleted, so that it can be replaced", GroupActing, NoCause, anyTime},
	ReplacingEnded:   {"replacing-ended", "the pod ended by itself and is deleted, so that it can be replaced", GroupActing, NoCause, anyTime},
	RemovingExcess:   {"removing-excess", "there are more pods than allowed; the excess is deleted", GroupActing, NoCause, anyTime},
	Preparing:        {"preparing", "a pod is to be deleted; its preDelete hook is notified", GroupActing, NoCause, anyTime},
	Restoring:        {"restoring", "the pod was to be deleted and is wanted again; its preDelete hook is notified", GroupActing, NoCause, anyTime},
	UpdatingInPlace:  {"updating-in-place", "the old pod is changed in place", GroupActing, NoCause, startsUpdate},
	FinishingInPlace: {"finishing-in-place", "the node runs the changed pod, or the change was called off; the pod may be ready again", GroupActing, NoCause, ofUpdate},
	WaitAvailable:    {"wait-available", "the new pod is not available yet", GroupStarting, CauseProgress, anyTime},
	WaitTerminating:  {"wait-terminating", "a pod is terminating; nothing else is done before it is gone", GroupStopping, CauseProgress, anyTime},
	WaitBudget:       {"wait-budget", "the pod is old; the update budget is used up", GroupQueued, CauseTurn, ofUpdate},
	WaitReplacing:    {"wait-replacing", "the pod is old and not available; as many nodes as allowed are being replaced already", GroupQueued, CauseTurn, ofUpdate},
	WaitOnDelete:     {"wait-on-delete", "the pod is old; the strategy OnDelete leaves it to you to delete it", GroupQueued, CauseSpec, anyTime},
	WaitBackoff:      {"wait-backoff", "the pod failed again; its replacement waits for the back-off", GroupHeld, CauseBackoff, anyTime},
	WaitBurst:        {"wait-burst", "there is something to do, but this pass already makes as many writes as allowed", GroupQueued, CauseTurn, anyTime},
	WaitSurgeRemove:  {"wait-surge-remove", "no new pod may be placed here; the old one goes when enough pods are available elsewhere", GroupQueued, CauseTurn, anyTime},
	WaitCollection:   {"wait-collection", "the node is gone; its pods are left to the pod garbage collector", GroupHeld, CauseCollector, anyTime},
	WaitHook:         {"wait-hook", "a pod is to be deleted; its preDelete hook has not released it yet", GroupStopping, CauseHook, anyTime},
	WaitPaused:       {"wait-paused", "the pod is old; the update is paused", GroupQueued, CauseSpec, anyTime},
	WaitPartition:    {"wait-partition", "the pod is old; the partition keeps it as it is", GroupQueued, CauseLimit, anyTime},
	WaitSelector:     {"wait-selector", "the pod is old; the update is restricted to other nodes", GroupQueued, CauseLimit, anyTime},
	WaitEligible:     {"wait-eligible", "the pod is old; it may stay, but no new one may be placed here, so it is not updated", GroupQueued, CausePlacement, anyTime},
	WaitProgressive:  {"wait-progressive", "the pod is missing; the partition does not allow to create it yet", GroupQueued, CauseLimit, anyTime},
	WaitGrace:        {"wait-grace", "the old pod is not ready, and is changed in place when its grace period has ended", GroupStarting, CauseProgress, ofUpdate},
	WaitInPlace:      {"wait-in-place", "the pod has been changed in place; the node does not run the change yet", GroupStarting, CauseProgress, ofUpdate},
	WaitImage:        {"wait-image", "waiting for image: the pod is old, and the node has not pulled the images of the new one yet", GroupQueued, CauseProgress, ofUpdate},
	WaitUnreachable:  {"wait-unreachable", "the node is not ready; the update leaves it out until it is", GroupHeld, CauseProgress, anyTime},
	WaitController:   {"wait-controller", "something is to be created, repaired or removed; that is up to the controller that keeps the pods", GroupQueued, CauseOther, anyTime},
	WaitNodeOwner:    {"wait-node-owner", "the pod is old and has a condition that reports this; it is updated when the owner of the node decides so", GroupQueued, CauseOwner, anyTime},
	WaitWave:         {"wait-wave", "the pod is old; the rollout policy has not released the node yet: its wave, or its part of the wave, has not begun", GroupQueued, CausePolicy, anyTime},
	WaitSoak:         {"wait-soak", "the pod is old; the wave before it is complete, and the rollout policy observes it for its soak time", GroupQueued, CausePolicy, anyTime},
	WaitApproval:     {"wait-approval", "the pod is old; the wave before it is complete, and a user must approve it", GroupQueued, CausePolicy, anyTime},
	WaitAnalysis:     {"wait-analysis", "the pod is old; an analysis of the rollout policy has no answer yet, or does not pass", GroupQueued, CausePolicy, anyTime},
	WaitWindow:       {"wait-window", "the pod is old; the rollout policy starts updates only within its windows, and none is open", GroupQueued, CausePolicy, anyTime},
	WaitFreeze:       {"wait-freeze", "the pod is old; a freeze of the rollout policy is active", GroupQueued, CausePolicy, anyTime},
	WaitAlerts:       {"wait-alerts", "the pod is old; alerts that the rollout policy names are firing, or it is not known whether they are", GroupQueued, CausePolicy, anyTime},
	WaitOrder:        {"wait-order", "the pod is old; the rollout policy updates another group of nodes first", GroupQueued, CausePolicy, anyTime},
	WaitGroup:        {"wait-group", "the pod is old; another daemon set of the concurrency group is being updated there, or goes first", GroupQueued, CausePolicy, anyTime},
	WaitPace:         {"wait-pace", "the pod is old; the pace of the rollout policy lets no further update start now", GroupQueued, CauseTurn, ofUpdate},
	WaitSuspended:    {"wait-suspended", "the pod is old; the rollout policy is suspended", GroupQueued, CausePolicy, anyTime},
	WaitRejected:     {"wait-rejected", "the pod is old; the new revision was rejected, so no further node gets it", GroupQueued, CausePolicy, anyTime},
	WaitFailed:       {"wait-failed", "the pod is old; the new revision has failed, so no further node gets it", GroupQueued, CausePolicy, anyTime},
	WaitConflict:     {"wait-conflict", "the pod is old; more than one rollout policy applies to the daemon set, so no update starts", GroupQueued, CausePolicy, anyTime},
	WaitPolicy:       {"wait-policy", "the pod is old; the rollout policy that governs the daemon set was deleted, or cannot be read or followed, so no update starts", GroupQueued, CausePolicy, anyTime},
	WaitManager:      {"wait-manager", "something is to be done; the manager is being stopped and begins nothing new, so the next manager does it", GroupQueued, CauseTurn, anyTime},
	Blocked:          {"blocked", "a write for this node was refused or got no clear answer", GroupHeld, CauseRefusal, anyTime},
}

// VerdictKinds returns all kinds of verdict, in the order in which they are declared.
func VerdictKinds() []VerdictKind {
	kinds := make([]VerdictKind, len(verdicts))
	for i := range kinds {
		kinds[i] = VerdictKind(i)
	}
	return kinds
}

// row is the row of the table; a kind that is not in it has an empty one.
func (k VerdictKind) row() *verdict {
	if int(k) >= len(verdicts) {
		return &verdict{name: fmt.Sprintf("verdict-%d", k), sentence: "unknown verdict"}
	}
	return &verdicts[k]
}

// String returns the name of a kind, for machines, tables and metrics.
func (k VerdictKind) String() string { return k.row().name }

// Sentence returns the meaning of a kind as a sentence; Node.Obstacle has the details of Blocked.
func (k VerdictKind) Sentence() string { return k.row().sentence }

// Group is the group of a kind.
func (k VerdictKind) Group() Group { return k.row().group }

// Cause is what ends the wait of a node with this verdict.
func (k VerdictKind) Cause() Cause { return k.row().cause }

// OfUpdate reports whether a node has such a verdict only because of an update. A pod that is not available may also have failed long after one.
func (k VerdictKind) OfUpdate() bool { return k.row().step >= ofUpdate }

// Replaces reports whether an update deletes or changes the old pod of a node with this verdict, or creates a new pod next to it.
func (k VerdictKind) Replaces() bool { return k.row().step >= replaces }

// StartsUpdate reports whether the update of a node with this verdict starts now.
func (k VerdictKind) StartsUpdate() bool { return k.row().step == startsUpdate }

// OfPolicy reports whether only a rollout policy leads to this verdict.
func (k VerdictKind) OfPolicy() bool { return k.Cause() == CausePolicy || k == WaitPace }

// AwaitsPod reports whether a node with this verdict waits for a pod of the wanted revision to become available.
func (k VerdictKind) AwaitsPod() bool { return k == WaitAvailable || k == WaitInPlace }

// Acts reports whether a node with this verdict has an action in the plan.
func (k VerdictKind) Acts() bool { return k.Group() == GroupActing }

// Waits reports whether a node with this verdict is not as it should be, and nothing is done about it now.
func (k VerdictKind) Waits() bool { return k.Cause() != NoCause }

// Continues reports whether something happens on a node with this verdict without a person, or should.
func (k VerdictKind) Continues() bool { return k.Acts() || causes[k.Cause()].continues }

// Alert is the alert that nodes with this verdict lead to when they last; empty for none.
func (k VerdictKind) Alert() Alert {
	if k.Acts() {
		return AlertStuck
	}
	return causes[k.Cause()].alert
}

// detailCount is the number of details.
const detailCount = int(DetailMinReadyPending) + 1

// String returns the name of a detail; empty for none.
func (d Detail) String() string { return d.text()[0] }

// Sentence returns the meaning of a detail as a sentence; empty for none.
func (d Detail) Sentence() string { return d.text()[1] }

func (d Detail) text() [2]string {
	if int(d) >= detailCount {
		return [2]string{fmt.Sprintf("detail-%d", d), "unknown detail"}
	}
	return [detailCount][2]string{
		DetailNotInHistory:  {"not-in-history", "it cannot be changed in place: its revision is not in the history any more"},
		DetailNoGate:        {"no-gate", "it cannot be changed in place: it was made without the readiness gate for that"},
		DetailTemplate:      {"template", "it cannot be changed in place: the templates differ in more than images, labels and annotations"},
		DetailInitImage:     {"init-image", "it cannot be changed in place: the image of an init container differs, which would not run before the pod is started again; the set does not allow that"},
		DetailFieldRef:      {"field-ref", "it cannot be changed in place: an environment variable reads a label, an annotation or an amount of a resource that differs"},
		DetailNoAgent:       {"no-agent", "it cannot be changed in place: an environment variable reads a label or an annotation that differs, and the node has no agent that restarts the container"},
		DetailStarting:      {"starting", "it cannot be changed in place: an environment variable reads a label or an annotation that differs, and its container does not run, so it may still start with the earlier value"},
		DetailResources:     {"resources", "it cannot be changed in place: the resources differ, and the feature InPlaceWorkloadVerticalScaling is off"},
		DetailResize:        {"resize", "it cannot be changed in place: its resources cannot become the wanted ones while it runs"},
		DetailResizeRefused: {"resize-refused", "it cannot be changed in place: the API server refused to change its resources"},
		DetailInfeasible:    {"infeasible", "its change in place cannot come to an end: the node cannot give it the wanted resources"},
		DetailUnfinished:    {"unfinished", "its change in place cannot come to an end: it needs a restart that only the controller which began it can make"},
		DetailRestart:       {"restart", "it cannot be changed in place: a container that is to be restarted has a preStop hook, which the agent of a node does not run, or a restart policy of its own"},
		DetailNotRestarted:  {"not-restarted", "its change in place has not come to an end: the node has no agent that restarts containers, or the agent has not done so in time"},

		DetailRestarting: {"restarting", "the agent of the node is to restart its containers; if it does not do so in time, the pod is recreated"},

		DetailDownBefore:      {"down-before", "as far as its times say, it went down before the update touched it, so it takes no slot of the budget"},
		DetailDownAfterUpdate: {"down-after-update", "it went down at about the time when an update touched it, which may be why, so it takes a slot of the budget"},
		DetailDownLater:       {"down-later", "as far as its times say, it went down long after the update touched it, so it takes no slot of the budget"},

		DetailMinReadyPending: {"min-ready-pending", "its pod is ready, but not for minReadySeconds yet, and more nodes are unavailable than may be; if that lasts, check the clocks of the manager and of the node"},
	}[d]
}
