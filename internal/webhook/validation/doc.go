// SPDX-License-Identifier: Apache-2.0

// Package validation validates Advanced DaemonSets, and returns the path of each invalid field with a message.
//
// Errors that OpenKruise returns too have the same text, because users and tools know them. In addition, this package
// rejects what OpenKruise accepts and then ignores, or fails on later: unknown fields, burstReplicas of 0, an invalid
// node selector, hooks without an effect, annotations that are not numbers.
//
// Vocabulary: a Result has errors, which reject the object, and warnings, which are shown to the client.
//
// Rules: an update that does not change the specification is not rejected because of it, and an annotation is validated
// when it changes; so an object that is already invalid can still be labelled and deleted. The API server validates the
// parts of a pod template that only it knows; see Options.TemplateChecked.
package validation
