// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/podtemplate"
)

// head is what the page of a set shows apart from nodes: what status prints.
type head struct {
	inspect.Report
	Dialect string `json:"dialect"`
	// Advanced reports whether it is an Advanced DaemonSet.
	Advanced bool `json:"advanced"`
	// Missing reports whether the set does not exist any more.
	Missing bool `json:"missing,omitempty"`
	// Waits are the reasons why nodes wait, with the first of them.
	Waits []waitRow `json:"waits"`
	// WaveNames are the waves of the policy as it is now, to which the indexes of cells refer. The status of the policy may have others: its manager reports later.
	WaveNames []string `json:"waveNames,omitempty"`
	// BudgetText is the budget and its use, as status prints it. OverBudget reports whether more nodes use it than it has.
	BudgetText string `json:"budgetText"`
	OverBudget bool   `json:"overBudget,omitempty"`
	// Aside is the number of nodes that need no pod and have none.
	Aside    int      `json:"aside"`
	Restarts restarts `json:"restarts"`
	// Next describes the next action and when it happens, as text.
	Next string `json:"next"`
	// Remedies are the actions for which the rollout waits.
	Remedies []remedy `json:"remedies,omitempty"`
	// Halt is why it gets no further now, in a word or two, SecondsStalled how long there has been no progress, if that is long for this update.
	Halt           string `json:"halt,omitempty"`
	SecondsStalled int    `json:"secondsWithoutProgress,omitempty"`
	// Unread and Lost are the reasons why the page may be incomplete, or outdated.
	Unread string `json:"unread,omitempty"`
	Lost   string `json:"lost,omitempty"`
}

// waitRow is a reason for which nodes wait.
type waitRow struct {
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	// NotReady is for how many seconds a node of them is not ready.
	NotReady int      `json:"notReady,omitempty"`
	Count    int      `json:"count"`
	Nodes    []string `json:"nodes"`
}

// mostNamed is the maximum number of nodes that are named for a reason.
const mostNamed = 5

func waitRows(model *view.Model) []waitRow {
	rows := []waitRow{}
	for i := range model.Waits {
		w := &model.Waits[i]
		rows = append(rows, waitRow{w.Kind.String(), w.Why(), int(w.NotReady / time.Second), len(w.Nodes), w.Nodes[:min(len(w.Nodes), mostNamed)]})
	}
	return rows
}

// revisionRow is a revision of the history.
type revisionRow struct {
	Name string `json:"name"`
	// Hash is the name of the revision in the labels of pods.
	Hash    string   `json:"hash"`
	Number  int64    `json:"number"`
	Created int64    `json:"created"`
	Pods    int      `json:"pods"`
	Images  []string `json:"images,omitempty"`
	// Current reports whether it has the template of the set.
	Current bool `json:"current,omitempty"`
	// Failed is the reason why it has failed, as the status of the policy reports. Marked is the message of a
	// mark that this status does not confirm: it has no effect, and may have been written by another client than
	// the manager.
	Failed string `json:"failed,omitempty"`
	Marked string `json:"marked,omitempty"`
	// Rejected is who has rejected it, and why; also if the set has another revision since.
	Rejected string `json:"rejected,omitempty"`
}

// setPage makes the frames of the page of a set.
type setPage struct {
	s       *server
	key     clustercache.Key
	tracker *view.Tracker
	details reading[details]
	// uid is that of the set: one that is deleted and created again is another one.
	uid types.UID
	facets
}

func (p *setPage) pace() (shortest, longest time.Duration) { return shortestPace, longestPace }

