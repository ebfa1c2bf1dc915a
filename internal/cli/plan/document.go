// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"everynode.dev/everynode/internal/plan"
)

// What kind of document a plan is.
const (
	documentVersion = "plan.everynode.dev/v1alpha1"
	documentKind    = "Plan"
)

// Document is what was foreseen, for machines, and for apply.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Set names the set as people do: daemonset/NAME or ads/NAME.
	Set       string `json:"set"`
	Namespace string `json:"namespace"`
	// UID, ResourceVersion and Generation are those of the set before the edit; a set that is not there yet has none.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
	// Annotations are those of the set before the edit that say how it is updated, beside its specification.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Revision is the revision that the edit leads to, CurrentRevision that of the set before.
	Revision        string `json:"revision"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	Edit            Edit   `json:"edit"`
	// Tried says who filled in defaults: the server, or this program (local).
	Tried string `json:"tried"`
	// Nodes has one entry for each node, sorted by name.
	Nodes []Node `json:"nodes"`
	// Counts says how many nodes have each verdict.
	Counts map[plan.Verdict]int `json:"counts"`
	Budget Budget               `json:"budget"`
	// Duration is how long it takes until every node that is touched is done, Unfinished how many never are.
	Duration    string       `json:"duration"`
	Unfinished  int          `json:"unfinished"`
	Assumptions []Assumption `json:"assumptions"`
	Warnings    []Warning    `json:"warnings"`
	// Diff is what changes in the pod template, as a unified diff of YAML.
	Diff string `json:"diff,omitempty"`
}

// Node is what becomes of one node.
type Node struct {
	Name    string       `json:"name"`
	Verdict plan.Verdict `json:"verdict"`
	// Wave is the place of the node in the order divided by the budget, from 1; it is left out where nothing starts.
	Wave int `json:"wave,omitempty"`
	// Reason is the verdict of the manager that leads to this outcome, Detail more about it, Message the two as a sentence.
	Reason  string `json:"reason"`
	Detail  string `json:"detail,omitempty"`
	Message string `json:"message"`
	// Start and End are counted from the begin of the rollout. Without End what starts does not come to its end.
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
}

// Budget is how many nodes are touched at once.
type Budget struct {
	// Limit is the update budget in nodes, Of what it counts: "unavailable" or "surge".
	Limit int    `json:"limit"`
	Of    string `json:"of"`
	// Waves is how many waves the update has, MostAtOnce the highest number of nodes that are in the middle of it at once.
	Waves      int `json:"waves"`
	MostAtOnce int `json:"mostAtOnce"`
	// MostDown is the highest number of nodes without an available pod that should have one, DownNow how many of these there are already.
	MostDown int `json:"mostDown"`
	DownNow  int `json:"downNow"`
}

// Warning is something that a person should know before the edit is made.
type Warning struct {
	Kind    string   `json:"kind"`
	Message string   `json:"message"`
	Nodes   []string `json:"nodes,omitempty"`
}

// document is what was foreseen, for machines.
func (f *prediction) document(warnings []Warning, diff string) *Document {
	d := &Document{
		APIVersion: documentVersion, Kind: documentKind,
		Set: f.named.String(), Namespace: f.named.Namespace(),
		Revision: f.after, CurrentRevision: f.before,
		Edit: f.edit, Tried: f.by,
		Nodes: nodesOf(f.result), Counts: f.result.Count(),
		Budget: Budget{
			Limit: f.result.Limit, Of: "unavailable", Waves: f.result.Waves(), MostAtOnce: f.result.MostAtOnce,
			MostDown: f.result.MostDown, DownNow: f.result.DownBefore,
		},
		Duration: text(f.result.Duration), Assumptions: f.assumed, Warnings: warnings, Diff: diff,
	}
	if f.result.Doubling {
		d.Budget.Of = "surge"
	}
	if f.live != nil {
		o := f.live.Object
		d.UID, d.ResourceVersion, d.Generation = string(o.GetUID()), o.GetResourceVersion(), o.GetGeneration()
		d.Annotations = edgeOf(o)
	}
	for _, n := range f.result.Nodes {
		if n.Verdict.Starts() && !n.Ended {
			d.Unfinished++
		}
	}
	return d
}

func nodesOf(r plan.Result) []Node {
	nodes := make([]Node, len(r.Nodes))
	for i, n := range r.Nodes {
		nodes[i] = Node{
			Name: n.Name, Verdict: n.Verdict, Wave: n.Wave,
			Reason: n.Reason.String(), Detail: n.Detail.String(), Message: message(n),
		}
		if n.Verdict.Starts() {
			nodes[i].Start = text(n.Start)
			if n.Ended {
				nodes[i].End = text(n.End)
			}
		}
	}
	return nodes
}

// message is why a node has its outcome, as a sentence without capital and full stop.
func message(n plan.Node) string {
	m := n.Reason.Sentence()
	if more := n.Detail.Sentence(); more != "" {
		m += "; " + more
	}
	if n.Obstacle != "" {
		m += ": " + n.Obstacle
	}
	if n.Verdict.Starts() && !n.Ended {
		m += "; this does not finish"
	}
	return m
}

// text is a duration in whole seconds.
func text(d time.Duration) string { return d.Round(time.Second).String() }
