// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// How long others wait from the last renewal of a lease, and for how long its holder writes. They are those of the manager.
const leaseTime, guardTime = 10 * time.Second, 7 * time.Second

// holds is whether a manager writes: the leader renews its lease all the time, and whoever has stood still looks when that was. It stands in for
// the lease guard of internal/manager, which belongs to a process.
func (m *manager) holds() bool {
	m.s.tick.Load()
	return m == m.s.lead || m.s.w.now.Sub(m.renewed) < guardTime
}

// leased is whether the lease is that of a manager that is frozen, so that nobody else leads yet.
func (s *sim) leased() bool { return s.frozen != nil && s.w.now.Sub(s.frozen.renewed) < leaseTime }

// freezeOps are what becomes of the leader's process: it stands still, wherever it is, and goes on later.
func (s *sim) freezeOps(ops []op) []op {
	if s.frozen != nil {
		return append(ops, op{s.frozen.name + " wakes up", 4, s.thaw})
	}
	if s.lead == nil {
		return ops
	}
	weight := 1
	if s.lead.running {
		weight = 2
	}
	return append(ops, op{s.lead.name + " is frozen", weight * s.storm(), s.freeze})
}

// freeze stops the leader. What it has sent is on its way, and may take effect.
func (s *sim) freeze() {
	m := s.lead
	s.frozen, s.lead, m.renewed = m, nil, s.w.now
	for _, r := range m.waiting() {
		if r.write {
			s.straggle(r)
		}
	}
}

// thaw lets the frozen manager go on, with the answers that have come meanwhile, and without those that have not. In time it is still the leader. Else it
// will end soon; but before it does, its work goes on as far as it lets itself.
func (s *sim) thaw() {
	m := s.frozen
	if m.holds() {
		s.lead = m
	}
	s.frozen = nil
	m.clock.SetTime(s.w.now)
	m.known.count()
	for _, r := range m.waiting() {
		if r.told != nil {
			s.answer(r, func() (any, error) { return r.told.value, r.told.err })
		} else {
			s.fail(r, errTimeout())
		}
	}
	m.rouse()
	m.rest()
	if m == s.lead {
		return
	}
	if m.synced() && !m.running {
		m.pass()
	}
	if m.peerDue() {
		m.passForPeer()
	}
	m.die()
}
