// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images of the manager have no time zones

	"github.com/robfig/cron/v3"

	"everynode.dev/everynode/internal/rollout"
)

// Window is a recurring period in which updates may start.
type Window struct {
	schedule cron.Schedule
	length   time.Duration
	zone     *time.Location
}

// maxWindow is the longest window: the search for the start of a window goes back that far.
const maxWindow = 31 * 24 * time.Hour

// ReadWindow reads a window. Without an error it opens at some time.
func ReadWindow(schedule string, length time.Duration, zone string) (Window, error) {
	if strings.Contains(schedule, "TZ=") || strings.HasPrefix(strings.TrimSpace(schedule), "@every") {
		return Window{}, fmt.Errorf("the schedule %q is not one of cron with five fields: use timeZone for the time zone", schedule)
	}
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return Window{}, fmt.Errorf("the schedule %q cannot be read: %w", schedule, err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Window{}, fmt.Errorf("the time zone %q is not known: use a name such as Europe/Berlin", zone)
	}
	w := Window{schedule: parsed, length: length, zone: location}
	switch {
	case length <= 0 || length > maxWindow:
		return Window{}, fmt.Errorf("the duration %s is not between 1s and %s", length, maxWindow)
	case parsed.Next(time.Unix(0, 0).UTC()).IsZero():
		return Window{}, fmt.Errorf("the schedule %q names no day that exists: change its day of month, or its month", schedule)
	default:
		return w, nil
	}
}

// starts iterates over the starts of the window from some time on. The schedule uses local time. So a time
// that occurs twice because clocks are set back is one start, and a time that does not occur because clocks
// are set forward is a start an hour later.
func (w *Window) starts(from time.Time) func(yield func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		local := from.In(w.zone).Add(-2 * time.Hour) // what the wall shows may come again
		wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
		for {
			wall = w.schedule.Next(wall)
			if wall.IsZero() {
				return
			}
			start := w.at(wall)
			if start.After(from) && !yield(start) {
				return
			}
		}
	}
}

// at is when clocks of the zone show a time: of two such times the first one, and of none the one that they would show without the change.
func (w *Window) at(wall time.Time) time.Time {
	start := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, w.zone)
	_, offset := start.Add(-3 * time.Hour).Zone() // before clocks are changed, if they are
	unchanged := wall.Add(-time.Duration(offset) * time.Second).In(w.zone)
	if shows := wall.Format(time.DateTime); unchanged.Format(time.DateTime) == shows || start.Format(time.DateTime) != shows {
		return unchanged
	}
	return start
}

// Open reports whether the window is open, and until when that does not change: when it closes, or when it opens next; 0 if it never does.
func (w *Window) Open(now rollout.Time) (open bool, until rollout.Time) {
	at := time.Unix(0, int64(now))
	for start := range w.starts(at.Add(-w.length)) {
		if start.After(at) {
			return false, rollout.Time(start.UnixNano())
		}
		if end := start.Add(w.length); end.After(at) {
			return true, rollout.Time(end.UnixNano())
		}
	}
	return false, 0
}

// closed returns what prevents updates from starting at a time, and until when if that is known.
func (p *Policy) closed(now rollout.Time) (kind rollout.VerdictKind, until rollout.Time) {
	for _, f := range p.Freezes {
		if f.From <= now && now < f.To {
			kind, until = rollout.WaitFreeze, max(until, f.To)
		}
	}
	if kind != rollout.NotEvaluated || len(p.Windows) == 0 {
		return kind, until
	}
	for i := range p.Windows {
		open, next := p.Windows[i].Open(now)
		if open {
			return rollout.NotEvaluated, 0
		}
		until = rollout.Earlier(until, next)
	}
	return rollout.WaitWindow, until
}

// closes returns when the next freeze begins or an open window closes, so that no start depends on a pass that comes too late, and the status shows it.
func (p *Policy) closes(now rollout.Time) (at rollout.Time) {
	for i := range p.Windows {
		if open, until := p.Windows[i].Open(now); open {
			at = rollout.Earlier(at, until)
		}
	}
	for _, f := range p.Freezes {
		if f.From > now {
			at = rollout.Earlier(at, f.From)
		}
	}
	return at
}

// Closing is a time in which no update starts: during a freeze, or because no window is open.
type Closing struct {
	Freeze   bool
	From, To rollout.Time
}

// Closings returns the times in which no update starts, and until when they are known: at most that many are computed, because windows may open every minute.
func (p *Policy) Closings(from, to rollout.Time, most int) (all []Closing, until rollout.Time) {
	at := from
	for range most {
		if at >= to || len(p.Problems) > 0 {
			break
		}
		kind, end := p.closed(at)
		if kind == rollout.NotEvaluated {
			end = p.closes(at)
		}
		if end <= at || end > to { // it does not change any more
			end = to
		}
		if kind != rollout.NotEvaluated {
			all = append(all, Closing{kind == rollout.WaitFreeze, at, end})
		}
		at = end
	}
	return all, at
}
