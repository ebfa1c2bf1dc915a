// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// Model is the state of one set at one moment.
type Model struct {
	// Title is the name of the set, for example "default/agent".
	Title string
	Now   rollout.Time
	// Started is when the command started to watch; 0 if that is not relevant.
	Started rollout.Time
	// Target is the name of the revision that nodes are updated to.
	Target string
	// Revisions has the number of pods of each revision that has pods, oldest first.
	Revisions []RevisionCount
	// Cells has one entry for each node that is relevant to the set, sorted by name. Aside is the number of other nodes.
	Cells []Cell
	Aside int
	// Status has the numbers of the status of the set, computed from this snapshot, see statusOf. Done counts the nodes
	// whose pod has the target revision and is available.
	Status rollout.Status
	Done   int
	Budget rollout.Budget
	// Counts has the number of cells of each verdict, in the order of the verdicts.
	Counts []VerdictCount
	// Waits has the nodes that wait, by reason, the most urgent first.
	Waits   []Wait
	Pace    Pace
	Batches Batches
	// Policy has lines about the rollout policy of the set; empty without one.
	Policy []string
	// Stopped is why nothing starts before a user acts, with the remedy; empty if the rollout continues without that.
	Stopped string
	// Unheld says that another controller updates the nodes without a policy that was deleted, with the remedy; empty if it does not.
	Unheld string
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
	Group rollout.Group
	// NotReady reports whether the node itself is not ready, which explains many waits.
	NotReady bool
	// Gone reports whether the node was deleted: the update does not wait for it.
	Gone bool
}

// Wait is a number of nodes that wait for the same reason.
type Wait struct {
	Kind  rollout.VerdictKind
	Group rollout.Group
	// Reason is a sentence without a capital letter and a full stop.
	Reason string
	// Says is the message of the pods of these nodes about why they do not start, if there is one.
	Says string
	// NotReady is how long the node that has been not ready for the longest time is not ready; 0 if these nodes are
	// ready.
	NotReady time.Duration
	// Nodes is sorted by name.
	Nodes []string
}

// Input is the input of New.
type Input struct {
	Title    string
	Snapshot rollout.Snapshot
	// Plan is the decision for Snapshot.
	Plan    rollout.Plan
	Started rollout.Time
	Pace    Pace
}

// New computes the model of one moment.
func New(in Input) Model {
	m := Model{
		Title:     in.Title,
		Now:       in.Snapshot.Now,
		Started:   in.Started,
		Target:    revisionName(in.Snapshot, in.Snapshot.Set.Update),
		Revisions: countRevisions(in.Snapshot),
		Status:    statusOf(in.Snapshot, in.Plan),
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
		cell := Cell{Node: node.Name, Kind: kind, Group: kind.Group(), NotReady: !node.Ready && !node.Gone, Gone: node.Gone}
		m.Cells = append(m.Cells, cell)
		waits.add(cell, &in.Snapshot, i)
		if cell.Group == rollout.GroupDone {
			m.Done++
		}
	}
	m.Counts = countVerdicts(m.Cells)
	m.Waits = waits.sorted()
	m.Batches = batchesOf(m.Done, reachOf(in.Snapshot, in.Plan), in.Plan.Budget.Limit)
	return m
}

// Tracker computes the models of one set over time, and keeps the state between them.
type Tracker struct {
	title   string
	started rollout.Time
	pace    Estimator
}

// NewTracker returns a Tracker for the set with that title.
func NewTracker(title string) *Tracker { return &Tracker{title: title} }

// Recall estimates from the pods how fast the update has been before the command started; began is as for PastPace.
func (t *Tracker) Recall(snapshot rollout.Snapshot, plan rollout.Plan, began rollout.Time) {
	t.pace.past(snapshot, plan, began)
}

// Next computes the next model.
func (t *Tracker) Next(snapshot rollout.Snapshot, plan rollout.Plan) Model {
	if t.started == 0 {
		t.started = snapshot.Now
	}
	pace := t.pace.Observe(sampleOf(snapshot, plan))
	return New(Input{Title: t.title, Snapshot: snapshot, Plan: plan, Started: t.started, Pace: pace})
}

// unknownRevision is shown for a revision that is not in the history.
const unknownRevision = "unknown"

func revisionName(s rollout.Snapshot, index int) string {
	if index < 0 || index >= len(s.Revisions) {
		return unknownRevision
	}
	return s.Revisions[index].Name
}

