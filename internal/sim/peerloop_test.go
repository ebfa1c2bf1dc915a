// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
)

// peerLoop are the passes of a manager for the peer, which may be under way at the same time as those for the set that is judged.
type peerLoop struct {
	key clustercache.Key
	// asked, wake, failures, running and the outcome of a pass are as those of a manager.
	asked, running bool
	wake           time.Time
	failures       int
	over           bool
	after          time.Duration
	err            error
	// of is the pass that is under way, or the last one, and then what was known when it began.
	of   *peerPass
	then known
}

// peerPass is what was known in a pass at its decision: a slow write may be sent later.
type peerPass struct{ scope v1alpha1.ConcurrencyScope }

type peerKey struct{}

// peerPassIn is the pass for the peer that has made a context; nil for none.
func peerPassIn(ctx context.Context) *peerPass {
	of, _ := ctx.Value(peerKey{}).(*peerPass)
	return of
}

// dialects are those of a manager. The peer is of apps/v1, also next to an Advanced DaemonSet.
func (m *manager) dialects() []dialect.Dialect {
	d := m.s.dialect()
	d.MayWrite = func() bool { return !m.s.other }
	all := []dialect.Dialect{d, m.others.dialect()}
	if m.s.cfg.grouped() && m.s.cfg.dialect == kruiseRun {
		native := nativeDialect()
		native.MayWrite = d.MayWrite
		all = append(all, native)
	}
	return all
}

// keyOf is the key of a set.
func (m *manager) keyOf(name string) clustercache.Key {
	if name == peerName {
		return m.peer.key
	}
	return m.key
}

// enqueue asks for a pass for a set.
func (m *manager) enqueue(key clustercache.Key) {
	m.s.tick.Load()
	m.asked = m.asked || key == m.key
	m.peer.asked = m.peer.asked || key == m.peer.key
}

// wakeIn asks for a pass for a set after a time.
func (m *manager) wakeIn(key clustercache.Key, after time.Duration) {
	if after == 0 {
		m.enqueue(key)
		return
	}
	m.s.tick.Load()
	switch key {
	case m.key:
		m.wake = m.earlier(m.wake, after)
	case m.peer.key:
		m.peer.wake = m.earlier(m.peer.wake, after)
	}
}

// earlier is the earlier one of a time, zero for never, and of the time that is so far from now.
func (m *manager) earlier(wake time.Time, after time.Duration) time.Time {
	if due := m.s.w.now.Add(after); wake.IsZero() || due.Before(wake) {
		return due
	}
	return wake
}

// peerDue is whether the work queue would hand out the peer now, and no pass for it is under way.
func (m *manager) peerDue() bool {
	l, now := &m.peer, m.s.w.now
	return m.s.cfg.grouped() && m.synced() && !l.running && (l.asked || !l.wake.IsZero() && !l.wake.After(now))
}

// passForPeer begins a pass for the peer.
func (m *manager) passForPeer() {
	l := &m.peer
	if !l.wake.After(m.s.w.now) {
		l.wake = time.Time{}
	}
	l.asked, l.running, l.of, l.then = false, true, &peerPass{}, m.known.clone()
	ctx := context.WithValue(m.ctx, peerKey{}, l.of)
	go func() {
		after, err := m.c.Reconcile(ctx, l.key)
		m.mu.Lock()
		defer m.mu.Unlock()
		l.over, l.after, l.err = true, after, err
	}()
	m.rest()
}

// endPeer takes in what has come of a pass for the peer.
func (m *manager) endPeer() {
	l := &m.peer
	m.mu.Lock()
	over, after, err := l.over, l.after, l.err
	l.over = false
	m.mu.Unlock()
	if over {
		l.running = false
		l.failures, l.wake = m.planned(l.failures, l.wake, after, err)
	}
}

// peerLoopOps are passes for the peer.
func (m *manager) peerLoopOps(ops []op) []op {
	if !m.s.cfg.grouped() || !m.synced() || m.peer.running {
		return ops
	}
	weight := 1
	if m.peerDue() {
		weight = 30
	}
	return append(ops, op{m.name + " looks at the peer", weight, m.passForPeer})
}
