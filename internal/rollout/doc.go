// SPDX-License-Identifier: Apache-2.0

// Package rollout decides what is to be done to keep one pod of a daemon set on every node that should have one, and to
// bring old pods to the wanted revision within a budget. It is the core that every dialect (native, OpenKruise, OpenYurt)
// and every executor (the controller, the plan verb, the simulator) shares.
//
// # Rule
//
// Decide is a function of its Snapshot and of nothing else: no clock, no chance, no map order, no input or output, nothing
// kept between calls. So what it says can be printed, searched and replayed. This package imports the standard library only.
//
// # Vocabulary
//
//	current, old   a pod of the wanted revision (Set.Update); a pod of any other
//	available      ready, and ready for at least Set.MinReady
//	ignored        deleting and in a terminal phase: the API server is about to remove it
//	terminating    deleting and not ignored; it still counts as a pod on its node
//	preparing      to be deleted as soon as its preDelete hook releases it; it is on its way out, like a terminating one,
//	               unless it is restored because it is wanted again
//	live           neither deleting nor preparing; a live pod is running (or pending), failed or succeeded
//	desired        the number of nodes whose fit is MustRun
//	charged        uses up a slot of the update budget
//	in flight      in the middle of an update: no running pod, a live current pod but none that is available, or one whose
//	               change in place is under way
//	held           a node whose old pod the limits of the set (pause, selector, partition) keep from being updated
//	evicted        prepared because its node must not run the pod, and for no update
//	begun          a node whose old pod is preparing and not evicted, or marked for a change in place: its update goes on
//	new            a node that must run a pod and has none, and nothing is known of an earlier one
//	pair           with surge, one running current and one running old pod on the same node
//	surge          an update creates the new pod first and deletes the old one later; selected by RollingUpdate with MaxSurge > 0
//	spare          available pods beyond the desired number
//	left out       a node that is not ready, in an update that skips such nodes
//	touched        a node where an update has asked for the deletion of the old pod, or the current pod was created
//	external set   a set whose pods another controller keeps
//
// # How far an update may go
//
// The limits of a rolling update say which nodes it may start on; the budget says how many at once. They are counted over
// different nodes on purpose: the budget over all of them, also those that are held.
//
// At most desired - partition of the nodes that must run a pod may run the wanted revision. First count those that have
// a live current pod, those begun, those whose last pod was current and is to be replaced, and those that are new. What is
// then left goes to the others, whether their old pod is there or missing: to the selected ones if the set is Selective, in
// the order of the set. With Progressive new nodes do not count by themselves: they are the first to be given what is left,
// in ascending order, and the rest of them gets no pod yet. Paused leaves nothing for old pods. So a partition of the
// desired number or more updates none, a partition that is raised rolls nothing back, and a new node gets the newest
// revision. A node that only may keep its pod is updated when the partition keeps none at all, for it would end without one; with
// EligibleOnly it is not updated at all.
//
// An update that has begun goes on, also when its node would be held now. (A pod that is preparing and not evicted counts as begun,
// whatever it was prepared for.) Once its old pod is being deleted for the update, Node.Last says what it is to get. A pod that is missing on a held node is created again at
// the revision that Node.Last names, as long as that is in the history; else, as on all other nodes, at the wanted one.
//
// # Policies
//
// With Snapshot.Gate a rollout policy restricts the update further. Gate.Holds names the nodes that it has not released, and why: such a node is held like one
// that the limits hold, except its first pod, which is of the revision Gate.Joining, the one that the policy has committed; a node that Gate.Unfit names gets none before it is released. What has begun continues. Of the nodes that
// a partition can let go, those that the policy holds come last, so that the first wave may be any nodes. Gate.InFlight and Gate.Starts limit how many
// updates start, of pods that are available or not; they widen nothing. A node that Gate.Absent names does not count in Gate.InFlight. With Gate.Creates they also limit the
// creates of pods that have vanished without an update: a node beyond them gets the revision that Node.Last names, and its pod waits for its turn like any other old one. With OnDelete, users start every update, so a Gate holds
// only announcements: a pod on a held node says that its own revision is the newest, unless it has announced this very update before.
//
// # Hooks
//
// Every deletion of a pod, for whatever reason and whether it runs, failed or succeeded, takes these steps; only pods on
// nodes that are gone are spared them, because the pod garbage collector would not wait either (there, only finalizers hold).
//
//	hook of the pod   what is done
//	none              it is deleted
//	armed             it is prepared
//	waiting           nothing; the node gets no other pod (with surge it does), and no update starts on it
//	released          it is deleted
//
// A preparing pod is restored when it is wanted again: it runs, its node may run it, no other pod has its place, and it is
// current (the template was changed back) or evicted (the node could not run it for a while), or the strategy is OnDelete.
// Another old one goes, because its update has begun.
//
// # Sets whose pods another controller keeps
//
// With Set.ExternalController another controller keeps the pods: it creates what is missing, repairs what is broken and removes what is too many or
// has no place. Then a plan holds deletes of old pods for the update, and nothing else; where anything else would be done the
// verdict is wait-controller. An external set neither surges nor changes pods in place, and knows no hooks: a pod that has one, or
// whose change in place is in progress, it does not change. It charges like RollingUpdate without surge, so a node counts from the delete
// until the pod that the other controller made is available. For the partition, that pod counts as one of the wanted
// revision before it exists.
//
// # Announcements
//
// With Set.Announce every pod announces whether there is a newer revision than its own, and which is the newest; so the owner of
// a node can decide when its pod is updated, which together with OnDelete is what OpenYurt calls OTA. Without it, pods that still have such a condition
// lose it. Announcements are not actions: they have no verdict, take what the actions have left of the burst,
// and ask to go on at once when that is not enough. Pods on nodes where something is done now, those that are being deleted,
// and those on nodes that must not run them, are not evaluated, or wait after a refusal are passed over.
//
// # Images
//
// With Node.ImageWait an update waits for the images of the wanted revision, until Node.ImageUntil at the latest: no old pod is deleted,
// marked or joined by another for it, not even one that is not available. Nothing else waits: what is missing is created,
// what is broken repaired, what has begun goes on, and an old pod that will have no successor goes without. A node that
// waits takes no slot of the budget and stops no other. With Set.ImagesInPlace only a pod waits that is changed in place.
//
// # Nodes that are not ready
//
// With Unreachable.Skip a rolling update leaves nodes out that are not ready: it starts on none of them, and they use up no budget,
// whatever their pods are like. But where the update may be why a node went down, the node is charged: else a bad revision could take
// down one node after the other.
//
//	the node went down (Node.Since), window: AttributionWindow   charged  detail
//	more than the window before the update touched it, or not    -        down-before
//	within the window of that, on either side                    charged  down-after-update
//	more than the window after that                              -        down-later
//	at any time, and it must run a pod and has none              charged  down-after-update
//
// The versions of a set share the budget. A node that may be down because of an earlier version (its pod of that was created within AttributionWindow of
// when it went down; or its pod was deleted then, before the wanted revision was recorded) stays charged until some pod of the wanted
// revision has been available on a ready node for AttributionWindow. The first revision, and one of which some pod has been available that long, is
// not suspected. So that a version which does no harm can show it: where the charged nodes use up the whole budget, some of them for an earlier
// version alone, and no ready node has a pod of the wanted revision, one node is updated beyond the budget. A node that has not been
// ready since it joined was not taken down by the pod that it got then.
//
// Any doubt is a charge. The window lies on both sides of the touch, because Node.Since may come from the node's own clock, which may
// be slow, and because a current pod that was created on a node that is down may follow a pod whose deletion took it down.
// Times are full seconds, so a second is added. A time that is not known, an edit in doubt, a preDelete hook that was notified, and a change
// in place that may have left no time count as a touch within the window. Node.Since begins again when a node that was unhealthy
// falls silent; so a node counts as down, at the earliest, since when its pod has not been ready.
//
// A node is left out as long as it is not ready. What has begun on it goes on, and what is missing or broken is repaired.
//
// # Refusals
//
// A refusal belongs to a node (Node.Refusal). So does an answer that leaves open whether the write took effect. Until its RetryAt nothing is done there, neither by the update nor by a repair; then it has its
// turn after all other nodes: an update starts on it only with what they have left of the budget, and repairs come at the end of the plan. It
// takes a slot of the budget only for what its pods are like, never for the refusal. A pod that was marked, and whose Patch was refused, is unmarked at once, and one that
// was prepared, and whose Delete was refused, is restored at once, so that it serves and takes no slot. Where nothing is done for this reason although
// there is something to do, the verdict is blocked.
//
// # Changes in place
//
// With InPlace, and without surge, the update of an old pod is a change in place where its revision and the difference of the templates allow that; else the
// pod is recreated, and Verdict.Detail says why. It is one Patch: the pod serves until its node stops the old container, and nothing is left to do when the node
// runs the change. With a Grace, or CloseGate, the readiness gate of the pod is closed first and opened last, and a pod without a gate is recreated.
//
//	phase of the pod   current                 old, to be updated                    old, held or OnDelete
//	none               -                       Patch; with a gate to close Mark,     -
//	                                           and Patch if there is no grace
//	marked             Unmark (changed back)   Patch when the grace has ended        Unmark (OnDelete; else it has begun)
//	patched            wait-in-place           Patch again                           wait-in-place
//	arrived (closed)   Unmark                  Patch again                           Unmark
//	announced          Resume                  Resume, then Patch again              Resume
//	stuck              recreated               Patch again, recreated if announced   wait-in-place
//	patched, to be     wait-in-place until     Patch again                           wait-in-place
//	restarted          StuckAt, then stuck
//
// A change is announced when another controller has begun it, and left it before it changed the pod; its grace period holds. A
// change that was patched or announced is stuck when it can never come to its end (Pod.Stuck), or has not done so in time (Pod.StuckAt). The latter is a change for which
// the agent of the node restarts containers: the manager does not know whether the node has one. The time does not run while the node is not ready, and
// begins with RestartWithin when it is ready again.
//
// With Gate.Creates an arrived pod that is old gets an Unmark, not a Patch: the pod may be new, so no update has begun there, and it must wait for its turn. Where the
// last write was refused, or the pod is Interrupted, it is patched.
//
// Where the table says Patch and the pod cannot be changed in place any more, it is recreated. That takes no further slot:
// from the Mark or the Patch until its node runs the change and the gate is open, the pod counts as not ready, whatever its condition says. A pod gets one
// write in a plan, except the Mark and Patch of one pod, which follow each other.
//
// # The end of a manager
//
// A manager that is being stopped while no other takes over decides with DecideEnding. It begins nothing new, so what an update or a repair would do now is
// wait-manager. It calls off changes in place that have not changed the pod, opens the gate of a pod whose node runs its change, restores pods that
// wait for their preDelete hook, and creates what is missing. Snapshot.Unfinished says on which nodes that is not done yet.
//
// # What every strategy charges
//
// A node is charged once at most, and only if it must run a pod, or may keep one (MayStay) and has one that is not
// ignored. A node whose fit is not known is charged like one that may keep its pod, so that the budget is rather too small.
// With EligibleOnly a node that may keep its pod is charged only if it is not ready and an update has begun there, which may be
// why. Nodes that must not run the pod, those whose object is gone, and new ones that the partition keeps from getting their first
// pod are never charged and never hold an update up. A node that is not ready and left out is charged as said above, and not by
// this table.
//
//	node has                                    RollingUpdate    RollingUpdate, surge   OnDelete
//	no pod, or ignored ones only (MustRun)      charged          -                      -
//	no live pod, some terminating               charged          -                      -
//	one live pod: available                     -                -                      -
//	one live pod: not available                 charged          -                      -
//	one live pod: failed or succeeded           charged          -                      -
//	a pair, the new pod not available
//	and the old one ready                       charged          charged                -
//	a pair whose old pod's hook is armed        charged          charged                -
//	any other pair (the old pod goes now)       charged          -                      -
//	more live pods than that                    charged          charged                -
//	one pod that is preparing, no other         charged          -                      -
//	an available pod, and one that its hook
//	has released (it goes now)                  charged          -                      -
//	any other pod that is preparing, and another charged         charged                -
//	any of them, and a create without an answer as above         charged                -
//	a pod that is being restored                charged          like one live pod      -
//	an available old pod, and this plan
//	starts its replacement                      charged          charged                -
//
// An external set is charged as in the first column.
//
// The limit is MaxUnavailable, with surge MaxSurge, of the desired number. If both come to 0 while there are desired nodes,
// the limit is one unavailable node. A plan starts the replacement of an available old pod only while fewer nodes are
// charged than the limit allows, in the order of the set. Of an old pod that is not available it starts the replacement
// at once: it is charged already (or, with surge, takes nothing away). A doubtful one counts as not available, but with surge
// as available, if it looks so: it is not known which, and the budget is rather too small than too large. Set.MaxReplacing, if
// set, allows that only while fewer nodes than it says are in flight. One that is ready, but not for long enough, may be available by
// another clock: with surge it counts as that here, and without surge it stays while more nodes are charged than may be.
//
// The charged nodes are counted apart: those whose node is not ready; of the others, those in flight (the update's own
// doing, as far as a snapshot shows: a pod that broke long after its update looks the same); the rest, where an old pod
// broke or there are too many.
//
// # Verdicts
//
// Every node gets exactly one verdict: the first line that applies.
//
//	 1  the wanted revision is not known           not-evaluated
//	 2  the Node object is gone                    removing (pods never scheduled) or wait-collection, not-wanted without pods
//	 3  MustLeave                                  removing, preparing, wait-hook, wait-terminating, not-wanted without pods
//	 4  the fit is not known                       not-evaluated
//	 5  something is to be done now                creating, updating-in-place, finishing-in-place, replacing-failed,
//	                                               replacing-ended, removing-excess, finishing-surge, preparing, restoring,
//	                                               recreating: that of the node's first action in the plan; wait-burst if
//	                                               none found room
//	   the same, or lines 7, 19 to 22, or
//	   wait-node-owner, and the last write was
//	   refused (Node.Refusal)                      blocked
//	 6  a pod is missing, none may be created      wait-progressive, blocked, or what the policy names (Gate.Unfit)
//	 7  a failed pod waits                         wait-backoff
//	 8  a pod waits for its hook                   wait-hook
//	 9  a change in place is under way             wait-grace, wait-in-place
//	10  the node is left out, and it is charged,
//	    or has none but terminating pods, or a
//	    current pod that is not available          wait-unreachable
//	11  no live pod                                wait-terminating, not-wanted (MayStay) without pods
//	12  a current pod                              wait-available, blocked (Unanswered), stays (MayStay), up-to-date
//	13  an old pod, OnDelete                       wait-on-delete, wait-node-owner (Announce)
//	14  an old pod, the node is held               wait-eligible (MayStay), wait-paused, wait-selector, wait-partition, or what
//	                                               the policy names: wait-wave, wait-soak, wait-approval, wait-analysis, wait-window,
//	                                               wait-freeze, wait-alerts, wait-order, wait-group, wait-suspended, wait-rejected,
//	                                               wait-failed, wait-conflict, wait-policy; also in line 13, instead of wait-node-owner
//	15  an old pod, Node.Blocked is set            blocked
//	16  an old pod that an external set skips      wait-controller
//	17  an old pod, its node is left out           wait-unreachable
//	18  an old pod, its images are not there yet   wait-image
//	19  an old pod, its update starts now          recreating, updating-in-place, surging, removing (MayStay with surge), or
//	                                               preparing; wait-burst without room
//	   the pace of the policy is used up           wait-pace
//	20  an old pod that is not available           wait-replacing
//	21  an old pod, MayStay, surge                 wait-surge-remove
//	22  an old pod                                 wait-budget
//
// DecideEnding gives wait-manager instead of a verdict that acts, of wait-burst and of wait-pace, where it does nothing.
//
// An external set has wait-controller where it would need to do something of lines 2, 3, 5 and 6, or wait for something of lines 7 to 9.
//
// Without surge the old pod of a MayStay node is replaced like any other, as upstream does: the node then ends without one.
// With EligibleOnly it stays until the node must run the pod again, or must not any more.
//
// # Where this differs from the native controller
//
// On purpose, each with a script in testdata: nodes are taken in order, not at random; pods on nodes that are gone or must
// not run the pod use up no budget and stop no update; with surge, a failed pod that waits for its back-off is not joined by
// another one; with surge, of several old pods one that is ready is kept; all failed pods of a node go at once; MaxReplacing; a pod that is ready, but
// not for long enough, does not go beyond the budget. Smaller ones that follow from making one decision of what are two loops there: a failed old
// pod waits for its back-off also when an update could replace it; a surge given as a percentage stays a surge when no node
// is desired; a pair counts as available when either of its pods is.
package rollout
