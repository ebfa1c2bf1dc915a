// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/plan"
	"everynode.dev/everynode/internal/rollout"
)

// The kind of the document.
const (
	documentVersion = "plan.everynode.dev/v1alpha1"
	documentKind    = "Plan"
)

// Document is a plan for programs and for the command apply.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Set is the name of the set: daemonset/NAME or ads/NAME.
	Set       string `json:"set"`
	Namespace string `json:"namespace"`
	// UID, ResourceVersion and Generation are those of the set before the edit; they are empty for a set that does not
	// exist yet.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
	// Annotations are the annotations of the set before the edit that affect updates.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Revision is the revision of the edited set, CurrentRevision that of the set before the edit.
	Revision        string `json:"revision"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	Edit            Edit   `json:"edit"`
	// Tried is who set defaults: the server, or this program (local).
	Tried string `json:"tried"`
	// Nodes has one entry for each node, sorted by name.
	Nodes []Node `json:"nodes"`
	// Counts has the number of nodes for each verdict.
	Counts map[plan.Verdict]int `json:"counts"`
	Budget Budget               `json:"budget"`
	// Duration is the estimated time until all nodes that change are finished, Unfinished the number of nodes that never
	// are.
	Duration string `json:"duration"`
	// Estimate is the range of the duration, from the usual times of pods, on which Duration and the times of nodes are based, to long ones.
	Estimate    Estimate     `json:"estimate"`
	Unfinished  int          `json:"unfinished"`
	Assumptions []Assumption `json:"assumptions"`
	Warnings    []Warning    `json:"warnings"`
	// Policies are the rollout policies of the cluster that apply to the set; with more than one, none is followed.
	Policies []PolicyVersion `json:"policies,omitempty"`
	// PoliciesUnread reports whether it is not known which rollout policies apply.
	PoliciesUnread bool `json:"policiesUnread,omitempty"`
	// Policy is what the plan foresees of the rollout policy of the set.
	Policy *Policy `json:"policy,omitempty"`
	// PolicyFile is the policy of --policy, which apply --with-policy stores.
	PolicyFile *PolicyFile `json:"policyFile,omitempty"`
	// WhatIf is what follows if the new revision fails on nodes that --what-if names. Such a plan cannot be applied.
	WhatIf *WhatIf `json:"whatIf,omitempty"`
	// Diff is the change of the pod template, as a unified diff of YAML.
	Diff string `json:"diff,omitempty"`
}

// Node is the result for one node.
type Node struct {
	Name    string       `json:"name"`
	Verdict plan.Verdict `json:"verdict"`
	// Wave is the batch of the node: its place in the order divided by the budget, from 1; it is omitted if nothing starts. It is no wave of a rollout policy, but no batch has nodes of two of these.
	Wave int `json:"wave,omitempty"`
	// Reason is the manager's verdict that leads to this result, Detail has more information, and Message is both as a
	// sentence.
	Reason  string `json:"reason"`
	Detail  string `json:"detail,omitempty"`
	Message string `json:"message"`
	// Start and End are relative to the begin of the rollout. Without End, the node does not finish.
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
}

// PolicyVersion is a rollout policy as the plan has read it.
type PolicyVersion struct {
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// Budget describes how many nodes are updated at once.
type Budget struct {
	// Limit is the update budget in nodes, Of is what it counts: "unavailable" or "surge".
	Limit int    `json:"limit"`
	Of    string `json:"of"`
	// Waves is the number of batches of the update, MostAtOnce the highest number of nodes that are updated at the same
	// time.
	Waves      int `json:"waves"`
	MostAtOnce int `json:"mostAtOnce"`
	// MostDown is the highest number of nodes that should have an available pod but have none, DownNow the current
	// number.
	MostDown int `json:"mostDown"`
	DownNow  int `json:"downNow"`
}

// Warning is something that the user should know before the edit.
type Warning struct {
	Kind    string   `json:"kind"`
	Message string   `json:"message"`
	Nodes   []string `json:"nodes,omitempty"`
}

// document converts a prediction to a document.
func (f *prediction) document(warnings []Warning, diff string) *Document {
	d := &Document{
		APIVersion: documentVersion, Kind: documentKind,
		Set: f.named.String(), Namespace: f.named.Namespace(),
		Revision: f.after, CurrentRevision: f.before,
		Edit: f.edit, Tried: f.by,
		Nodes: f.outcomes(), Counts: f.result.Count(),
		Budget: Budget{
			Limit: f.result.Limit, Of: "unavailable", Waves: f.result.Waves(), MostAtOnce: f.result.MostAtOnce,
			MostDown: f.result.MostDown, DownNow: f.result.DownBefore,
		},
		Duration: text(f.result.Duration), Estimate: f.estimate(), Assumptions: f.assumed, Warnings: warnings, Diff: diff,
		Policies: f.policies(), PoliciesUnread: f.governance.Unread != nil, Policy: f.foresee(), PolicyFile: f.file(), WhatIf: f.whatIf(),
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

// outcomes returns the outcome for each node.
func (f *prediction) outcomes() []Node {
	nodes, cause := make([]Node, len(f.result.Nodes)), f.causes()
	for i, n := range f.result.Nodes {
		nodes[i] = Node{
			Name: n.Name, Verdict: n.Verdict, Wave: n.Wave,
			Reason: n.Reason.String(), Detail: n.Detail.String(), Message: message(n),
		}
		if n.Verdict.Starts() {
			nodes[i].Start = startText(n.Start)
			if n.Ended {
				nodes[i].End = text(n.End)
			}
		}
		if text := cause(n.Reason); text != "" {
			nodes[i].Message = text
		}
	}
	return nodes
}

// causes returns why nodes have a verdict at the end of the plan, as the status of the set shows it; empty if nothing more than the sentence of the verdict is known.
func (f *prediction) causes() func(rollout.VerdictKind) string {
	e, known := inspect.Evaluation{View: f.view, Governance: f.governance}, map[rollout.VerdictKind]string{}
	if f.governor != nil && f.governor.last != nil {
		e.Governance.Now, e.Governance.Stored = f.governor.last, nil
	}
	return func(kind rollout.VerdictKind) string {
		if _, is := known[kind]; !is {
			known[kind] = e.Cause(kind)
		}
		return known[kind]
	}
}

// message returns the reason for the verdict of a node, as a sentence without a capital letter and a full stop.
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

// text formats a duration in whole seconds.
func text(d time.Duration) string { return d.Round(time.Second).String() }

// startText is when an update starts. It is not before that: a window may open then.
func startText(d time.Duration) string { return text(upward(d)) }

func upward(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
