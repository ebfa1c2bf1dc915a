// SPDX-License-Identifier: Apache-2.0

// Package revision keeps the history of a pod template: it turns templates into the data of ControllerRevisions and
// back, says which entry of a history a template is, and derives names from revisions.
//
// Vocabulary:
//
//   - A template is the undecoded value of spec.template. Its canonical form is what is left of it when null values,
//     and what our types would leave out because it has its zero value, are dropped; fields that our types do not know
//     stay.
//   - The data of a revision are the bytes {"spec":{"template":{…,"$patch":"replace"}}}, a strategic merge patch that
//     brings the template back; kubectl rollout undo and history read them.
//   - The hash of a revision names it: it is part of the ControllerRevision's name and stands in the label
//     controller-revision-hash of the revision and of its pods.
//   - An Entry is a ControllerRevision, decoded.
//
// Rule: revisions are written exactly as Kubernetes 1.37.1 writes them, and read as anybody may have written them. Two
// templates are equal when their canonical forms are (Equal), never because their bytes or hashes are: versions of the
// API types differ in both, and a pod must not be restarted because the control plane was upgraded. Goldens in testdata
// hold what must never change by accident.
package revision
