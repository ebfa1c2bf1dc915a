// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"time"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/rollout"
)

const (
	// closedAhead and closedBack limit the times in which no update starts that the page shows, mostClosed how many are computed.
	closedAhead = 14 * 24 * time.Hour
	closedBack  = 31 * 24 * time.Hour
	mostClosed  = 200
)

// closedTimes are the times of a rollout in which its policy lets no update start.
type closedTimes struct {
	Times []closedTime `json:"times"`
	// Until is until when they are known, in milliseconds since 1970, as all times here.
	Until int64 `json:"until"`
}

// closedTime is one of them.
type closedTime struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Why is why no update starts.
	Why string `json:"why"`
}

// closedOf returns the times in which the policy of a set lets no update start, from the begin of its first wave on; nil if it has neither windows nor freezes.
func closedOf(m *inspect.Evaluation, now time.Time) *closedTimes {
	p := m.Governance.Policy()
	if p == nil || len(p.Rules.Windows) == 0 && len(p.Rules.Freezes) == 0 {
		return nil
	}
	from := now
	for _, w := range m.Governance.Report().Waves {
		if w.RollingSince != nil && w.RollingSince.Time.Before(from) {
			from = w.RollingSince.Time
		}
	}
	if earliest := now.Add(-closedBack); from.Before(earliest) {
		from = earliest
	}
	all, until := p.Rules.Closings(rollout.At(from), rollout.At(now.Add(closedAhead)), mostClosed)
	milliseconds := func(t rollout.Time) int64 { return int64(t) / int64(time.Millisecond) }
	c := &closedTimes{Times: []closedTime{}, Until: milliseconds(until)}
	for _, one := range all {
		why := "no window is open"
		if one.Freeze {
			why = "a freeze is active"
		}
		c.Times = append(c.Times, closedTime{milliseconds(one.From), milliseconds(one.To), why})
	}
	return c
}
