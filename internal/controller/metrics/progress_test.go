// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/rollout"
)

// Verdicts by letters: what a decision says of each node. A capital letter is the same on a node that is not ready.
func kindOf(letter rune) (kind rollout.VerdictKind, ready bool) {
	switch letter {
	case 'u':
		return rollout.UpToDate, true
	case 'r':
		return rollout.Recreating, true
	case 'a':
		return rollout.WaitAvailable, true
	case 'A':
		return rollout.WaitAvailable, false
	case 'c':
		return rollout.Creating, true
	case 'b':
		return rollout.WaitBudget, true
	case 'p':
		return rollout.WaitPaused, true
	case 'h':
		return rollout.WaitHook, true
	case 'x':
		return rollout.Blocked, true
	case 'X':
		return rollout.WaitUnreachable, false
	default:
		return rollout.NotEvaluated, true
	}
}

// decided is one decision, of nodes by letters.
func decided(minute int, revision, letters string, strategy rollout.Strategy) (*rollout.Snapshot, *rollout.Plan) {
	s := &rollout.Snapshot{
		Now: rollout.Time(time.Duration(minute) * time.Minute), Set: rollout.Set{Strategy: strategy}, Revisions: []rollout.Revision{{Name: revision}},
	}
	p := &rollout.Plan{Status: rollout.Status{Desired: len(letters)}}
	for _, letter := range letters {
		kind, ready := kindOf(letter)
		if kind != rollout.Creating {
			p.Status.Current++
		}
		s.Nodes = append(s.Nodes, rollout.Node{Ready: ready})
		p.Verdicts = append(p.Verdicts, rollout.Verdict{Kind: kind})
	}
	return s, p
}

// TestProgress plays one decision a minute, from minute 1, and sees since when the update stands still after the last of them; 0 is that it does
// not.
func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		// one and two are the decisions before and after the template has changed.
		one, two []string
		onDelete bool
		want     int
	}{
		"at rest":                               {one: []string{"uuu", "uuu"}},
		"begins":                                {one: []string{"uuu"}, two: []string{"rbb"}, want: 2},
		"comes further":                         {one: []string{"uuu"}, two: []string{"rbb", "abb", "urb", "uab"}, want: 4},
		"a bad canary, and budget for it alone": {one: []string{"uuuu"}, two: []string{"rppp", "appp", "appp", "appp"}, want: 2},
		"the last wave":                         {one: []string{"uuuu"}, two: []string{"rrbb", "uurr", "uuaa", "uuaa"}, want: 3},
		"a set of one node":                     {one: []string{"u"}, two: []string{"r", "a", "a"}, want: 2},
		"all of the budget":                     {one: []string{"uuuu"}, two: []string{"rbbb", "abbb", "abbb"}, want: 2},
		"pods that are made again and again":    {one: []string{"uuuu"}, two: []string{"rubb", "cubb", "aubb", "cubb", "aubb"}, want: 2},
		"is over":                               {one: []string{"uu"}, two: []string{"rb", "ur", "uu"}},
		"a pod fails after it was over":         {one: []string{"uu"}, two: []string{"rb", "ur", "uu", "ua", "ua"}},
		"a pod fails, and nothing is rolled":    {one: []string{"uuu", "uua", "uuc", "uua"}},
		"paused, and goes on later":             {one: []string{"uu"}, two: []string{"pp", "pp", "rb", "ab"}, want: 4},
		"nodes that were held back are let go":  {one: []string{"uuuuu"}, two: []string{"rbppp", "uappp", "uabbb", "uarbb", "uaubb"}, want: 6},
		"it is paused on its way":               {one: []string{"uuuu"}, two: []string{"rbbb", "abbb", "appp", "appp"}, want: 2},
		"a hook holds the rest":                 {one: []string{"uuu"}, two: []string{"rbb", "uhh"}},
		"writes are refused for the rest":       {one: []string{"uuu"}, two: []string{"rbb", "uxx"}},
		"only nodes that are down are left":     {one: []string{"uuu"}, two: []string{"rbb", "uuA"}},
		"only nodes that it leaves out":         {one: []string{"uuu"}, two: []string{"rbb", "uuX"}},
		"a node goes down that was to follow":   {one: []string{"uuu"}, two: []string{"rbb", "abb", "abX"}, want: 2},
		"a node joins and gets its pod":         {one: []string{"uuu"}, two: []string{"abb", "abbc", "abba", "abbu"}, want: 2},
		"a node that was to follow is gone":     {one: []string{"uuu"}, two: []string{"abb", "ab", "ab"}, want: 2},
		"it goes on after that":                 {one: []string{"uuu"}, two: []string{"abb", "ab", "ur"}, want: 4},
		"another leader in the middle":          {one: []string{"uab", "uab"}, want: 1},
		"another leader, and a pod that fails":  {one: []string{"uua", "uua", "uuc", "uua"}},
		"another leader, and a node joins":      {one: []string{"uuc", "uua"}},
		"and then it is updated":                {one: []string{"uua", "uua"}, two: []string{"bba", "bba"}, want: 3},
		"a new set, whose pods all fail":        {one: []string{"ccc", "aaa", "aaa"}, want: 1},
		"nobody knows the revision for a while": {one: []string{"uuu"}, two: []string{"abb", "..."}, want: 2},
		"OnDelete":                              {one: []string{"uua", "uua"}, two: []string{"uua"}, onDelete: true},
	} {
		m, key, minute := New(true), clustercache.Key{Dialect: "native", Namespace: "ns", Name: name}, 0
		play := func(revision string, all []string) {
			for _, letters := range all {
				minute++
				strategy := rollout.RollingUpdate
				if c.onDelete {
					strategy = rollout.OnDelete
				}
				s, p := decided(minute, revision, letters, strategy)
				if letters[0] == '.' {
					s.Set.Update = -1
				}
				m.Decided(key, s, p, time.Millisecond)
			}
		}
		play("one", c.one)
		play("two", c.two)
		if got := time.Duration(m.last[key].since); got != time.Duration(c.want)*time.Minute {
			t.Errorf("%s: it stands still since %v, want minute %d", name, got, c.want)
		}
	}
}

