// SPDX-License-Identifier: Apache-2.0

// Package validation says what cannot be honoured in an Advanced DaemonSet, with the path of each field and a sentence.
//
// The texts for what OpenKruise refuses are OpenKruise's, for people and tools know them. In addition whatever OpenKruise
// accepts and then ignores, or fails on later, is refused here: unknown fields, burstReplicas that come to nothing, a
// selector of nodes that cannot be evaluated, hooks without an effect, annotations that are no numbers.
//
// Vocabulary: a Result has errors, which refuse the object, and warnings, which are shown to whoever sent it.
//
// Rules: an update that leaves the specification alone is not refused for it, and an annotation is judged when it changes; so
// an object that is invalid already can still be labelled and deleted. What only the API server knows of a pod template (its fields, their values) is judged by the API
// server; see Options.TemplateChecked.
package validation
