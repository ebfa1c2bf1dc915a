// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Model is everything that can be said about one set at one moment.
type Model struct {
	// Title names the set, for example "default/agent".
	Title string
	Now   rollout.Time
	// Started is when somebody began to look; 0 when that does not matter.
	Started rollout.Time
	// Target is the name of the revision that nodes are brought to.
	Target string
	// Revisions says how many pods each revision has; only revisions with pods, oldest first.
	Revisions []RevisionCount
	// Cells has one entry for each node that the set concerns, in order of name. Aside is the number of other nodes.
	Cells []Cell
	Aside int
	// Status holds the numbers of the set's status as decided from this snapshot. Done counts the nodes whose pod is of
	// the wanted revision and available.
	Status rollout.Status
	Done   int
	Budget rollout.Budget
	// Counts says how many cells have which verdict, in the order of the verdicts.
	Counts []VerdictCount
	// Waits has the nodes that wait, by reason, those first that most want attention.
	Waits []Wait
	Pace  Pace
}

// RevisionCount is a revision and the number of its pods.
type RevisionCount struct {
	Name string
	Pods int
}

// VerdictCount is a verdict and the number of nodes that have it.
type VerdictCount struct {
	Kind  rollout.VerdictKind
	Nodes int
}

// Cell is one node.
type Cell struct {
	Node  string
	Kind  rollout.VerdictKind
	Group Group
	// NotReady is whether the node itself is not ready, which explains many a wait.
	NotReady bool
}

// Wait is a number of nodes that wait for the same reason.
type Wait struct {
	Kind  rollout.VerdictKind
	Group Group
	// Reason is a sentence without capital and full stop.
	Reason string
	// NotReady is for how long the node that has been away longest is not ready; 0 when these nodes are ready.
	NotReady time.Duration
	// Nodes is sorted by name.
	Nodes []string
}

// Input is what a Model is made of.
type Input struct {
	Title    string
	Snapshot rollout.Snapshot
	// Plan is what Decide made of Snapshot.
	Plan    rollout.Plan
	Started rollout.Time
	Pace    Pace
}

// New makes the model of one moment.
func New(in Input) Model {
	m := Model{
		Title:     in.Title,
		Now:       in.Snapshot.Now,
		Started:   in.Started,
		Target:    revisionName(in.Snapshot, in.Snapshot.Set.Update),
		Revisions: countRevisions(in.Snapshot),
		Status:    in.Plan.Status,
		Budget:    in.Plan.Budget,
		Pace:      in.Pace,
	}
	var waits waitList
	for i, node := range in.Snapshot.Nodes {
		kind := rollout.NotEvaluated
		if i < len(in.Plan.Verdicts) {
			kind = in.Plan.Verdicts[i].Kind
		}
		if kind == rollout.NotWanted {
			m.Aside++
			continue
		}
		cell := Cell{Node: node.Name, Kind: kind, Group: GroupOf(kind), NotReady: !node.Ready && !node.Gone}
		m.Cells = append(m.Cells, cell)
		waits.add(cell, node, m.Now)
		if cell.Group == Done {
			m.Done++
		}
	}
	m.Counts = countVerdicts(m.Cells)
	m.Waits = waits.sorted()
	return m
}

// Tracker makes the models of one set from moment to moment and keeps what has to be remembered between them.
type Tracker struct {
	title   string
	started rollout.Time
	pace    Estimator
}

// NewTracker returns a Tracker for the set that title names.
func NewTracker(title string) *Tracker { return &Tracker{title: title} }

// Next makes the model of the next moment.
func (t *Tracker) Next(snapshot rollout.Snapshot, plan rollout.Plan) Model {
	if t.started == 0 {
		t.started = snapshot.Now
	}
	pace := t.pace.Observe(Sample{
		At:      snapshot.Now,
		Target:  revisionName(snapshot, snapshot.Set.Update),
		Updated: plan.Status.Updated,
		Total:   plan.Status.Desired,
	})
	return New(Input{Title: t.title, Snapshot: snapshot, Plan: plan, Started: t.started, Pace: pace})
}

// unknownRevision stands for a revision that the history does not hold.
const unknownRevision = "unknown"

func revisionName(s rollout.Snapshot, index int) string {
	if index < 0 || index >= len(s.Revisions) {
		return unknownRevision
	}
	return s.Revisions[index].Name
}

// countRevisions counts the pods that are there to stay.
func countRevisions(s rollout.Snapshot) []RevisionCount {
	counts := make([]RevisionCount, len(s.Revisions)+1)
	counts[len(s.Revisions)].Name = unknownRevision
	for i, revision := range s.Revisions {
		counts[i].Name = revision.Name
	}
	for _, node := range s.Nodes {
		for _, pod := range node.Pods {
			if pod.Deleting || pod.Phase.Terminal() {
				continue
			}
			index := pod.Revision
			if index < 0 || index >= len(s.Revisions) {
				index = len(s.Revisions)
			}
			counts[index].Pods++
		}
	}
	return slices.DeleteFunc(counts, func(c RevisionCount) bool { return c.Pods == 0 })
}

func countVerdicts(cells []Cell) []VerdictCount {
	nodes := make([]int, len(rollout.VerdictKinds()))
	for _, cell := range cells {
		if int(cell.Kind) < len(nodes) {
			nodes[cell.Kind]++
		}
	}
	var counts []VerdictCount
	for kind, n := range nodes {
		if n > 0 {
			counts = append(counts, VerdictCount{Kind: rollout.VerdictKind(kind), Nodes: n})
		}
	}
	return counts
}

// waitList gathers the nodes that wait for the same reason.
type waitList []Wait

func (l *waitList) add(cell Cell, node rollout.Node, now rollout.Time) {
	if !cell.Group.Waiting() {
		return
	}
	reason := cell.Kind.Sentence()
	if cell.Kind == rollout.Blocked && node.Blocked != "" {
		reason = node.Blocked
	}
	var away time.Duration
	if cell.NotReady {
		away = max(now.Sub(node.Since), 1)
	}
	at := slices.IndexFunc(*l, func(w Wait) bool {
		return w.Kind == cell.Kind && w.Reason == reason && (w.NotReady > 0) == cell.NotReady
	})
	if at < 0 {
		*l = append(*l, Wait{Kind: cell.Kind, Group: cell.Group, Reason: reason})
		at = len(*l) - 1
	}
	(*l)[at].NotReady = max((*l)[at].NotReady, away)
	(*l)[at].Nodes = append((*l)[at].Nodes, cell.Node)
}

// sorted puts first what may need a person: what is held, then nodes that are not ready, then what moves, then the queue.
func (l waitList) sorted() []Wait {
	rank := func(w Wait) int {
		switch {
		case w.Group == Held:
			return 0
		case w.NotReady > 0:
			return 1
		case w.Group == Queued:
			return 3
		default:
			return 2
		}
	}
	slices.SortStableFunc(l, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Nodes[0], b.Nodes[0]))
	})
	return l
}
