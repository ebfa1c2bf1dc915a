// SPDX-License-Identifier: Apache-2.0

package everynode_test

import (
	"strings"
	"testing"
	"time"

	"everynode.dev/everynode/api/everynode"
)

func TestDurationsAreReadAsWritten(t *testing.T) {
	all := everynode.Durations{
		Stop:   everynode.Duration{Pods: 48, Usual: 1200 * time.Millisecond, Long: 1900 * time.Millisecond},
		Start:  everynode.Duration{Pods: 50, Usual: 0, Long: time.Hour},
		Change: everynode.Duration{Pods: 1, Usual: 90 * time.Second, Long: 90 * time.Second},
	}
	stop, change, none := all, all, everynode.Durations{}
	stop.Start, stop.Change = everynode.Duration{}, everynode.Duration{}
	change.Start = everynode.Duration{}
	for _, c := range []struct {
		of   everynode.Durations
		want string
	}{
		{all, "stop=48,1.2s,1.9s start=50,0s,1h0m0s change=1,1m30s,1m30s"},
		{stop, "stop=48,1.2s,1.9s"},
		{change, "stop=48,1.2s,1.9s change=1,1m30s,1m30s"},
		{none, ""},
	} {
		text := everynode.FormatDurations(c.of)
		if text != c.want {
			t.Errorf("written %q, wanted %q", text, c.want)
		}
		if got := everynode.ParseDurations(text); got != c.of {
			t.Errorf("%q is read as %+v, wanted %+v", text, got, c.of)
		}
	}
}

func TestNonsenseIsNoDuration(t *testing.T) {
	for _, value := range []string{
		"nonsense", "stop", "stop=", "stop=5", "stop=5,1s", "stop=5,1s,2s,3s", "stop=five,1s,2s", "stop=5,1,2", "stop=5,1s,", "pause=5,1s,2s",
		"stop=0,1s,2s", "stop=-5,1s,2s", "stop=1001,1s,2s", "stop=5,-1s,2s", "stop=5,3s,2s", "stop=5,1s,1h0m1s", "stop=5,1s,9999999h",
		"stop=5,1s,2s stop=5,1s,2s", "start=5,1s,2s stop=5,1s,2s", "stop=5,1s,2s  start=5,1s,2s", " stop=5,1s,2s", "stop=5,1s,2s ", "stop=5,1s,2s start=5",
		"stop=5,1s,2s," + strings.Repeat("0", 300) + "s",
	} {
		if got := everynode.ParseDurations(value); got != (everynode.Durations{}) {
			t.Errorf("%q is read as %+v", value, got)
		}
	}
}
