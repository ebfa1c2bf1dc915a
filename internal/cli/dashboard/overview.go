// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/cli/top"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// row is a set in the list of all sets: what top prints, and its policy.
type row struct {
	Key string `json:"k"`
	top.Row
	Dialect string `json:"dialect"`
	// Images are those of the revision that rolls out.
	Images []string `json:"images,omitempty"`
	Phase  string   `json:"phase,omitempty"`
	Wave   string   `json:"wave,omitempty"`
	// Next describes the next action and when it happens, Blocking why nothing starts.
	Next     string `json:"next"`
	Blocking string `json:"blocking,omitempty"`
	// WaitsReason is why the nodes of waits wait, where the rollout policies show more than the verdict; else it is empty.
	WaitsReason string `json:"waitsReason,omitempty"`
	// Halt is why it gets no further now, in a word or two.
	Halt string `json:"halt,omitempty"`
}

// listHead is what the list shows apart from rows.
type listHead struct {
	Namespace string `json:"namespace"`
	Unread    string `json:"unread,omitempty"`
	Lost      string `json:"lost,omitempty"`
}

func rowOf(m *inspect.Evaluation, now time.Time) row {
	outcome := m.Outcome()
	r := row{Key: m.Set.Title(), Row: top.RowOf(m, outcome), Dialect: m.Set.Source.Dialect, Images: imagesOf(m, m.History.Current)}
	r.Next, r.Halt = m.Next(r.State, r.SecondsLeft, now), haltOf(m, outcome, r.SecondsStalled)
	if i := slices.IndexFunc(m.Plan.Verdicts, func(v rollout.Verdict) bool { return strings.HasPrefix(r.Waits, v.Kind.String()+" ") }); i >= 0 {
		r.WaitsReason = m.Cause(m.Plan.Verdicts[i].Kind)
	}
	if p := m.Governance.Report(); p != nil {
		r.Phase = string(p.Phase)
		if p.Position > 0 {
			r.Wave = p.Wave
		}
		if len(p.Blocking) > 0 {
			r.Blocking = p.Blocking[0].Message
		}
	}
	return r
}

// changes are the sets that have changed since the last frame of a page.
type changes struct {
	mu   sync.Mutex
	sets map[clustercache.Key]bool
}

// note records that a set has changed.
func (c *changes) note(key clustercache.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		c.sets = map[clustercache.Key]bool{}
	}
	c.sets[key] = true
}

// take returns the sets that have changed since the last call.
func (c *changes) take() map[clustercache.Key]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	sets := c.sets
	c.sets = nil
	return sets
}

// listPage makes the frames of the list of all sets. A set is evaluated when it has changed, and all of them from time to time.
type listPage struct {
	changes
	s    *server
	rows map[clustercache.Key]row
	// all is when all sets were evaluated last.
	all time.Time
}

func (p *listPage) pace() (shortest, longest time.Duration) { return time.Second, allPace }

// allPace is how often all sets are evaluated.
const allPace = 10 * time.Second

func (p *listPage) build(ctx context.Context) (*frame, error) {
	changed := p.take()
	now := p.s.o.Now()
	whole := p.rows == nil || now.Sub(p.all) >= allPace
	if whole {
		p.all = now
	}
	rows := map[clustercache.Key]row{}
	f := &frame{}
	for _, key := range p.s.fleet.Keys() {
		r, known := p.rows[key]
		if whole || !known || changed[key] {
			m, ok := p.s.fleet.At(ctx, key)
			if !ok {
				continue
			}
			r = rowOf(m, now)
		}
		rows[key] = r
		if err := f.put(r.Key, r); err != nil {
			return nil, err
		}
	}
	p.rows = rows
	f.sort()
	return f, f.add("head", listHead{Namespace: p.s.namespace, Unread: p.s.unread(), Lost: p.s.lost()})
}

// nodePage makes the frames of the page of a node. A set is evaluated when it has changed, and all of them from time to time: each evaluation is of all nodes.
type nodePage struct {
	changes
	s    *server
	name string
	// rows are those of all sets, nil for a set that does not concern the node. all is when all sets were evaluated last.
	rows    map[clustercache.Key]*nodeRow
	all     time.Time
	details reading[nodeDetails]
	// shown reports whether there was a frame before: if the node is deleted then, the page says that.
	shown bool
}

func (p *nodePage) pace() (shortest, longest time.Duration) { return time.Second, detailsPace }

// nodeRow is what a set does on a node.
type nodeRow struct {
	Key       string `json:"k"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	inspect.NodeReport
}

func (p *nodePage) build(ctx context.Context) (*frame, error) {
	changed, now := p.take(), p.s.o.Now()
	whole := p.rows == nil || now.Sub(p.all) >= detailsPace
	if whole {
		p.all = now
	}
	rows, f := map[clustercache.Key]*nodeRow{}, &frame{}
	for _, key := range p.s.fleet.Keys() {
		r, known := p.rows[key]
		if whole || !known || changed[key] {
			r = p.row(ctx, key)
		}
		if rows[key] = r; r == nil {
			continue
		}
		if err := f.put(r.Key, r); err != nil {
			return nil, err
		}
	}
	p.rows = rows
	f.sort()
	details := p.readDetails(ctx)
	if details != nil && !details.Exists && len(f.items) == 0 && details.Error == "" && !p.shown {
		return nil, errMissing
	}
	p.shown = true
	if err := f.add("head", listHead{Namespace: p.s.namespace, Unread: p.s.unread(), Lost: p.s.lost()}); err != nil {
		return nil, err
	}
	if details == nil {
		return f, nil
	}
	return f, f.add("node", details)
}

// readDetails returns what is known about the node; nil if it has not been read yet.
func (p *nodePage) readDetails(ctx context.Context) *nodeDetails {
	own := nodePrefix + p.name
	return p.details.get(p.s.o.Now(), func() *nodeDetails { return p.s.readNode(ctx, p.name, p.s.namespace) },
		func() { p.s.hubs.touch(func(page string) bool { return page == own }) })
}

// row evaluates a set; nil if it does not concern the node.
func (p *nodePage) row(ctx context.Context, key clustercache.Key) *nodeRow {
	m, ok := p.s.fleet.At(ctx, key)
	if !ok {
		return nil
	}
	at := slices.IndexFunc(m.Snapshot.Nodes, func(n rollout.Node) bool { return n.Name == p.name })
	if at < 0 || !inspect.Relevant(&m.Plan, at) {
		return nil
	}
	report := inspect.NodeOf(&m.Snapshot, &m.Plan, at)
	if cause := m.Cause(m.Plan.Verdicts[at].Kind); cause != "" {
		report.Reason = cause
	}
	return &nodeRow{Key: m.Set.Title(), Namespace: m.Set.Namespace(), Set: m.Set.String(), NodeReport: report}
}
