// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"time"

	"everynode.dev/everynode/internal/cli/resolver"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// Report is one set at one moment, for machine-readable output.
type Report struct {
	Set       string `json:"set"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// APIVersion and Kind are those of the set.
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Generation         int64  `json:"generation"`
	ObservedGeneration int64  `json:"observedGeneration"`
	// Revision is the revision that nodes are updated to, as in the label controller-revision-hash.
	Revision string `json:"revision"`
	Outcome
	// Updated, Ready and Available also count a node whose new pod is available while its old one is stopping; the
	// status of the object counts it when the old pod no longer exists.
	Desired      int    `json:"desired"`
	Updated      int    `json:"updated"`
	Ready        int    `json:"ready"`
	Available    int    `json:"available"`
	Misscheduled int    `json:"misscheduled"`
	Done         int    `json:"updatedAndAvailable"`
	Budget       Budget `json:"budget"`
	Waves        *Waves `json:"waves,omitempty"`
	// SecondsLeft includes the soaks of a rollout policy that are still to come, but neither approvals nor closed windows.
	SecondsLeft *int             `json:"secondsLeft,omitempty"`
	Revisions   []RevisionReport `json:"revisions"`
	Verdicts    []VerdictReport  `json:"verdicts"`
	Waits       []WaitReport     `json:"waits,omitempty"`
	Nodes       []NodeReport     `json:"nodes"`
	Problems    []string         `json:"problems,omitempty"`
	Warnings    []Warning        `json:"warnings,omitempty"`
	// Stopped is why nothing starts before a user acts, with the remedy.
	Stopped string `json:"stopped,omitempty"`
	// Unheld says that another controller updates the nodes without a policy that was deleted, with the remedy.
	Unheld string `json:"unheld,omitempty"`
	// Next describes what happens next under the rollout policy of the set, and when.
	Next string `json:"next,omitempty"`
	// Policy is what the rollout policy of the set reports.
	Policy *PolicyReport `json:"policy,omitempty"`
}

// Budget is the update budget and its use.
type Budget struct {
	Limit             int  `json:"limit"`
	Surge             bool `json:"surge"`
	UsedByUpdate      int  `json:"usedByUpdate"`
	UsedByOthers      int  `json:"usedByOthers"`
	UsedByUnreachable int  `json:"usedByUnreachable"`
}

// Waves are the batches of the update, of the size of the budget.
type Waves struct {
	Size  int `json:"size"`
	Done  int `json:"done"`
	Total int `json:"total"`
}

// RevisionReport is a revision and the number of its pods.
type RevisionReport struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
}

// VerdictReport is a verdict and the number of nodes that have it.
type VerdictReport struct {
	Verdict string `json:"verdict"`
	Nodes   int    `json:"nodes"`
}

// WaitReport is a reason and the nodes that wait for it.
type WaitReport struct {
	Verdict string   `json:"verdict"`
	Reason  string   `json:"reason"`
	Nodes   []string `json:"nodes"`
}

// NodeReport is one node.
type NodeReport struct {
	Name     string      `json:"name"`
	Ready    bool        `json:"ready"`
	Verdict  string      `json:"verdict"`
	Reason   string      `json:"reason"`
	Charged  bool        `json:"charged"`
	Revision string      `json:"revision,omitempty"`
	Pods     []PodReport `json:"pods,omitempty"`
}

// PodReport is one pod.
type PodReport struct {
	Name     string `json:"name"`
	Revision string `json:"revision"`
	State    string `json:"state"`
}

// Observation is the input of a report.
type Observation struct {
	Set               *resolver.Set
	Workload          *dialect.Workload
	Snapshot          rollout.Snapshot
	Plan              rollout.Plan
	Model             view.Model
	IgnoreUnreachable bool
	// Policy, if it is not nil, is what the rollout policy of the set reports: then the rollout ends with the last wave.
	Policy *PolicyReport
	// Unsure reports whether the policies could not be read: then it is not known whether the rollout has ended.
	Unsure bool
	// Stopped is why nothing starts before a user acts, with the remedy; empty if the rollout continues without that.
	Stopped string
	// evaluation is what was observed.
	evaluation *Evaluation
}

// Observe returns the input of a report for a model of the evaluation.
func (m *Evaluation) Observe(model view.Model) *Observation {
	report := m.Governance.Report()
	model.Pace = report.Pace(model.Pace)
	return &Observation{Set: m.Set, Workload: m.Workload, Snapshot: m.Snapshot, Plan: m.Plan, Model: model, Policy: report, Stopped: m.Stopped(), evaluation: m}
}

// secondsLeft is the remaining time; nil if it is not known.
func (s *Observation) secondsLeft() *int {
	if !s.Model.Pace.Known {
		return nil
	}
	left := int(s.Model.Pace.Left / time.Second)
	return &left
}

// Next describes what happens next under the rollout policy of the set, and when; empty if no policy governs the set, or all is done.
func (s *Observation) Next() string {
	if !s.Policy.governs() {
		return ""
	}
	state := s.Outcome().State
	if state == Finished {
		return ""
	}
	return s.evaluation.Next(state, s.secondsLeft(), time.Unix(0, int64(s.Snapshot.Now)))
}

// Outcome returns the state of the rollout.
func (s *Observation) Outcome() Outcome {
	o := s.Policy.end(OutcomeOf(s.Workload, &s.Snapshot, &s.Plan, s.IgnoreUnreachable))
	if s.Unsure && o.State == Finished {
		o.State, o.Why = Rolling, "it is not known whether the rollout has ended, because the rollout policies cannot be read at the moment"
	}
	return o
}

// Refused is why the set is refused; nil if it is not.
func (s *Observation) Refused() *dialect.Problem { return refused(s.Workload) }

// Report converts an observation for programs.
func (s *Observation) Report() Report {
	m, b, o := s.Model, s.Plan.Budget, s.Set.Object
	r := Report{
		Set: s.Set.String(), Namespace: s.Set.Namespace(), Name: s.Set.Name(), APIVersion: o.GetAPIVersion(), Kind: o.GetKind(),
		Generation: s.Workload.Generation, ObservedGeneration: s.Workload.ObservedGeneration, Revision: m.Target, Outcome: s.Outcome(),
		Desired: m.Status.Desired, Updated: m.Status.Updated, Ready: m.Status.Ready, Available: m.Status.Available,
		Misscheduled: m.Status.Misscheduled, Done: m.Done,
		Budget: Budget{Limit: b.Limit, Surge: b.Surge, UsedByUpdate: b.UsedByUpdate, UsedByOthers: b.UsedByOthers, UsedByUnreachable: b.UsedByUnreachable},
	}
	if w := m.Batches; w.Total > 0 {
		r.Waves = &Waves{Size: w.Size, Done: w.Done, Total: w.Total}
	}
	r.SecondsLeft, r.Next = s.secondsLeft(), s.Next()
	for _, c := range m.Revisions {
		r.Revisions = append(r.Revisions, RevisionReport{c.Name, c.Pods})
	}
	for _, c := range m.Counts {
		r.Verdicts = append(r.Verdicts, VerdictReport{c.Kind.String(), c.Nodes})
	}
	for _, w := range m.Waits {
		r.Waits = append(r.Waits, WaitReport{w.Kind.String(), w.Why(), w.Nodes})
	}
	for _, p := range s.Workload.Problems {
		r.Problems = append(r.Problems, p.Message)
	}
	r.Nodes, r.Policy = Nodes(&s.Snapshot, &s.Plan), s.Policy
	if r.State == Rolling {
		r.Stopped, r.Unheld = s.Stopped, s.evaluation.Unheld()
	}
	return r
}

// Begun reports whether a node of the set is being updated, or may be, while others wait for its concurrency group.
func (r *Report) Begun() bool {
	waits := []string{rollout.UpToDate.String(), rollout.NotWanted.String(), rollout.WaitGroup.String(), rollout.WaitWave.String()}
	return slices.ContainsFunc(r.Verdicts, func(v VerdictReport) bool { return !slices.Contains(waits, v.Verdict) })
}

// Relevant reports whether the node with that index is relevant to a set: it needs a pod, or has one.
func Relevant(p *rollout.Plan, i int) bool { return p.Verdicts[i].Kind != rollout.NotWanted }

// Nodes returns the nodes that are relevant to a set.
func Nodes(s *rollout.Snapshot, p *rollout.Plan) []NodeReport {
	var nodes []NodeReport
	for i := range s.Nodes {
		if Relevant(p, i) {
			nodes = append(nodes, NodeOf(s, p, i))
		}
	}
	return nodes
}

// NodeOf returns the node with that index.
func NodeOf(s *rollout.Snapshot, p *rollout.Plan, i int) NodeReport {
	n, v := &s.Nodes[i], p.Verdicts[i]
	report := NodeReport{Name: n.Name, Ready: n.Ready, Verdict: v.Kind.String(), Reason: Reason(s, n, v), Charged: v.Charged}
	for j := range n.Pods {
		pod := PodReport{Name: n.Pods[j].Name, Revision: RevisionName(s, n.Pods[j].Revision), State: PodState(&n.Pods[j])}
		report.Pods = append(report.Pods, pod)
		report.Revision = pod.Revision
	}
	return report
}

// RevisionName returns the name of a revision by its index.
func RevisionName(s *rollout.Snapshot, index int) string {
	if index < 0 || index >= len(s.Revisions) {
		return "unknown"
	}
	return s.Revisions[index].Name
}

// PodState describes the state of a pod in a few words.
func PodState(p *rollout.Pod) string {
	switch {
	case p.Deleting:
		return "terminating"
	case p.Phase == rollout.Failed:
		return "failed"
	case p.Phase == rollout.Succeeded:
		return "ended"
	case p.InPlace != rollout.InPlaceNone:
		return "being changed in place"
	case p.Hook == rollout.HookWaiting:
		return "prepared for deletion"
	case p.Ready:
		return "ready"
	case !p.Scheduled:
		return "not scheduled"
	case p.Phase == rollout.Running:
		return "running, not ready"
	default:
		return "pending"
	}
}
