// SPDX-License-Identifier: Apache-2.0

// Package plan holds the verbs plan and apply: what would happen, node by node, if a daemon set were edited, and the edit itself as long as
// that still holds.
//
// # Vocabulary
//
//	edit       what is sent to the API server: a patch, or a whole object where there is none yet
//	edited     the set as the server would store it after the edit, with defaults, which is asked of the server by a dry run
//	document   what was foreseen, for machines; apply carries its edit out
//	stale      a document whose set, or any node's outcome, is not what it was
//
// # Rule
//
// Nothing is decided and nothing is compared here that the manager decides or compares: the edited set is digested by its dialect, its
// template is looked for in the history by internal/revision, and internal/plan plays what rollout.Decide says.
package plan
