// SPDX-License-Identifier: Apache-2.0

// Package plan implements the commands plan and apply: plan shows, node by node, what would happen if a DaemonSet were
// edited; apply makes the edit if the plan is still valid.
//
// # Vocabulary
//
//	edit       what is sent to the API server: a patch, or a whole object if there is none yet
//	edited     the set as the server would store it after the edit, with defaults, from a dry run on the server
//	document   the plan for programs; apply makes its edit
//	stale      a document whose set, or the verdict of any node, has changed since
//
// # Rule
//
// This package uses the decisions and comparisons of the manager: the dialect of the edited set converts it,
// internal/revision finds its template in the history, and internal/plan simulates rollout.Decide.
package plan
