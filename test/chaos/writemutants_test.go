// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/test/observe"
)

// judgeMutants changes what was recorded in one place each, and fails if that is not detected.
func (p *play) judgeMutants(longest time.Duration) {
	p.t.Helper()
	p.judgeLogMutants()
	writes, rules := p.writes(), p.writeRules()
	for _, complaint := range unnoticed(writes, rules) {
		p.t.Error(complaint)
	}
	if len(p.alone) > 0 {
		if _, complaints := gaps(without(writes, p.alone[0], longest), rules, p.alone, longest); len(complaints) == 0 {
			p.t.Errorf("no manager writes for %s after the death of a leader: that is not detected", longest)
		}
	}
}

// without is an audit log with nothing in it for so long after the death of a manager.
func without(writes []observe.Write, death observe.Death, longest time.Duration) []observe.Write {
	return slices.DeleteFunc(slices.Clone(writes), func(w observe.Write) bool {
		after := w.Sent.Sub(death.At)
		return after > 0 && after <= longest
	})
}

// writeMutant is an audit log that no good manager leaves, and who has to notice.
type writeMutant struct {
	what   string
	by     observe.Invariant
	writes []observe.Write
	rules  observe.WriteRules
}

// unnoticed are the mutants of an audit log that are not detected: they show no more violations than the log itself.
func unnoticed(writes []observe.Write, rules observe.WriteRules) (complaints []string) {
	rules.Outages = nil // what is lost then is excused
	isDelete := func(w observe.Write) bool {
		return w.Manager != "" && w.Namespace == rules.Namespace && w.Verb == "delete" && w.Resource == "pods" && w.Code == 200 && w.UID != ""
	}
	at := slices.IndexFunc(writes, isDelete)
	if at < 0 {
		return []string{"no manager has deleted a pod, so there is nothing to change in the audit log"}
	}
	count := func(writes []observe.Write, rules observe.WriteRules, by observe.Invariant) (n int) {
		for _, violation := range observe.JudgeWrites(writes, rules).Violations {
			if strings.HasPrefix(violation, string(by)+": ") {
				n++
			}
		}
		return n
	}
	for _, m := range writeMutants(writes, rules, at) {
		if count(m.writes, m.rules, m.by) <= count(writes, rules, m.by) {
			complaints = append(complaints, fmt.Sprintf("audit log, %s: that is not detected", m.what))
		}
	}
	return complaints
}

// writeMutants are those of one delete of a manager.
func writeMutants(writes []observe.Write, rules observe.WriteRules, at int) []writeMutant {
	one := writes[at]
	changed := func(edit func(w *observe.Write)) []observe.Write {
		all := slices.Clone(writes)
		edit(&all[at])
		return all
	}
	again := one
	again.Sent, again.Done = one.Sent.Add(time.Second), one.Done.Add(time.Second)
	repeated := func(edit func(w *observe.Write)) []observe.Write {
		more := again
		edit(&more)
		all := append(slices.Clone(writes), more)
		slices.SortStableFunc(all, func(a, b observe.Write) int { return a.Sent.Compare(b.Sent) })
		return all
	}
	ends := func(w observe.Write) bool {
		return w.Verb == "delete" && w.Resource == "pods" && w.Namespace == rules.Namespace
	}
	all := []writeMutant{
		{"a delete without a UID", observe.Precondition, changed(func(w *observe.Write) { w.UID = "" }), rules},
		{"a stranger who deletes", observe.Known, changed(func(w *observe.Write) { w.Manager, w.User = "", "stranger" }), rules},
		{"a pod deleted twice", observe.Once, repeated(func(*observe.Write) {}), rules},
		{"another manager a second later", observe.OneWriter, repeated(func(w *observe.Write) { w.Manager += "-of-a-mutant" }), rules},
		{"a successor that does not wait", observe.OneWriter, writes, rules},
	}
	all[len(all)-1].rules.Deaths = append(slices.Clone(rules.Deaths), observe.Death{Manager: one.Manager, At: one.Sent.Add(-rules.Fence * 3 / 5)})
	if len(rules.Endings) > 0 {
		all = append(all, writeMutant{"pods that end without a delete", observe.Logged, slices.DeleteFunc(slices.Clone(writes), ends), rules})
	}
	return all
}

// TestWriteMutants: what is made of an audit log in which all is well is noticed, and a log that proves nothing is reported.
func TestWriteMutants(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	rules := observe.WriteRules{Namespace: "ns", Users: []string{"me"}, Fence: 5 * time.Second}
	var writes []observe.Write
	for i := range 3 {
		sent := begin.Add(time.Duration(i) * 10 * time.Millisecond)
		w := observe.Write{
			Sent: sent, Done: sent.Add(time.Millisecond), Manager: "manager", Verb: "delete", Resource: "pods", Namespace: "ns", Code: 200,
			Name: fmt.Sprint("pod", i), UID: types.UID(fmt.Sprint("uid", i)),
		}
		writes = append(writes, w)
		rules.Endings = append(rules.Endings, observe.Ending{Pod: w.Name, UID: w.UID, At: w.Done})
	}
	if seen := observe.JudgeWrites(writes, rules); len(seen.Violations) > 0 {
		t.Error(seen.Violations)
	}
	if complaints := unnoticed(writes, rules); len(complaints) > 0 {
		t.Error(complaints)
	}
	if many := len(writeMutants(writes, rules, 0)); many != 6 {
		t.Errorf("%d mutants", many)
	}
	if complaints := unnoticed(nil, rules); len(complaints) != 1 {
		t.Errorf("an empty log: %q", complaints)
	}
}

// TestGapsCanFail: a successor that comes late is reported, and so is that there is none.
func TestGapsCanFail(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	death := observe.Death{Manager: "one", At: begin.Add(time.Second)}
	write := func(manager string, after time.Duration) observe.Write {
		return observe.Write{Sent: begin.Add(after), Done: begin.Add(after), Manager: manager, Verb: "create", Resource: "pods", Namespace: "ns", Code: 201}
	}
	writes := []observe.Write{write("one", 0), write("two", 18*time.Second), write("two", time.Minute)}
	for what, c := range map[string]struct {
		writes []observe.Write
		text   string
	}{
		"in time":   {writes, ""},
		"too late":  {without(writes, death, longestGap), "no leader that works for 59s"},
		"never":     {writes[:1], "only 0 of them have a successor"},
		"not there": {writes[1:], "only 0 of them have a successor"},
	} {
		_, complaints := gaps(c.writes, observe.WriteRules{Namespace: "ns", Fence: time.Second}, []observe.Death{death}, longestGap)
		if told := strings.Join(complaints, "; "); (told == "") != (c.text == "") || !strings.Contains(told, c.text) {
			t.Errorf("%s: %q, want %q", what, told, c.text)
		}
	}
}
