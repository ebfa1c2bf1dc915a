// SPDX-License-Identifier: Apache-2.0

package everynode

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Annotations that the manager writes on a ControllerRevision, for commands.
const (
	// MeasuredDurations has how long pods of the daemon set took to stop, to start and to change in place in the last rollouts, as the manager saw it.
	// `kubectl everynode plan` estimates with it. For each of `stop`, `start` and `change` it holds the number of pods, the usual duration (the mean
	// without the shortest and the longest tenth) and the duration that nine of ten pods did not exceed, for example `stop=50,1.2s,1.9s start=50,3s,4.1s`.
	// The manager writes it on the current revision at the end of a rollout, and before that at most once a minute. Only estimates depend on it; you may remove it.
	MeasuredDurations = Domain + "/measured-durations"
)

// Durations are what MeasuredDurations holds.
type Durations struct{ Stop, Start, Change Duration }

// Duration is how long pods took for one kind of work. Pods is 0 if that is not known.
type Duration struct {
	Pods        int
	Usual, Long time.Duration
}

// Measurable reports whether a duration counts, which is up to an hour: what takes longer has other reasons.
func Measurable(d time.Duration) bool { return 0 <= d && d <= time.Hour }

// maxMeasuredPods is the highest number of pods that a value may name, and maxDurationsText the longest value that is read.
const maxMeasuredPods, maxDurationsText = 1000, 200

// each returns the kinds by their names, in the order of the value.
func (d *Durations) each() []struct {
	name string
	of   *Duration
} {
	return []struct {
		name string
		of   *Duration
	}{{"stop", &d.Stop}, {"start", &d.Start}, {"change", &d.Change}}
}

// FormatDurations returns the value of MeasuredDurations, in milliseconds; empty if nothing is known.
func FormatDurations(d Durations) string {
	var parts []string
	for _, kind := range d.each() {
		if kind.of.Pods > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d,%s,%s", kind.name, kind.of.Pods, kind.of.Usual.Round(time.Millisecond), kind.of.Long.Round(time.Millisecond)))
		}
	}
	return strings.Join(parts, " ")
}

// ParseDurations reads a value of MeasuredDurations. Nothing is known from a value that does not follow the format, or that is out of bounds.
func ParseDurations(value string) Durations {
	var d Durations
	if value == "" || len(value) > maxDurationsText {
		return Durations{}
	}
	kinds := d.each()
	for part := range strings.SplitSeq(value, " ") {
		name, rest, _ := strings.Cut(part, "=")
		for len(kinds) > 0 && kinds[0].name != name {
			kinds = kinds[1:]
		}
		if len(kinds) == 0 {
			return Durations{} // not a kind, twice the same, or in another order
		}
		read, ok := parseDuration(rest)
		if !ok {
			return Durations{}
		}
		*kinds[0].of, kinds = read, kinds[1:]
	}
	return d
}

func parseDuration(value string) (Duration, bool) {
	fields := strings.Split(value, ",")
	if len(fields) != 3 {
		return Duration{}, false
	}
	pods, err := strconv.Atoi(fields[0])
	usual, usualErr := time.ParseDuration(fields[1])
	long, longErr := time.ParseDuration(fields[2])
	ok := err == nil && usualErr == nil && longErr == nil && 0 < pods && pods <= maxMeasuredPods && Measurable(usual) && Measurable(long) && usual <= long
	return Duration{Pods: pods, Usual: usual, Long: long}, ok
}
