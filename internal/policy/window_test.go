// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode/v1alpha1"
	"everynode.dev/everynode/internal/rollout"
)

func TestWindows(t *testing.T) {
	for _, c := range []struct {
		name, schedule, zone, at string
		length                   time.Duration
		open                     bool
		until                    string
	}{
		{"before", "0 22 * * 1-4", "", "2026-11-25T21:59:59Z", 6 * time.Hour, false, "2026-11-25T22:00:00Z"},
		{"at its start", "0 22 * * 1-4", "", "2026-11-25T22:00:00Z", 6 * time.Hour, true, "2026-11-26T04:00:00Z"},
		{"just before its end", "0 22 * * 1-4", "", "2026-11-26T03:59:59Z", 6 * time.Hour, true, "2026-11-26T04:00:00Z"},
		{"at its end", "0 22 * * 1-4", "", "2026-11-26T04:00:00Z", 6 * time.Hour, false, "2026-11-26T22:00:00Z"},
		{"the weekend", "0 22 * * 1-4", "", "2026-11-27T23:00:00Z", 6 * time.Hour, false, "2026-11-30T22:00:00Z"},
		{"another zone", "0 22 * * *", "Europe/Berlin", "2026-11-25T21:00:00Z", time.Hour, true, "2026-11-25T22:00:00Z"},
		{"a time that is skipped", "30 2 * * *", "Europe/Berlin", "2026-03-29T00:59:00Z", time.Hour, false, "2026-03-29T01:30:00Z"},
		{"an hour later, open", "30 2 * * *", "Europe/Berlin", "2026-03-29T02:29:00Z", time.Hour, true, "2026-03-29T02:30:00Z"},
		{"a time that comes twice", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", time.Hour, true, "2026-10-25T01:30:00Z"},
		{"its second coming", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:40:00Z", time.Hour, false, "2026-10-26T01:30:00Z"},
		{"over the end of summer time, six hours", "0 22 * * *", "Europe/Berlin", "2026-10-25T01:59:00Z", 6 * time.Hour, true, "2026-10-25T02:00:00Z"},
		{"and no more", "0 22 * * *", "Europe/Berlin", "2026-10-25T02:00:00Z", 6 * time.Hour, false, "2026-10-25T21:00:00Z"},
		{"skipped west of Greenwich", "30 2 * * *", "America/New_York", "2026-03-08T06:45:00Z", time.Hour, false, "2026-03-08T07:30:00Z"},
		{"midnight is skipped", "0 0 * * *", "America/Havana", "2026-03-08T04:30:00Z", time.Hour, false, "2026-03-08T05:00:00Z"},
		{"after a skipped time", "0 4 * * *", "America/New_York", "2026-03-08T07:30:00Z", time.Hour, false, "2026-03-08T08:00:00Z"},
		{"twice west of Greenwich", "30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", time.Hour, true, "2026-11-01T06:30:00Z"},
		{"its second coming there", "30 1 * * *", "America/New_York", "2026-11-01T06:40:00Z", time.Hour, false, "2026-11-02T06:30:00Z"},
		{"twice by half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:50:00Z", 10 * time.Minute, true, "2026-04-04T14:55:00Z"},
		{"its second coming by half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T15:16:00Z", 10 * time.Minute, false, "2026-04-05T15:15:00Z"},
		{"longer than its period", "0 * * * *", "", "2026-11-25T21:59:59Z", 3 * time.Hour, true, "2026-11-25T22:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := ReadWindow(c.schedule, c.length, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.at)
			if err != nil {
				t.Fatal(err)
			}
			open, until := w.Open(rollout.Time(at.UnixNano()))
			got := ""
			if until != 0 {
				got = time.Unix(0, int64(until)).UTC().Format(time.RFC3339)
			}
			if open != c.open || got != c.until {
				t.Errorf("open %t until %s, want %t, %s", open, got, c.open, c.until)
			}
		})
	}
}

// TestFreezesWithoutAnEnd: people write such times for "for ever", and a count of nanoseconds cannot hold them.
func TestFreezesWithoutAnEnd(t *testing.T) {
	now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	at := func(text string) metav1.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return metav1.NewTime(parsed)
	}
	for _, c := range []struct {
		from, to string
		want     rollout.VerdictKind
	}{
		{"2026-11-01T00:00:00Z", "9999-12-31T23:59:59Z", rollout.WaitFreeze},
		{"2026-11-01T00:00:00Z", "2300-01-01T00:00:00Z", rollout.WaitFreeze},
		{"0001-01-01T00:00:00Z", "2300-01-01T00:00:00Z", rollout.WaitFreeze},
		{"0001-01-01T00:00:00Z", "2026-11-01T00:00:00Z", rollout.NotEvaluated},
		{"2300-01-01T00:00:00Z", "9999-12-31T23:59:59Z", rollout.NotEvaluated},
	} {
		p := Read(&v1alpha1.RolloutPolicy{Spec: v1alpha1.RolloutPolicySpec{Freezes: []v1alpha1.Freeze{{From: at(c.from), To: at(c.to)}}}})
		if got, _ := p.closed(rollout.Time(now.UnixNano())); got != c.want {
			t.Errorf("from %s to %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestWindowsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		schedule, zone string
		length         time.Duration
	}{
		{"0 22 * *", "", time.Hour}, {"0 25 * * *", "", time.Hour}, {"0 0 30 2 *", "", time.Hour}, {"0 22 * * *", "Nowhere/Land", time.Hour},
		{"0 22 * * *", "Local", time.Hour}, {"@every 1h", "", time.Hour}, {"TZ=UTC 0 22 * * *", "", time.Hour}, {"0 22 * * *", "", 0}, {"0 22 * * *", "", 1000 * time.Hour},
	} {
		if _, err := ReadWindow(c.schedule, c.length, c.zone); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// TestWindowsAndFreezesTogether: one open window is enough, a freeze also holds updates while a window is open, and of several freezes the last one counts.
func TestWindowsAndFreezesTogether(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	in := func(hours int) rollout.Time { return rollout.At(now.Add(time.Duration(hours) * time.Hour)) }
	window := func(schedule string) Window {
		w, err := ReadWindow(schedule, time.Hour, "")
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	open, at14, at18 := window("0 12 * * *"), window("0 14 * * *"), window("0 18 * * *")
	short, long, later := Freeze{in(-1), in(1)}, Freeze{in(-2), in(3)}, Freeze{in(5), in(6)}
	for name, c := range map[string]struct {
		windows       []Window
		freezes       []Freeze
		kind          rollout.VerdictKind
		until, closes rollout.Time
	}{
		"no window is open":               {[]Window{at18, at14}, nil, rollout.WaitWindow, in(2), 0},
		"one window is open":              {[]Window{at18, open, at14}, nil, rollout.NotEvaluated, 0, in(1)},
		"a freeze while a window is open": {[]Window{open}, []Freeze{long}, rollout.WaitFreeze, in(3), in(1)},
		"two freezes":                     {nil, []Freeze{long, short}, rollout.WaitFreeze, in(3), 0},
		"a freeze that comes later":       {nil, []Freeze{later}, rollout.NotEvaluated, 0, in(5)},
	} {
		p := Policy{Windows: c.windows, Freezes: c.freezes}
		if kind, until := p.closed(in(0)); kind != c.kind || until != c.until || p.closes(in(0)) != c.closes {
			t.Errorf("%s: %v until %d, and closes at %d", name, kind, until, p.closes(in(0)))
		}
	}
}

// TestTheTimesInWhichNoUpdateStarts are those between windows and those of freezes, within the times that are asked for, and not without end.
func TestTheTimesInWhichNoUpdateStarts(t *testing.T) {
	begin := rollout.At(time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC))
	hour := func(hours int) rollout.Time { return begin.Add(time.Duration(hours) * time.Hour) }
	nightly, err := ReadWindow("0 22 * * *", 4*time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	minutely, err := ReadWindow("* * * * *", time.Second, "")
	if err != nil {
		t.Fatal(err)
	}
	frozen := []Freeze{{hour(23), hour(24)}, {hour(60), hour(90)}}
	for name, c := range map[string]struct {
		p     Policy
		want  []Closing
		until rollout.Time
	}{
		"always open": {Policy{}, nil, hour(72)},
		"nightly": {Policy{Windows: []Window{nightly}}, []Closing{
			{false, hour(2), hour(22)}, {false, hour(26), hour(46)}, {false, hour(50), hour(70)},
		}, hour(72)},
		"freezes": {Policy{Freezes: frozen}, []Closing{{true, hour(23), hour(24)}, {true, hour(60), hour(72)}}, hour(72)},
		"both": {Policy{Windows: []Window{nightly}, Freezes: frozen}, []Closing{
			{false, hour(2), hour(22)}, {true, hour(23), hour(24)}, {false, hour(26), hour(46)}, {false, hour(50), hour(70)}, {true, hour(70), hour(72)},
		}, hour(72)},
		"unreadable": {Policy{Problems: []string{"spec.windows[0]"}}, nil, hour(0)},
	} {
		if got, until := c.p.Closings(hour(0), hour(72), 20); !slices.Equal(got, c.want) || until != c.until {
			t.Errorf("%s: %v until %v", name, got, until)
		}
	}
	p := Policy{Windows: []Window{minutely}}
	if got, until := p.Closings(hour(0), hour(72), 20); len(got) != 10 || until != begin.Add(10*time.Minute) {
		t.Errorf("%d times until %v", len(got), until)
	}
}
