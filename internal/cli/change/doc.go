// SPDX-License-Identifier: Apache-2.0

// Package change makes one ordinary patch of one object, as the verbs of kubectl everynode that steer something do.
//
// The patch is a merge patch of the field manager kubectl-everynode, so that whoever looks after the object from a repository can see in
// metadata.managedFields who has changed what. It is made of an edit: the object is read, a copy of it is edited, and what differs is sent,
// unless the object has changed meanwhile; then all begins anew.
//
// Vocabulary: a field is one place at which the two differ; it is owned when somebody else has written it by server-side apply.
//
// Rule: what is owned is told and left alone, unless the user says --force-conflicts.
package change
