// SPDX-License-Identifier: Apache-2.0

// Package clustercache keeps what the controllers know of a cluster: a compact record of each node, of each pod of a daemon set,
// and of the placement of each set on each node. It is the only source of Snapshots.
//
// Vocabulary:
//
//   - a state is one (set, node) pair: how the node fits the set, and the set's pods there;
//   - an orphan is a pod without a controller; it is kept, because a set may adopt it;
//   - a missing node is a node whose object does not exist (any more) but which pods still name; only the sets of these pods have a state for it, because users who
//     may make pods can name nodes that never existed;
//   - facts are what only one dialect needs to know of a pod; its own function reads them;
//   - the next revision is the one that a node got whose pod was deleted for an update;
//   - to observe is to put the answer of a write into the index as if its watch event had already come.
//
// The rule is: newest resourceVersion wins. A record is replaced only by a newer version of the same object, whether it
// comes from a watch or from the answer of a write, so a late watch event never undoes what a write of ours has
// answered, and no expectation must time out. A pod that a write created is not added when the watch has already
// gone past that write: then it has come and gone. What is known of our own writes that no watch has shown is in package inflight below it, and a
// Snapshot lays it over the records.
//
// An event costs O(1) for a pod and O(sets) for a node whose labels, taints or existence changed; nothing else is
// evaluated again. Placement of a whole set is evaluated again only when its template changed.
//
// Except for one mutex, the package is pure; the package informers, below this one, fills the index.
package clustercache
