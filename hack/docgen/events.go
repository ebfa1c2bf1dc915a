// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"

	"everynode.dev/everynode/internal/dialect/base"
	"everynode.dev/everynode/internal/dialect/kruise"
	"everynode.dev/everynode/internal/rollout"
)

// source is where names are declared: a package, and how the comment of the declaration begins.
type source struct{ dir, begins string }

// eventPart is a part of the page: the events about one kind of thing.
type eventPart struct {
	title   string
	sources []source
}

func eventParts() []eventPart {
	return []eventPart{
		{"On a daemon set of any kind, as Kubernetes' own controller has them", []source{{"internal/dialect/base", "Reasons of events on a DaemonSet"}}},
		{"On a daemon set of any kind, from Everynode alone", []source{
			{"internal/dialect/base", "Reasons of Problems"},
			{"internal/dialect/base", "Reasons of events of our own"},
		}},
		{"On a daemon set of any kind, about images that are pulled before an update", []source{
			{"internal/dialect/base", "Reasons of events about images"},
		}},
		{"On a daemon set of any kind, about the rollout policy that governs it", []source{{"internal/policy", "Reasons of events about a daemon set"}}},
		{"On an Advanced DaemonSet", []source{{"internal/dialect/kruise", "Reasons of events"}}},
		{"On a DaemonSet with OpenYurt's annotations", []source{
			{"internal/dialect/openyurt", "ReasonIgnoredAnnotation"}, {"internal/dialect/openyurt", "ReasonDeprecatedAnnotation"}, {"internal/dialect/openyurt", "ReasonFailedCondition"},
		}},
		{"On an ImagePullJob or a NodeImage", []source{
			{"internal/imagepull", "Reasons of events"},
			{"internal/controller/imagepull", "ReasonNoSecret"},
		}},
		{"From the agent of a node, on its NodeImage and on what wants the image", []source{{"api/kruise", "Reasons of events"}}},
		{"From the agent of a node, on a pod", []source{{"internal/agent/rest", "Reasons of the events"}}},
		{"On the DaemonSet everynode-probe", []source{{"internal/controller/conflict", "ReasonConflict"}}},
	}
}

// otherReasons are declarations of reasons that are not reasons of events: those of conditions, and of answers of the API of a node.
func otherReasons() []source {
	return []source{
		{"internal/dialect/kruise", "The reasons of conditions"},
		{"internal/imagepull", "The reasons of conditions"},
		{"api/kruise", "Readiness gates"},
		{"api/agent/v2", "The reasons"},
	}
}

// eventsPage lists the reasons of all events. A declared reason that is not in any part is an error, so the page is complete.
func eventsPage(tree *sources) (string, error) {
	var b strings.Builder
	b.WriteString("# Events\n\nThe reasons of all events that Everynode sends, by what they are about: `kubectl get events --field-selector involvedObject.name=NAME` shows\n" +
		"them, and so does `kubectl describe`. Those of the manager come from `daemonset-controller`, as with the native controller and with OpenKruise. Of each\n" +
		"reason there are 25 for an object, and then one in five minutes.\n")
	messages, known := eventMessages(), map[string]bool{}
	for _, part := range eventParts() {
		fmt.Fprintf(&b, "\n## %s\n\n| reason | meaning | message |\n|---|---|---|\n", part.title)
		for _, from := range part.sources {
			entries, err := named(tree, from.dir, from.begins)
			if err != nil {
				return "", err
			}
			for _, e := range entries {
				known[e.Value] = true
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Value, strings.TrimSuffix(e.Doc, "."), cell(messages[e.Value]))
			}
		}
	}
	for _, from := range otherReasons() {
		entries, err := named(tree, from.dir, from.begins)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			known[e.Value] = true
		}
	}
	return b.String(), unlisted(tree, known)
}

// unlisted is an error that names a reason that is declared in the product and not known.
func unlisted(tree *sources, known map[string]bool) error {
	for _, dir := range slices.Sorted(maps.Keys(tree.packages)) {
		if !strings.HasPrefix(dir, "internal/") && !strings.HasPrefix(dir, "api/") {
			continue
		}
		for _, f := range tree.packages[dir] {
			for name, value := range reasonsIn(f) {
				if !known[value] {
					return fmt.Errorf("the reason %s.%s is on no page: export it with a comment, and add its declaration to eventParts or to otherReasons of docgen", dir, name)
				}
			}
		}
	}
	return nil
}

// reasonsIn returns the constants of a file with a string value whose name marks them as a reason, by name.
func reasonsIn(file *ast.File) map[string]string {
	found := map[string]string{}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if i < len(spec.Values) && strings.HasPrefix(strings.ToLower(name.Name), "reason") {
					if value := literal(spec.Values[i]); value != "" {
						found[name.Name] = value
					}
				}
			}
		}
	}
	return found
}

// eventMessages returns the messages of events with a constant message, from the code that sends them.
func eventMessages() map[string]string {
	const pod, node, namespace, why = "POD", "NODE", "NAMESPACE", "ERROR"
	messages := map[string]string{
		base.ReasonSuccessfulCreate:             fmt.Sprintf(base.MessageSuccessfulCreate, pod),
		base.ReasonFailedCreate:                 fmt.Sprintf(base.MessageFailedCreate, why),
		base.ReasonSuccessfulDelete:             fmt.Sprintf(base.MessageSuccessfulDelete, pod),
		base.ReasonFailedDelete:                 fmt.Sprintf(base.MessageFailedDelete, why),
		kruise.ReasonSuccessfulUpdatePodInPlace: fmt.Sprintf(kruise.MessageSuccessfulUpdatePodInPlace, pod),
		kruise.ReasonFailedUpdatePodInPlace:     fmt.Sprintf(kruise.MessageFailedUpdatePodInPlace, pod, "REVISION", why),
	}
	for _, kind := range []rollout.NoteKind{rollout.FoundFailedPod, rollout.FoundSucceededPod} {
		_, reason, message := base.Event(rollout.Note{Kind: kind, Pod: pod}, namespace, node)
		messages[reason] = message
	}
	all := kruise.Digest(map[string]any{"spec": map[string]any{"selector": map[string]any{}, "template": map[string]any{"spec": map[string]any{}}}})
	for _, problem := range all.Problems {
		if problem.Reason == base.ReasonSelectingAll {
			messages[problem.Reason] = problem.Message
		}
	}
	return messages
}
