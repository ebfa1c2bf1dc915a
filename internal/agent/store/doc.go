// SPDX-License-Identifier: Apache-2.0

// Package store stores on the disk of a node what its agent needs while the cluster is not reachable: the last known
// pods of the node, and the decisions of the owner of the node.
//
// It is one bbolt file. bbolt recovers from an interrupted write: it writes pages before the meta page that refers to
// them, and of two meta pages it uses the newer valid one. It does not detect later corruption of a page, and panics or
// worse on a truncated file. So the pages are checked before the file is opened for writing, every value has a
// checksum, the whole file is read once when it is opened, and panics of bbolt are recovered.
//
// Rule: a damaged file is renamed, never removed; the agent logs that, and continues with an empty one. So a damaged
// store never stops the agent.
package store
