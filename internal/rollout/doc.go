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
//	ignored        deleting and in a terminal phase: nobody has anything left to do with it
//	terminating    deleting and not ignored; it still counts as a pod on its node
//	live           not deleting; a live pod is running (or pending), failed or succeeded
//	desired        the number of nodes whose fit is MustRun
//	charged        uses up a slot of the update budget
//	in flight      in the middle of an update: no running pod, or a live current pod but none that is available
//	pair           with surge, one running current and one running old pod on the same node
//	surge          an update creates the new pod first and deletes the old one later; selected by RollingUpdate with MaxSurge > 0
//	spare          available pods beyond the desired number
//
// # What every strategy charges
//
// A node is charged once at most, and only if it has to run a pod, or may keep one (MayStay) and has one that is not
// ignored. A node whose fit is not known is charged like one that may keep its pod, so that the budget is rather too small.
// Nodes that must not run the pod, and those whose object is gone, are never charged and never hold an update up.
//
//	node has                                    RollingUpdate    RollingUpdate, surge   OnDelete
//	no pod, or ignored ones only (MustRun)      charged          -                      -
//	no live pod, some terminating               charged          -                      -
//	one live pod: available                     -                -                      -
//	one live pod: not available                 charged          -                      -
//	one live pod: failed or succeeded           charged          -                      -
//	a pair, the new pod not available
//	and the old one ready                       charged          charged                -
//	any other pair (the old pod goes now)       charged          -                      -
//	more live pods than that                    charged          charged                -
//	an available old pod, and this plan
//	starts its replacement                      charged          charged                -
//
// The limit is MaxUnavailable, with surge MaxSurge, of the desired number. If both come to 0 while there are desired nodes,
// the limit is one unavailable node. A plan starts the replacement of an available old pod only while fewer nodes are
// charged than the limit allows, in the order of the nodes. Of an old pod that is not available it starts the replacement
// at once: it is charged already (or, with surge, takes nothing away). Set.MaxReplacing, if set, allows that only while
// fewer nodes than it says are in flight.
//
// The charged nodes are counted apart: those whose node is not ready; of the others, those in flight (the update's own
// doing, as far as a snapshot can tell: a pod that broke long after its update looks the same); the rest, where an old pod
// broke or there are too many.
//
// # Verdicts
//
// Every node gets exactly one verdict: the first line that applies.
//
//	 1  the wanted revision is not known           not-evaluated
//	 2  the Node object is gone                    removing (pods never scheduled) or wait-collection, not-wanted without pods
//	 3  MustLeave                                  removing, wait-terminating, not-wanted without pods
//	 4  the fit is not known                       not-evaluated
//	 5  something is to be done now                creating, replacing-failed, replacing-ended, removing-excess, finishing-surge:
//	                                               that of the node's first action in the plan; wait-burst if none found room
//	 6  a pod is missing, none may be created      blocked
//	 7  a failed pod waits                         wait-backoff
//	 8  no live pod                                wait-terminating, not-wanted (MayStay) without pods
//	 9  a current pod                              wait-available, stays (MayStay), up-to-date
//	10  an old pod, OnDelete                       wait-on-delete
//	11  an old pod, Node.Blocked is set            blocked
//	12  an old pod, its update starts now          recreating, surging, removing (MayStay with surge); wait-burst without room
//	13  an old pod that is not available           wait-replacing
//	14  an old pod, MayStay, surge                 wait-surge-remove
//	15  an old pod                                 wait-budget
//
// Without surge the old pod of a MayStay node is replaced like any other, as upstream does: the node then ends without one.
//
// # Where this differs from the native controller
//
// On purpose, each with a script in testdata: nodes are taken in order, not at random; pods on nodes that are gone or must
// not run the pod use up no budget and stop no update; with surge, a failed pod that waits for its back-off is not joined by
// another one; all failed pods of a node go at once; MaxReplacing. Smaller ones that follow from making one decision of what
// are two loops there: a failed old pod waits for its back-off also when an update could replace it; a surge given as a
// percentage stays a surge when no node is desired; a pair counts as available when either of its pods is.
package rollout
