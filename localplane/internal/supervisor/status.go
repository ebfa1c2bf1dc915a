// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"time"

	"everynode.dev/everynode/localplane/internal/proc"
)

// Status is the status of one component.
type Status struct {
	Name string
	// PID is 0 when no process runs.
	PID int
	// Ready reports whether the process has been ready since it started.
	Ready bool
	// Wanted is false if it was killed on request.
	Wanted bool
	// Failed reports that it ended, or could not be started, before it was ready, and so is not restarted.
	Failed bool
	// Since is when the process was started.
	Since time.Time
	// Restarts counts the restarts that were not requested.
	Restarts int
	Usage    proc.Usage
}

// Status returns the status of each component.
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
	// A process that has just ended has no usage; the next status shows its end.
	if usage, err := proc.ReadUsage(st.PID); err == nil {
		st.Usage = usage
	}
	return st
}
