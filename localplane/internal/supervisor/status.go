// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"time"

	"everynode.dev/everynode/localplane/internal/proc"
)

// Status is how one component is.
type Status struct {
	Name string
	// PID is 0 when no process runs.
	PID int
	// Ready tells whether the process has been ready since it started.
	Ready bool
	// Wanted is false when it was killed on purpose.
	Wanted bool
	// Failed tells that it ended, or could not be run, before it was ready, and so is not started again by itself.
	Failed bool
	// Since is when the process was started.
	Since time.Time
	// Restarts counts how often it was started again without having been asked to.
	Restarts int
	Usage    proc.Usage
}

// Status tells how each component is.
func (s *Supervisor) Status() []Status {
	list := make([]Status, 0, len(s.units))
	for _, u := range s.units {
		list = append(list, u.status())
	}
	return list
}

func (u *unit) status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	st := Status{Name: u.component.Name, Wanted: u.wanted, Restarts: u.restarts}
	if u.alive() == nil {
		st.Failed = u.wanted && !u.proven
		return st
	}
	st.PID, st.Since, st.Ready = u.process.PID, u.began, u.ready
	// A process that has just ended has no usage any more; its end shows in the next status.
	if usage, err := proc.ReadUsage(st.PID); err == nil {
		st.Usage = usage
	}
	return st
}
