// SPDX-License-Identifier: Apache-2.0

// Package store keeps on the disk of a node what its agent needs while the cluster is not reachable: the last known pods of the node, and the
// decisions of the node's owner.
//
// It is one file of bbolt. bbolt survives a torn write by itself: pages are written before the meta page that makes them count,
// and of two meta pages the one that is whole and newer wins. It does not notice what a disk does to a page later, and a file that
// was cut short makes it panic or worse. So its pages are checked before it is opened for writing, every value carries a checksum, the whole file
// is read once when it is opened, and a panic inside of bbolt is caught.
//
// Rule: a file that is not as it was written is renamed, never removed, the agent logs that, and continues with an empty one. So a damaged store never
// stops the agent.
package store
