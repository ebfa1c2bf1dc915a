// SPDX-License-Identifier: Apache-2.0

// Package change patches one object, for the commands of kubectl everynode that change something.
//
// The patch is a merge patch by the field manager kubectl-everynode, so that metadata.managedFields shows who changed a
// field. The object is read, a copy of it is edited, and the difference is sent with a precondition: if the object has
// changed in the meantime, everything is repeated.
//
// Vocabulary: a field is one place at which the object and the copy differ; it is owned if another field manager has
// applied it by server-side apply.
//
// Rule: owned fields are reported and not changed, unless the user passes --force-conflicts.
package change
