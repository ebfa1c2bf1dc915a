// SPDX-License-Identifier: Apache-2.0

// Package store keeps on the disk of a node what its agent has to know without the cluster: the pods of the node as they were
// seen last, and the decisions of the node's owner.
//
// It is one file of bbolt. bbolt survives a torn write by itself: pages are written before the meta page that makes them count,
// and of two meta pages the one that is whole and newer wins. It does not notice what a disk does to a page later, and a file that
// was cut short makes it panic or worse. So its pages are checked before it is opened for writing, every value carries a checksum, the whole file
// is read once when it is opened, and a panic inside of bbolt is caught.
//
// Rule: what is on the disk is either as it was written, or it is set aside and said. A file that cannot be read is renamed, never
// removed, and the agent begins with an empty one: it never ends because of its store, and so never goes round in a circle.
package store
