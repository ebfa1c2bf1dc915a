// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/cli/policies"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/plan"
)

// outdated is the beginning of the error for a plan that is no longer valid.
const outdated = "the plan is no longer valid, and nothing has been changed: "

// StaleError is the error for a plan that is no longer valid.
type StaleError struct {
	// Changes lists the changes since the plan was made: a single one, or the nodes that would get another verdict.
	Changes []string
	text    string
}

// Error implements error.
func (e *StaleError) Error() string { return e.text }

// stale returns the error for a plan that is no longer valid for one reason.
func stale(format string, args ...any) error {
	why := fmt.Sprintf(format, args...)
	return &options.Exit{Code: options.ExitStale, Err: &StaleError{Changes: []string{why}, text: outdated + why + "; make a new one"}}
}

// same returns an error unless the set is still the one of the document.
func (d *Document) same(object *unstructured.Unstructured) error {
	switch {
	case string(object.GetUID()) != d.UID:
		return stale("%s/%s was deleted and made again (UID %s, not %s)", d.Namespace, d.Set, object.GetUID(), d.UID)
	case object.GetGeneration() != d.Generation:
		return stale("%s/%s has been changed (generation %d, not %d)", d.Namespace, d.Set, object.GetGeneration(), d.Generation)
	case !maps.Equal(edgeOf(object), d.Annotations):
		return stale("%s/%s has been changed (its update annotations are %s, and were %s)", d.Namespace, d.Set,
			labels.FormatLabels(edgeOf(object)), labels.FormatLabels(d.Annotations))
	default:
		return nil
	}
}

// mostDifferences is the maximum number of different nodes in an error.
const mostDifferences = 10

// holds compares a new prediction with the document.
func (d *Document) holds(f *prediction) error {
	if f.before != d.CurrentRevision || f.after != d.Revision {
		return stale("it changed revision %q to %q, and would now change %q to %q", d.CurrentRevision, d.Revision, f.before, f.after)
	}
	// A plan for a policy in a file does not concern a policy of the cluster, unless that policy will also be stored.
	if !d.ofFile() || f.policy != nil {
		if why := d.otherPolicies(f.policies()); why != "" {
			return stale("%s", why)
		}
	}
	differ := d.differences(f.outcomes())
	if len(differ) == 0 {
		return nil
	}
	text := view.Plural(len(differ), "node")
	if n := len(differ) - mostDifferences; n > 0 {
		differ = append(differ[:mostDifferences], fmt.Sprintf("and %d more", n))
	}
	return &options.Exit{Code: options.ExitStale, Err: &StaleError{
		Changes: differ, text: outdated + "make a new one, because " + text + " would get another verdict:\n  " + strings.Join(differ, "\n  "),
	}}
}

// otherPolicies returns how the rollout policies of the set differ from those of the document; empty if they do not.
func (d *Document) otherPolicies(versions []PolicyVersion) string {
	now := map[string]PolicyVersion{}
	for _, p := range versions {
		now[p.Name] = p
	}
	for _, was := range d.Policies {
		is, applies := now[was.Name]
		delete(now, was.Name)
		switch {
		case !applies:
			return fmt.Sprintf("rolloutpolicy/%s does not apply to the set any more", was.Name)
		case is.UID != was.UID:
			return fmt.Sprintf("rolloutpolicy/%s was deleted and made again (UID %s, not %s)", was.Name, is.UID, was.UID)
		case is.Generation != was.Generation:
			return fmt.Sprintf("rolloutpolicy/%s has been changed (generation %d, not %d)", was.Name, is.Generation, was.Generation)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		return fmt.Sprintf("rolloutpolicy/%s applies to the set now, and did not", name)
	}
	return ""
}

// ofFile reports whether the plan was made for a policy in a file.
func (d *Document) ofFile() bool { return d.Policy != nil && d.Policy.File }

// readPolicies reads the rollout policies of the set again, and returns how they differ from those of the document. The API server has no precondition for another
// object than the one that is written, so this is done just before the edit is sent, and after it was made.
func (d *Document) readPolicies(ctx context.Context, c *options.Clients, f *prediction) (why string, err error) {
	if d.ofFile() {
		return "", nil
	}
	edited := *f.named
	edited.Object = f.object
	all, unread := policies.Optional(ctx, c, &edited)
	switch {
	case unread == "":
		return d.otherPolicies(versionsOf(all)), nil
	case len(d.Policies) > 0:
		return "", fmt.Errorf("reading the rollout policies of the plan again: %s", unread)
	default: // as when the plan was made
		return "", nil
	}
}

// differences lists the nodes that would get another verdict. Nodes on which nothing happens are ignored if they appear
// or disappear.
func (d *Document) differences(now []Node) []string {
	was := map[string]Node{}
	for _, n := range d.Nodes {
		was[n.Name] = n
	}
	var differ []string
	for _, n := range now {
		before, known := was[n.Name]
		delete(was, n.Name)
		switch {
		case !known && n.Verdict != plan.Leave:
			differ = append(differ, fmt.Sprintf("%s is new (%s)", n.Name, n.Verdict))
		case known && before.Verdict != n.Verdict:
			differ = append(differ, fmt.Sprintf("%s: %s in the plan, and %s now (%s)", n.Name, before.Verdict, n.Verdict, n.Reason))
		}
	}
	for _, n := range d.Nodes {
		if _, gone := was[n.Name]; gone && n.Verdict != plan.Leave {
			differ = append(differ, n.Name+" is gone")
		}
	}
	return differ
}
