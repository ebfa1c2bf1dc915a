// SPDX-License-Identifier: Apache-2.0

// Package sim searches for ways to break what ships: it holds tests only. The controller, its executor, the index and the dialects
// are the real ones; around them is an imaginary cluster that does nothing by itself. All that can happen next is a list of steps (an
// event reaches a manager, a write takes effect and its answer is lost, a manager dies, a pod becomes ready, a user edits), and a seed
// chooses one after the other. So every order of events is a run that can be repeated, cut short and read as a story.
//
// # Vocabulary
//
//	world      the objects of the API server, and a log of everything that became of them, with one counter of versions
//	view       how much of the log a manager has seen, for each resource apart: a view goes on by one event, or is listed anew
//	request    a read or write of a manager that waits for the world; the order in which requests are served is a step each
//	straggler  a write whose sender was told that time is up, or is dead, and that may take effect all the same, but not for ever
//	pass       one Reconcile of a manager; it runs until it waits for a request
//	knowledge  what a manager has been shown: by its views, and by the answers to its own requests; the newest version wins
//	story      the steps of a run in words; it is also the script by which the run is repeated
//	fair       the second part of a run, without faults: everything is delivered, served and healed, round by round
//
// # Rule
//
// A run depends on its configuration and its steps alone. Nothing in it takes time, asks chance, or depends on which goroutine is faster: the
// bubble of testing/synctest tells when all of them wait, and then what waits is sorted by its words.
//
// # What a manager can be blamed for
//
// A manager acts on what it knows, which is always a little old. A pod that became ready a moment ago looks unavailable, and its deletion takes
// away more than anybody intended; no controller can do better. So what is counted against a budget is what the managers took away knowingly:
//
//	A node is down by us from the moment in which a delete takes effect of a pod that the sender knew as available, on a node that counts and
//	has no other available pod, until a pod of the set is available there again, or the node does not count any more.
//
// The sender knows something if it was so in its knowledge when its pass began, and still when it sent the request. The nodes that are down by us
// are counted in the world, over all managers that ever were: whatever the last leader took away the next one has to know of, for it waits and
// reads before it decides. The limit is the largest that the sender has known during its pass, at the size that the cluster had for it.
//
// The same for a surge: a node is doubled by us from a create beside a pod that the sender knew as available, until one of the two is on its way
// out, or the new one is available.
//
// What nobody has to know to keep it is asked of the world itself: never two live pods on a node without a surge, and never
// three; never a delete without the UID of the pod.
package sim
