// SPDX-License-Identifier: Apache-2.0

// Package sim searches for ways to break what ships: it holds tests only. The controller, its executor, the index and the dialects
// are the real ones; around them is an imaginary cluster that does nothing by itself. All that can happen next is a list of steps (an
// event reaches a manager, a write takes effect and its answer is lost, a manager dies, a pod becomes ready, a user edits), and a seed
// chooses one after the other. So every order of events is a run that can be repeated, cut short and read as a story.
//
// # Vocabulary
//
//	world      the objects of the API server, and a log of everything that became of them, with one counter of versions
//	view       how much of the log a manager has seen, for each resource apart: a view goes on by one event, or is listed anew, which may show
//	           no more than it has seen already
//	request    a read or write of a manager that waits for the world; the order in which requests are served is a step each
//	straggler  a write whose sender was told that time is up, or is dead, and that may take effect all the same, but not for ever
//	frozen     a leader that stands still, whatever it is at, and goes on later: maybe beside its successor
//	neighbours other sets of a manager, which now and then wait for their pass, and leave little room for the writes of the one that is looked at
//	peer       another set on the same nodes, whose policy names the same concurrency group; it is judged by that alone
//	work       the nodes on which a set of the group is at work: a write has taken an available pod there for an update, or added one, and that has not ended
//	provider   what measures what the analyses of policies ask for; it says what it likes
//	ill        a node on which no pod of the set gets ready, at the end of a run with undos
//	ruling     what the rollout policies that a manager knew at its decision allow, found out from the objects alone
//	pass       one Reconcile of a manager; it runs until it waits for a request
//	knowledge  what a manager has been shown: by its views, and by the answers to its own requests; the newest version wins
//	story      the steps of a run in words; it is also the script by which the run is repeated
//	outage     a node that is healed only when all else has come to rest: it is down, or its pods are not released from their hook
//	fair       the second part of a run, without faults: everything is delivered, served and healed, round by round. What users hold back is let go
//	           only when all the rest has come to its end
//
// # Rule
//
// A run depends on its configuration and its steps alone. Nothing in it takes time, asks chance, or depends on which goroutine is faster: the
// bubble of testing/synctest tells when all of them wait, and then what waits is sorted by its words.
//
// The first list of a new leader shows all that there is; only later ones may be old. That is what ships: it asks for lists that are as new as the API
// server's store (informers.TestListsAreConsistent), and where one comes from a cache that is behind it decides nothing before its watch has come to
// the version that a consistent read has shown (informers.TestStartWaitsForTheFloor).
//
// # What a manager can be blamed for
//
// A manager acts on what it knows, which is always a little old. A pod that became ready a moment ago looks unavailable. A delete names the version of the pod
// then, but an edit, or a second pod beside it, takes away or adds more than was intended. So what is counted against a budget is what the managers took away knowingly:
//
//	A node is down by us from the moment in which a delete takes effect of a pod that the sender knew as available, on a node that counts and
//	has no other available pod, until a pod of the set is available there again, or the node does not count any more.
//
// A pod that is ready, but not for long enough, counts as available there: only a clock says that it is not, and that may be wrong. To the native controller
// an old one costs nothing.
//
// The sender knows something if it was so in its knowledge when its pass began, and still when it sent the request; that a pod is ready it knows
// also if it has learned of that meanwhile. The nodes that are down by us
// are counted in the world, over all managers that ever were: whatever the last leader took away the next one has to know of, for it waits and
// reads before it decides. The limit is the largest that the sender has known during its pass, at the size that the cluster had for it, or in the
// pass in which the write takes effect.
//
// The same for a surge: a node is doubled by us from a create beside a pod that the sender knew as available, until one of the two is on its way
// out or no pod of the set any more, or the new one is available and no hook holds the old one. An actor that removes the owner of a pod, and keeps it from being adopted,
// does not stop the surge of the set.
//
// A status says what its manager has known at one moment of the pass that writes it: every status is compared with a recount of what was known,
// when it is sent, and the last one with the world, when all has come to its end. What of a run should make no difference (a bad change before
// a good one, the order of edits, restarts, the names of nodes) is found out by two runs that differ in that, and have to come to the same end.
//
// What nobody has to know to keep it is asked of the world itself: never two live pods on a node without a surge, and never
// three; never a delete without the UID of the pod.
package sim