// build makes a frame.
func (p *setPage) build(ctx context.Context) (*frame, error) {
	f, now := &frame{}, p.s.o.Now()
	m, ok := p.s.fleet.At(ctx, p.key)
	if !ok {
		if p.tracker == nil {
			return nil, errMissing
		}
		return f, f.add("head", head{Missing: true, Report: inspect.Report{Namespace: p.key.Namespace, Name: p.key.Name}, Lost: p.s.lost()})
	}
	p.s.seen(p.key, m, now)
	if uid := m.Set.Object.GetUID(); p.uid != uid {
		p.uid, p.tracker, p.details = uid, nil, reading[details]{} // a read that is pending is of the other one
	}
	if p.tracker == nil {
		p.tracker = view.NewTracker(m.Set.Title())
		p.tracker.Recall(m.Snapshot, m.Plan, m.Began())
	}
	model, causeOf := p.tracker.Next(m.Snapshot, m.Plan), causesOf(m)
	model.Explain(causeOf)
	facets := p.facets.of(m.Labels)
	err := f.add("head", p.head(m, model))
	if err == nil {
		err = f.add("facets", facets)
	}
	if err == nil {
		err = f.add("revisions", revisionRows(m, &model))
	}
	if d := p.readDetails(ctx, m); err == nil && d != nil {
		err = f.add("details", d)
	}
	for i := range m.Snapshot.Nodes {
		if err == nil && inspect.Relevant(&m.Plan, i) {
			err = f.put(m.Snapshot.Nodes[i].Name, cellOf(m, i, facets, causeOf))
		}
	}
	f.sort()
	return f, err
}

func (p *setPage) head(m *inspect.Evaluation, model view.Model) head {
	h := head{
		Report: m.Observe(model).Report(), Dialect: p.key.Dialect, Advanced: m.Set.Advanced(), Aside: model.Aside, Restarts: restartsOf(&m.Snapshot),
		BudgetText: view.BudgetText(model.Budget), OverBudget: model.Budget.Exceeded(), Waits: waitRows(&model), Unread: p.s.unread(), Lost: p.s.lost(),
	}
	h.Policy, h.WaveNames = m.Governance.Report(), waveNames(m)
	if h.State == inspect.Rolling {
		h.SecondsStalled = int(model.Pace.Stalled.Seconds())
	}
	h.Halt = haltOf(m, h.Outcome, h.SecondsStalled)
	h.Remedies = p.s.remediesOf(m)
	h.Next = m.Next(h.State, h.SecondsLeft, p.s.o.Now())
	h.Nodes, h.Left, h.Unreachable, h.Kept = nil, nil, nil, nil // they are the cells
	return h
}

// waveNames returns the names of the waves that the indexes in Governance.Waves are of.
func waveNames(m *inspect.Evaluation) (names []string) {
	if m.Governance.Waves == nil {
		return nil
	}
	for i := range m.Governance.Policies[0].Rules.Waves {
		names = append(names, m.Governance.Policies[0].Rules.Waves[i].Name)
	}
	return names
}

// readDetails returns the details; nil if they have not been read yet.
func (p *setPage) readDetails(ctx context.Context, m *inspect.Evaluation) *details {
	own := pageOf(p.key)
	return p.details.get(p.s.o.Now(), func() *details { return readDetails(ctx, p.s, m) }, func() { p.s.hubs.touch(func(page string) bool { return page == own }) })
}

// revisionRows returns the history of a set, newest first.
func revisionRows(m *inspect.Evaluation, model *view.Model) []revisionRow {
	pods := map[string]int{}
	for _, c := range model.Revisions {
		pods[c.Name] = c.Pods
	}
	rows, report := []revisionRow{}, m.Governance.Report()
	for i := len(m.History.Revisions) - 1; i >= 0; i-- {
		if inspect.Repeats(m.History.Revisions, i) {
			continue
		}
		r := &m.History.Revisions[i]
		row := revisionRow{
			Name: r.Name, Hash: r.Hash, Number: r.Number, Created: int64(r.Created) / 1e9, Pods: pods[r.Hash],
			Images: imagesOf(m, i), Current: i == m.History.Current, Rejected: m.Governance.Rejected(r.Name),
		}
		switch {
		case report != nil && report.Failure != nil && report.TargetRevision == r.Name:
			row.Failed = report.Failure.Message
		case r.Failed != nil:
			row.Marked = r.Failed.Message
		}
		rows = append(rows, row)
	}
	return rows
}

// imagesOf returns the images of a revision of the history; nil if there is none.
func imagesOf(m *inspect.Evaluation, i int) []string {
	if i < 0 || i >= len(m.History.Entries) {
		return nil
	}
	return podtemplate.Images(m.History.Entries[i].Template)
}
