// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/options"
	"everynode.dev/everynode/internal/rollout"
)

// Explanation is the state of one set on one node.
type Explanation struct {
	Node      string `json:"node"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	// Condition is the condition of the node.
	Condition string `json:"condition"`
	Verdict   string `json:"verdict"`
	// Reason explains the verdict.
	Reason string `json:"reason"`
	// Placement reports whether a pod must run here, Rules has the reasons.
	Placement string `json:"placement"`
	Rules     []Rule `json:"rules,omitempty"`
	Wanted    string `json:"wanted"`
	Pods      []Pod  `json:"pods"`
	// Values are the values that the verdict is based on.
	Values []Value `json:"values,omitempty"`
	// Next is when something may change without a user; empty if a user or another program must act.
	Next     string            `json:"next,omitempty"`
	Remedy   string            `json:"remedy,omitempty"`
	Problems []string          `json:"problems,omitempty"`
	Warnings []inspect.Warning `json:"warnings,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
}

// Rule is a rule of the template, with its result for the node.
type Rule struct {
	Rule string `json:"rule"`
	Says string `json:"says"`
	// Against reports whether the rule prevents new pods.
	Against bool `json:"against"`
}

// Value is a value that was used.
type Value struct {
	Name string `json:"name"`
	Says string `json:"says"`
}

// Pod is a pod of the set on the node.
type Pod struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	// Wanted reports whether the pod has the newest revision.
	Wanted bool   `json:"wanted"`
	State  string `json:"state"`
	// Says are the messages in the pod's status that explain why it is not ready, or not deleted.
	Says []string `json:"says,omitempty"`
}

// subject is what is explained.
type subject struct {
	o    *options.Options
	m    *inspect.Evaluation
	at   int
	node *corev1.Node // nil for a deleted node
	// pulls are what the agent reports of the images that the node waits for.
	pulls []string
}

func (s *subject) seen() *rollout.Node      { return &s.m.Snapshot.Nodes[s.at] }
func (s *subject) verdict() rollout.Verdict { return s.m.Plan.Verdicts[s.at] }
func (s *subject) set() *rollout.Set        { return &s.m.Snapshot.Set }

// ago formats the time since t.
func (s *subject) ago(t rollout.Time) string {
	if t == 0 {
		return "a time that is not known"
	}
	return inspect.Age(s.m.Snapshot.Now.Sub(t))
}

// until formats the time until t.
func (s *subject) until(t rollout.Time) string {
	if left := t.Sub(s.m.Snapshot.Now); left > 0 {
		return "in " + inspect.Age(left)
	}
	return "now"
}

func (s *subject) explain() Explanation {
	n, v := s.seen(), s.verdict()
	e := Explanation{
		Node: n.Name, Namespace: s.m.Set.Namespace(), Set: s.m.Set.String(), Condition: s.condition(), Verdict: v.Kind.String(),
		Reason:    inspect.Reason(&s.m.Snapshot, n, v),
		Placement: fitText(n), Wanted: s.revision(s.set().Update), Values: s.values(), Remedy: s.remedy(), Pods: []Pod{},
	}
	if s.node != nil {
		for _, f := range s.m.Workload.Placement.Explain(facts(s.node)) {
			e.Rules = append(e.Rules, Rule{Rule: f.Rule, Says: f.Result, Against: f.Fit != rollout.MustRun})
		}
		if len(e.Rules) == 0 && s.m.Workload.Placement != nil {
			e.Rules = append(e.Rules, Rule{Rule: "template", Says: "it selects all nodes, and this one has no taint that matters"})
		}
	}
	if cause := s.m.Cause(v.Kind); cause != "" {
		e.Reason = cause
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		e.Pods = append(e.Pods, Pod{Name: p.Name, Revision: s.revision(p.Revision), Wanted: p.Revision == s.set().Update, State: s.stateOf(p)})
	}
	for _, problem := range s.m.Workload.Problems {
		e.Problems = append(e.Problems, problem.Message)
	}
	if wake := s.m.Plan.Wake; wake != 0 && v.Kind.Waits() {
		e.Next = "looked at again " + s.until(wake)
	}
	if next := s.nextByPolicy(); next != "" {
		e.Next = next
	}
	return e
}

func (s *subject) condition() string {
	n := s.seen()
	switch {
	case n.Gone:
		return "the node is gone; its pods are still there"
	case n.Ready:
		return "ready for " + s.ago(n.Since) + s.held()
	default:
		return "not ready for " + s.ago(n.Since) + s.held()
	}
}

// held says that the node waits for daemon pods; empty if it does not. Only the log of the manager has the set for which it has put the taint there.
func (s *subject) held() string {
	if s.node == nil || !slices.ContainsFunc(s.node.Spec.Taints, everynode.IsHold) {
		return ""
	}
	waits := "daemon pods are ready"
	if s.m.Workload.ComeBackFirst > 0 && !slices.ContainsFunc(s.seen().Pods, func(p rollout.Pod) bool { return p.Ready && !p.Deleting }) {
		waits = fmt.Sprintf("the pod of this set is ready, for at most %v in use", s.m.Workload.ComeBackFirst)
	}
	return fmt.Sprintf("; no other pods are scheduled before %s (taint %s)", waits, everynode.HoldKey)
}

func fitText(n *rollout.Node) string {
	switch {
	case n.Gone:
		return "no pod may run here"
	case n.Fit == rollout.MustRun:
		return "a pod must run here"
	case n.Fit == rollout.MayStay:
		return "no new pod may be created here, but a running pod may stay"
	case n.Fit == rollout.MustLeave:
		return "no pod may run here"
	default:
		return "the placement rules of the template cannot be read"
	}
}

// revision returns the name and number of a revision.
func (s *subject) revision(index int) string {
	name := inspect.RevisionName(&s.m.Snapshot, index)
	if index < 0 || index >= len(s.m.Snapshot.Revisions) {
		return name + " (not in the history)"
	}
	return fmt.Sprintf("%s (number %d)", name, s.m.Snapshot.Revisions[index].Number)
}

func (s *subject) stateOf(p *rollout.Pod) string {
	state := inspect.PodState(p)
	switch {
	case p.Deleting && p.DeletedAt != 0:
		return state + " for " + s.ago(p.DeletedAt)
	case p.ReadySince != 0 && (state == "ready" || strings.HasSuffix(state, "not ready")):
		return state + " for " + s.ago(p.ReadySince)
	case p.Created != 0:
		return state + ", made " + s.ago(p.Created) + " ago"
	default:
		return state
	}
}

// quantity formats a number or a percentage.
func quantity(q rollout.Quantity) string {
	if q.Percent {
		return fmt.Sprintf("%d%%", q.Value)
	}
	return fmt.Sprint(q.Value)
}

// of describes the absolute value of a quantity.
func of(name string, q rollout.Quantity, desired, comesTo int) string {
	if !q.Percent {
		return name + " " + quantity(q)
	}
	return fmt.Sprintf("%s %s of %d desired nodes, which is %d", name, quantity(q), desired, comesTo)
}

// seconds formats a duration of an object.
func seconds(d time.Duration) string { return fmt.Sprintf("%d seconds", int(d/time.Second)) }