// statusOf returns the status as decided, with one difference. In the status, the oldest pod of a node determines the
// state of the node. Here a node also counts as done if an older pod is only terminating. Otherwise 9 of 10 nodes would
// be updated when the update of all 10 has finished. So the numbers may be greater than those in the status of the
// object until that pod is gone.
func statusOf(s rollout.Snapshot, p rollout.Plan) rollout.Status {
	status := p.Status
	for i := range min(len(s.Nodes), len(p.Verdicts)) {
		if p.Verdicts[i].Kind != rollout.UpToDate || len(s.Nodes[i].Pods) == 0 {
			continue
		}
		oldest := slices.MinFunc(s.Nodes[i].Pods, older)
		if oldest.Revision == s.Set.Update {
			continue
		}
		status.Updated++
		switch {
		case !oldest.Ready || oldest.InPlace != rollout.InPlaceNone:
			status.Ready++
			status.Available++
		case s.Set.MinReady > 0 && (oldest.ReadySince == 0 || oldest.ReadySince.Add(s.Set.MinReady) > s.Now):
			status.Available++
		}
	}
	return status
}

// older sorts the pod first that determines the state of its node. This is never a pod that has ended and is being
// deleted.
func older(a, b rollout.Pod) int {
	rank := func(p rollout.Pod) int {
		switch {
		case p.Deleting && p.Phase.Terminal():
			return 2
		case !p.Scheduled:
			return 1
		default:
			return 0
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// countRevisions counts the pods that are not terminating.
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

// CountsThere is Counts without the nodes that were deleted.
func (m *Model) CountsThere() []VerdictCount {
	return countVerdicts(slices.DeleteFunc(slices.Clone(m.Cells), func(c Cell) bool { return c.Gone }))
}

// Reason returns why a node has its verdict, as a sentence without a capital letter and a full stop, and the message of
// the new pod that the node waits for, if that pod reports why it does not start.
func Reason(s *rollout.Snapshot, n *rollout.Node, kind rollout.VerdictKind) (reason, says string) {
	switch {
	case kind.Cause() == rollout.CauseRefusal:
		if obstacle := n.Obstacle(); obstacle != "" {
			return obstacle, ""
		}
	case kind.AwaitsPod():
		for i := range n.Pods {
			if p := &n.Pods[i]; p.Revision == s.Set.Update && !p.Deleting && (!p.Ready || p.InPlace == rollout.InPlacePatched) && p.Trouble != "" {
				return kind.Sentence(), p.Trouble
			}
		}
	}
	return kind.Sentence(), ""
}

// Why returns the reason with the message of the pods.
func (w Wait) Why() string {
	if w.Says == "" {
		return w.Reason
	}
	return w.Reason + ": " + w.Says
}

// Explain replaces the reasons for which nodes wait by those that causeOf returns for their verdicts, where it returns any.
func (m *Model) Explain(causeOf func(rollout.VerdictKind) string) {
	for i := range m.Waits {
		if cause := causeOf(m.Waits[i].Kind); cause != "" {
			m.Waits[i].Reason = cause
		}
	}
}

// waitList groups the nodes that wait for the same reason.
type waitList []Wait

func (l *waitList) add(cell Cell, s *rollout.Snapshot, i int) {
	if !cell.Group.Waiting() {
		return
	}
	reason, says := Reason(s, &s.Nodes[i], cell.Kind)
	var away time.Duration
	if cell.NotReady {
		away = max(s.Now.Sub(s.Nodes[i].Since), 1)
	}
	at := slices.IndexFunc(*l, func(w Wait) bool {
		return w.Kind == cell.Kind && w.Reason == reason && w.Says == says && (w.NotReady > 0) == cell.NotReady
	})
	if at < 0 {
		*l = append(*l, Wait{Kind: cell.Kind, Group: cell.Group, Reason: reason, Says: says})
		at = len(*l) - 1
	}
	(*l)[at].NotReady = max((*l)[at].NotReady, away)
	(*l)[at].Nodes = append((*l)[at].Nodes, cell.Node)
}

// sorted orders by urgency: first what may need a user (held, or with a message that a pod does not start), then nodes
// that are not ready, then nodes in progress, then nodes that wait for the budget.
func (l waitList) sorted() []Wait {
	rank := func(w Wait) int {
		switch {
		case w.Group == rollout.GroupHeld, w.Says != "":
			return 0
		case w.NotReady > 0:
			return 1
		case w.Group == rollout.GroupQueued:
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