// TestNothingStandsStillNextToAnotherController: what a dialect does not decide does not age, and the other dialects go on.
func TestNothingStandsStillNextToAnotherController(t *testing.T) {
	m, minute := New(true), 0
	ours, other := clustercache.Key{Dialect: "native", Namespace: "ns", Name: "a"}, clustercache.Key{Dialect: "kruise", Namespace: "ns", Name: "a"}
	play := func(key clustercache.Key, letters string) {
		minute++
		s, p := decided(minute, "two", letters, rollout.RollingUpdate)
		m.Decided(key, s, p, time.Millisecond)
	}
	see := func(when string, want, wantOther int) {
		t.Helper()
		if got := time.Duration(m.last[ours].since); got != time.Duration(want)*time.Minute {
			t.Errorf("%s: it stands still since %v, want minute %d", when, got, want)
		}
		if got := time.Duration(m.last[other].since); got != time.Duration(wantOther)*time.Minute {
			t.Errorf("%s: a set of another dialect stands still since %v, want minute %d", when, got, wantOther)
		}
	}
	play(ours, "rbb")
	play(other, "rbb")
	see("both roll", 1, 2)
	m.Conflict("native", true)
	see("another controller is at work", 0, 2)
	play(ours, "abb")
	see("a pass that was under way ends", 0, 2)
	m.Conflict("native", false)
	see("it has ended", 0, 2)
	play(ours, "abb")
	see("the first decision after that", 4, 2)
}

// TestProgressOfDecisions has the core decide: a wave that fails stands still, whatever is held behind it; a set that waits by intent does not.
func TestProgressOfDecisions(t *testing.T) {
	one := rollout.Quantity{Value: 1}
	rolls := rollout.Set{Strategy: rollout.RollingUpdate, MaxUnavailable: one}
	held := func(limits rollout.Limits) rollout.Set {
		s := rolls
		s.Limits = limits
		return s
	}
	two := rollout.Quantity{Value: 2}
	for name, c := range map[string]struct {
		set rollout.Set
		// pods are those after the template has changed, by letters: o old, a new and not available, u new and available.
		pods string
		want bool
	}{
		"the first wave fails":        {rolls, "aoo", true},
		"the last wave fails":         {rolls, "uua", true},
		"it is over":                  {rolls, "uuu", false},
		"a canary fails":              {held(rollout.Limits{Partition: two}), "ooa", true},
		"a canary is well":            {held(rollout.Limits{Partition: two}), "oou", false},
		"all are kept as they are":    {held(rollout.Limits{Partition: rollout.Quantity{Value: 3}}), "ooo", false},
		"no node is selected":         {held(rollout.Limits{Selective: true}), "ooo", false},
		"paused":                      {held(rollout.Limits{Paused: true}), "ooo", false},
		"OnDelete":                    {rollout.Set{Strategy: rollout.OnDelete}, "ooo", false},
		"OnDelete, and one was asked": {rollout.Set{Strategy: rollout.OnDelete}, "aoo", false},
		"the owners decide":           {rollout.Set{Strategy: rollout.OnDelete, Announce: true}, "ooo", false},
	} {
		m, key := New(true), clustercache.Key{Dialect: "native", Namespace: "ns", Name: name}
		decide := func(minute, update int, letters string) {
			s := &rollout.Snapshot{Now: rollout.Time(time.Duration(minute) * time.Minute), Set: c.set, Revisions: []rollout.Revision{{Name: "old"}, {Name: "new", Number: 1}}}
			s.Set.Update = update
			for i, letter := range letters {
				pod := rollout.Pod{Name: string(letter), UID: string(letter), Phase: rollout.Running, Scheduled: true, Ready: letter != 'a', ReadySince: 1}
				if letter != 'o' {
					pod.Revision = 1
				}
				s.Nodes = append(s.Nodes, rollout.Node{Name: string(rune('1' + i)), Fit: rollout.MustRun, Ready: true, Pods: []rollout.Pod{pod}})
			}
			p := rollout.Decide(*s)
			m.Decided(key, s, &p, time.Millisecond)
		}
		decide(1, 0, "ooo")
		decide(2, 1, "ooo")
		for minute := 3; minute <= 60; minute++ {
			decide(minute, 1, c.pods)
		}
		got := m.last[key].since
		if (got != 0) != c.want {
			t.Errorf("%s: after an hour it stands still since %v", name, time.Duration(got))
		}
		if got > rollout.Time(3*time.Minute) {
			t.Errorf("%s: nothing has come further since minute 3, and it says since %v", name, time.Duration(got))
		}
	}
}
