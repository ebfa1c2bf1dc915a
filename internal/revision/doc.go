// SPDX-License-Identifier: Apache-2.0

// Package revision handles the history of a pod template: it converts templates to the data of ControllerRevisions and
// back, finds the entry of a history that equals a template, and derives names from revisions.
//
// Vocabulary:
//
//   - A template is the undecoded value of spec.template. Its canonical form has no null values,
//     and no zero values that our types omit; fields that our types do not have
//     are kept.
//   - The data of a revision are the bytes {"spec":{"template":{…,"$patch":"replace"}}}, a strategic merge patch that
//     restores the template; kubectl rollout undo and history read them.
//   - The hash of a revision is part of the name of the ControllerRevision and the value of the label
//     controller-revision-hash of the revision and of its pods.
//   - An Entry is a ControllerRevision, decoded.
//
// Rule: revisions are written exactly as Kubernetes 1.37.1 writes them, and revisions of other controllers are read
// too. Two templates are equal if their canonical forms are equal (Equal). Bytes and hashes are never compared: both
// depend on the version of the API types, and a control plane upgrade must not restart pods. The golden files in
// testdata must not change.
package revision
