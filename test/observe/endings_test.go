// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestEndings: every pod ends by a delete that the audit log has, or while an API server dies.
func TestEndings(t *testing.T) {
	writes := audited("a", "a", "a")
	endings := func(edit func(all []Ending)) []Ending {
		var all []Ending
		for i, w := range writes {
			all = append(all, Ending{Pod: w.Name, UID: w.UID, At: w.Sent.Add(5 * time.Millisecond)})
			if w.Name != fmt.Sprint("pod", i) {
				t.Fatalf("write %d is %s", i, w)
			}
		}
		edit(all)
		return all
	}
	changed := func(edit func(w *Write)) []Write {
		all := slices.Clone(writes)
		edit(&all[1])
		return all
	}
	at := writes[1].Sent
	for name, test := range map[string]struct {
		writes   []Write
		endings  []Ending
		outage   time.Time
		unlogged int
		missing  bool
	}{
		"all is well":            {writes: writes, endings: endings(func([]Ending) {})},
		"no delete of it":        {writes: slices.Delete(slices.Clone(writes), 1, 2), endings: endings(func([]Ending) {}), missing: true},
		"one of another pod":     {writes: writes, endings: endings(func(all []Ending) { all[1].UID = "other" }), missing: true},
		"one that came later":    {writes: writes, endings: endings(func(all []Ending) { all[1].At = at.Add(-time.Millisecond) }), missing: true},
		"one that was refused":   {writes: changed(func(w *Write) { w.Code = 409 }), endings: endings(func([]Ending) {}), missing: true},
		"one that has timed out": {writes: changed(func(w *Write) { w.Code = 504 }), endings: endings(func([]Ending) {})},
		"one without a UID":      {writes: changed(func(w *Write) { w.UID, w.Manager, w.User = "", "", "me" }), endings: endings(func([]Ending) {})},
		"an old one without a UID": {
			writes:  changed(func(w *Write) { w.UID, w.Manager, w.User = "", "", "me" }),
			endings: endings(func(all []Ending) { all[1].At = at.Add(time.Minute) }), missing: true,
		},
		"while the API server dies": {
			writes: slices.Delete(slices.Clone(writes), 1, 2), endings: endings(func([]Ending) {}), outage: at.Add(time.Second), unlogged: 1,
		},
		"long before it dies": {
			writes: slices.Delete(slices.Clone(writes), 1, 2), endings: endings(func([]Ending) {}), outage: at.Add(6 * time.Second), missing: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := JudgeWrites(test.writes, WriteRules{
				Namespace: "ns", Users: []string{"me"}, Fence: 5 * time.Second, Endings: test.endings, Outages: []time.Time{test.outage},
			})
			missing := slices.ContainsFunc(report.Violations, func(v string) bool { return strings.HasPrefix(v, string(Logged)+": pod pod1 ") })
			if missing != test.missing || report.Unlogged != test.unlogged || !missing && len(report.Violations) > 0 {
				t.Errorf("%d without a line, and %q", report.Unlogged, report.Violations)
			}
		})
	}
}

// TestEndingsOfALedger: a pod ends once, when it begins to terminate or when it is gone.
func TestEndingsOfALedger(t *testing.T) {
	s := rolled(3, one, zero)
	from := uint64(len(s.log))
	s.terminate("old0").gone("old0").gone("old1").terminate("old2")
	var ended []types.UID
	for _, e := range endingsOf(s.log, from) {
		ended = append(ended, e.UID)
	}
	if want := []types.UID{"uid-old0", "uid-old1", "uid-old2"}; !slices.Equal(ended, want) {
		t.Errorf("ended: %v, want %v", ended, want)
	}
	if again := endingsOf(s.log, uint64(len(s.log))); len(again) > 0 {
		t.Errorf("what ended before counts: %v", again)
	}
}
