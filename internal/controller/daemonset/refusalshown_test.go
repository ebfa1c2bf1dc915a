// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// lastPlan is an Observer that keeps the verdict blocked of the last pass, with its reason, by nodes.
type lastPlan struct{ blocked map[string]string }

func (l *lastPlan) Decided(_ clustercache.Key, s *rollout.Snapshot, p *rollout.Plan, _ time.Duration) {
	l.blocked = map[string]string{}
	for i := range s.Nodes {
		if p.Verdicts[i].Kind == rollout.Blocked {
			l.blocked[s.Nodes[i].Name] = p.Obstacle(s, i)
		}
	}
}
func (l *lastPlan) Forgotten(clustercache.Key) {}
func (l *lastPlan) Refused(clustercache.Key)   {}
func (l *lastPlan) Wrote(string, error)        {}

// TestEveryRefusalIsShown: whatever the code of a refusal is, and whatever is refused, its node is blocked and no other one, and the verdict, the condition Degraded and
// an event have the words of the API server.
func TestEveryRefusalIsShown(t *testing.T) {
	answers := refusals()
	maps.Copy(answers, map[string]error{
		"a namespace that is not found": apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns"),
		"401":                           apierrors.NewUnauthorized("no"),
		"413":                           apierrors.NewRequestEntityTooLargeError("no"),
		"an eviction-like policy":       apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0),
	})
	for what, row := range map[string]struct{ verb, spec, reason string }{
		"a delete":               {"delete", standard, "FailedDelete"},
		"a change in place":      {"patch", inPlace, "FailedUpdatePodInPlace"},
		"a create with surge":    {"create", `{updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}`, "FailedCreate"},
		"a create where none is": {"create", standard, "FailedCreate"},
	} {
		for name, answer := range answers {
			t.Run(what+"/"+name, func(t *testing.T) {
				a, last := newAdvanced(t, 2, row.spec), &lastPlan{}
				a.c.Observer = last
				a.settle()
				if what == "a create where none is" {
					a.join("n9")
				} else {
					a.image("img:v2")
				}
				_ = a.allEvents()
				protected := ""
				a.before = func(verb, name string) error {
					if verb == row.verb && (protected == "" || name == protected) {
						protected = name
						return answer
					}
					return nil
				}
				a.settleBut(t, answer)
				text := answer.Error()
				if len(last.blocked) != 1 || !strings.Contains(strings.Join(slices.Collect(maps.Values(last.blocked)), ""), text) {
					t.Errorf("blocked are %v, want one node with %q", last.blocked, text)
				}
				if got := a.degraded(); !strings.Contains(got, text) {
					t.Errorf("the condition Degraded says %q, want %q", got, text)
				}
				if events := a.allEvents(); !strings.Contains(events, row.reason) || !strings.Contains(events, text) {
					t.Errorf("no event %s with %q in\n%s", row.reason, text, events)
				}
			})
		}
	}
}
