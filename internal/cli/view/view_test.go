// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"everynode.dev/everynode/internal/rollout"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// start is the moment at which every story of these tests begins.
const start = rollout.Time(1_700_000_000_000_000_000)

// golden compares got with testdata/name. Escape characters are written as \e, so that a golden can be read and edited.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.NewReplacer("\x1b", `\e`, "\r", `\r`).Replace(got)
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to write it anew); got:\n%s\nwant:\n%s", path, got, want)
	}
}

// scene builds a snapshot and a plan from one letter per node:
//
//	u up to date          o old, waits for the budget     r old, deleted now     t terminating
//	c created now         a new, not yet available        x as t, on a node that is not ready
//	b blocked             n not wanted
type scene struct {
	at      time.Duration
	letters string
}

func (s scene) input() (rollout.Snapshot, rollout.Plan) {
	snapshot := rollout.Snapshot{
		Now:       start.Add(s.at),
		Set:       rollout.Set{Update: 1},
		Revisions: []rollout.Revision{{Name: "6b8f7d4c9", Number: 1}, {Name: "7c9d5f6b8", Number: 2}},
	}
	plan := rollout.Plan{Budget: rollout.Budget{Limit: 6}}
	for i, letter := range s.letters {
		node := rollout.Node{Name: fmt.Sprintf("node-%03d", i), Fit: rollout.MustRun, Ready: true}
		kind, revision, deleting := letterMeans(letter)
		if revision != rollout.NoRevision {
			node.Pods = []rollout.Pod{{Revision: revision, Phase: rollout.Running, Deleting: deleting}}
		}
		switch letter {
		case 'x':
			node.Ready, node.Since = false, start
			plan.Budget.UsedByUnreachable++
		case 'b':
			node.Blocked = "the pod name agent-" + node.Name + " is taken by a pod of somebody else"
		case 't', 'a', 'c', 'r':
			plan.Budget.UsedByUpdate++
		}
		snapshot.Nodes = append(snapshot.Nodes, node)
		plan.Verdicts = append(plan.Verdicts, rollout.Verdict{Kind: kind})
		addStatus(&plan.Status, kind)
	}
	return snapshot, plan
}

func letterMeans(letter rune) (kind rollout.VerdictKind, revision int, deleting bool) {
	switch letter {
	case 'u':
		return rollout.UpToDate, 1, false
	case 'o':
		return rollout.WaitBudget, 0, false
	case 'r':
		return rollout.Recreating, 0, false
	case 't', 'x':
		return rollout.WaitTerminating, 0, true
	case 'c':
		return rollout.Creating, rollout.NoRevision, false
	case 'a':
		return rollout.WaitAvailable, 1, false
	case 'b':
		return rollout.Blocked, rollout.NoRevision, false
	default:
		return rollout.NotWanted, rollout.NoRevision, false
	}
}

func addStatus(s *rollout.Status, kind rollout.VerdictKind) {
	if kind == rollout.NotWanted {
		return
	}
	s.Desired++
	switch kind {
	case rollout.UpToDate:
		s.Updated++
		s.Available++
	case rollout.WaitAvailable:
		s.Updated++
	case rollout.WaitBudget, rollout.Recreating:
		s.Available++
	}
}

// story is a roll of 30 nodes of which two are cut.
func story() []scene {
	return []scene{
		{0, "oooooooooooooooooooooooooooooo"},
		{200 * time.Millisecond, "rrrrrroooooooooooooooooooooooo"},
		{1 * time.Second, "ttttttoooooooooooooooooooooooo"},
		{2 * time.Second, "ccctttoooooooooooooooooooooooo"},
		{3 * time.Second, "uaaaaarooooooooooooooooooooooo"},
		{5 * time.Second, "uuuuuutttttxxooooooooooooooooo"},
		{9 * time.Second, "uuuuuuuuuuuxxuaaattooooooooooo"},
		{14 * time.Second, "uuuuuuuuuuuxxuuuuuuuuuuuuuaaat"},
		{18 * time.Second, "uuuuuuuuuuuxxuuuuuuuuuuuuuuuuu"},
		{40 * time.Second, "uuuuuuuuuuuxxuuuuuuuuuuuuuuuuu"},
		{45 * time.Second, "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"},
	}
}

func screenOf(out *bytes.Buffer, width, height int, options ScreenOptions) *Screen {
	options.Size = func() Size { return Size{width, height} }
	return NewScreen(out, options)
}

func TestScreenDrawsARollInPlace(t *testing.T) {
	for name, options := range map[string]ScreenOptions{
		"screen-colour.txt": {Colour: true},
		"screen-plain.txt":  {},
		"screen-ascii.txt":  {ASCII: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			screen, tracker := screenOf(&out, 100, 24, options), NewTracker("default/agent")
			for i, s := range story() {
				if i == 5 {
					must(t, screen.Say("nodes 11 and 12 are cut"))
				}
				must(t, screen.Show(tracker.Next(s.input())))
			}
			must(t, screen.Close())
			golden(t, name, out.String())
		})
	}
}

func TestScreenWithoutColourHasNone(t *testing.T) {
	var out bytes.Buffer
	screen, tracker := screenOf(&out, 80, 24, ScreenOptions{ASCII: true}), NewTracker("default/agent")
	for _, s := range story() {
		must(t, screen.Show(tracker.Next(s.input())))
	}
	if found := regexp.MustCompile(`\x1b\[[0-9;]*m`).FindString(out.String()); found != "" {
		t.Errorf("a colour sequence %q was written although colours are off", found)
	}
	for _, r := range out.String() {
		if r > unicode.MaxASCII {
			t.Fatalf("the character %q was written although only ASCII is allowed", r)
		}
	}
}

func TestScreenSaysNothingTwice(t *testing.T) {
	var out bytes.Buffer
	screen := screenOf(&out, 80, 24, ScreenOptions{})
	model := NewTracker("default/agent").Next(story()[3].input())
	must(t, screen.Show(model))
	written := out.Len()
	must(t, screen.Show(model))
	if out.Len() != written {
		t.Errorf("the same frame was drawn again: %q", out.String()[written:])
	}
}

func TestFrameFitsTheTerminal(t *testing.T) {
	for _, size := range []Size{{80, 24}, {40, 12}, {20, 8}, {1, 1}, {0, 0}, {300, 100}} {
		for _, nodes := range []int{0, 1, 79, 80, 81, 1000, 20000} {
			snapshot, plan := scene{time.Second, strings.Repeat("uotaxbcrn", nodes/9+1)[:nodes]}.input()
			lines := frame(NewTracker("default/agent").Next(snapshot, plan), size, unicodeGlyphs())
			most := size.normal()
			if len(lines) >= most.Height {
				t.Errorf("%d nodes on %v: %d lines", nodes, size, len(lines))
			}
			for _, l := range lines {
				var b strings.Builder
				l.encode(&b, false)
				if n := utf8.RuneCountInString(b.String()); n > most.Width {
					t.Errorf("%d nodes on %v: a line of %d characters: %s", nodes, size, n, b.String())
				}
			}
		}
	}
}

// What has no room is left out in whole words, and that it is says a mark: half a number is another number.
func TestNothingIsCutInSilence(t *testing.T) {
	text := func(l line) string {
		var b strings.Builder
		l.encode(&b, false)
		return strings.TrimLeft(b.String(), "█▒░ ") // the bar is as long as there is room
	}
	tracker, g := NewTracker("default/agent"), unicodeGlyphs()
	for _, s := range story() {
		model := tracker.Next(s.input())
		whole := layout(model, Size{100, 24}, g, math.MaxInt)
		for width := leastWidth; width < 120; width++ {
			drawn := frame(model, Size{width, 24}, g)
			for i := range 2 {
				got, want := text(drawn[i]), text(whole[i])
				if got == want {
					continue
				}
				begun, marked := strings.CutSuffix(got, g.more)
				rest, begins := strings.CutPrefix(want, strings.TrimRight(begun, " "))
				if !marked || !begins {
					t.Fatalf("in %d columns %q becomes %q", width, want, got)
				}
				if wordEnds := rest == "" || strings.ContainsAny(rest[:1], " ,"); !wordEnds && width > 40 {
					t.Errorf("in %d columns %q ends in the middle of a word", width, got)
				}
			}
		}
	}
}

// A terminal of few rows says how many lines it has no room for; who asks for all of it gets them.
func TestLinesAreNotLeftOutInSilence(t *testing.T) {
	model := NewTracker("default/agent").Next(scene{time.Second, "ruotaxbc"}.input())
	small := ScreenOptions{Size: func() Size { return Size{80, 8} }}
	if got := Draw(model, small); !strings.HasSuffix(got, " more lines\n") || strings.Count(got, "\n") != 6 {
		t.Errorf("8 rows show\n%s", got)
	}
	small.Whole = true
	if got := Draw(model, small); !strings.HasSuffix(got, "  and 1 reason more\n") {
		t.Errorf("without a limit it ends otherwise:\n%s", got)
	}
}

// Nobody looks at a pipe or a file on a screen, so everything is written out there.
func TestDrawCutsNothingWhereThereIsNoTerminal(t *testing.T) {
	model := NewTracker("default/agent").Next(scene{time.Second, "tttttt" + strings.Repeat("o", 24)}.input())
	options := OptionsFor(&bytes.Buffer{}, func(string) string { return "" })
	for _, want := range []string{
		"◌ node-000, node-001, node-002, node-003 and 2 more: a pod is terminating; nothing else is done before it is gone\n",
		"○ node-006, node-007, node-008, node-009 and 20 more: the pod is old; the update budget is used up\n",
	} {
		if got := Draw(model, options); !strings.Contains(got, want) {
			t.Errorf("got\n%swhich has no line %q", got, want)
		}
	}
}

// What keeps a new pod from starting is told, once for all nodes on which it is the same. On a narrow screen it has a line of its own.
func TestAPodThatDoesNotStartSaysWhy(t *testing.T) {
	const trouble = "container agent: ErrImagePull: registry.example/agent:3: not found"
	snapshot, plan := scene{time.Second, "aaaroo"}.input()
	for _, i := range []int{0, 2, 3, 4} { // two new pods, and two old ones, of which nothing is waited for
		snapshot.Nodes[i].Pods[0].Trouble = trouble
	}
	model := NewTracker("default/agent").Next(snapshot, plan)
	if w := model.Waits[0]; w.Kind != rollout.WaitAvailable || w.Says != trouble || fmt.Sprint(w.Nodes) != "[node-000 node-002]" {
		t.Errorf("first comes %+v", w)
	}
	for width, want := range map[int]string{ // 0 is no terminal
		0:  "◐ node-000, node-002: the new pod is not available yet: " + trouble + "\n",
		80: "◐ node-000, node-002: the new pod is not available yet\n  " + trouble + "\n",
		40: "◐ node-000, node-002: the new pod is…\n  container agent: ErrImagePull:\n  registry.example/agent:3: not found\n",
		20: "◐ node-000,…\n  container agent:\n  ErrImagePull:\n  registry.example/…\n",
	} {
		options := ScreenOptions{Size: func() Size { return Size{width, 24} }, Whole: width == 0}
		if got := Draw(model, options); !strings.Contains(got, want) || strings.Count(got, "ErrImagePull") != 1 {
			t.Errorf("in %d columns it has no\n%s:\n%s", width, want, got)
		}
	}
	var out bytes.Buffer
	must(t, NewLines(&out, time.Second).Show(model))
	if want := ", node-000, node-002: " + trouble + "\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the line does not end with %q: %q", want, out.String())
	}
}

// A pod whose resources its node does not change is ready, and says why all the same.
func TestAPodThatIsNotResizedSaysWhy(t *testing.T) {
	const trouble = "the node has not changed the resources: Deferred: no room"
	for phase, want := range map[rollout.InPlace]string{rollout.InPlacePatched: trouble, rollout.InPlaceNone: ""} {
		n := rollout.Node{Pods: []rollout.Pod{{Ready: true, InPlace: phase, Trouble: trouble}}}
		if _, says := Reason(&rollout.Snapshot{}, &n, rollout.WaitInPlace); says != want {
			t.Errorf("%s: %q, want %q", phase, says, want)
		}
	}
}

func TestFramesOfManyNodes(t *testing.T) {
	letters := strings.Repeat("u", 1400) + "x" + strings.Repeat("u", 99) + strings.Repeat("a", 20) + strings.Repeat("o", 1480)
	var out bytes.Buffer
	must(t, screenOf(&out, 80, 16, ScreenOptions{}).Show(NewTracker("default/agent").Next(scene{time.Second, letters}.input())))
	golden(t, "screen-many.txt", out.String())
}

// The lines about a rollout policy come before the legend, and on a small terminal before everything but the nodes.
func TestThePolicyIsShown(t *testing.T) {
	model := NewTracker("default/agent").Next(scene{time.Second, "uuuaoooo"}.input())
	model.Policy = []string{"rolloutpolicy/agents: Rolling, wave tenth (2 of 3): 0 of 1 nodes updated and available", "waves: canary 3/3 Passed, tenth 0/1 Rolling, rest 0/4 Pending"}
	for _, height := range []int{3, 5, 24} {
		var out bytes.Buffer
		must(t, screenOf(&out, 100, height, ScreenOptions{}).Show(model))
		golden(t, fmt.Sprintf("screen-policy-%d.txt", height), out.String())
	}
	var out bytes.Buffer
	must(t, NewLines(&out, time.Second).Show(model))
	if want := ", " + model.Policy[0] + "\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("the line does not end with %q: %q", want, out.String())
	}
}

func TestLinesOfARoll(t *testing.T) {
	var out bytes.Buffer
	lines, tracker := NewLines(&out, time.Second), NewTracker("default/agent")
	for i, s := range story() {
		if i == 5 {
			must(t, lines.Say("nodes 11 and 12 are cut"))
		}
		must(t, lines.Show(tracker.Next(s.input())))
	}
	must(t, lines.Close())
	golden(t, "lines.txt", out.String())
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("control character %q in a plain line", r)
		}
	}
}

func TestLinesHoldBackAndThenShowTheNewest(t *testing.T) {
	var out bytes.Buffer
	lines, tracker := NewLines(&out, time.Second), NewTracker("default/agent")
	for _, s := range []scene{{0, "oo"}, {100 * time.Millisecond, "to"}, {200 * time.Millisecond, "ao"}} {
		must(t, lines.Show(tracker.Next(s.input())))
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Fatalf("%d lines within 200 ms, want 1:\n%s", n, out.String())
	}
	must(t, lines.Close())
	if !strings.Contains(out.String(), "1/2 updated") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("Close has to show the newest numbers, once:\n%s", out.String())
	}
}

func TestTextFromTheClusterCannotSteerTheTerminal(t *testing.T) {
	snapshot, plan := scene{time.Second, "b"}.input()
	snapshot.Nodes[0].Blocked = "evil\x1b[2J\u009bmessage\r\n"
	model := NewTracker("default/\x1b]0;agent\a").Next(snapshot, plan)
	var plainOut, screenOut bytes.Buffer
	must(t, NewLines(&plainOut, time.Second).Show(model))
	must(t, screenOf(&screenOut, 100, 24, ScreenOptions{}).Show(model))
	all := strings.NewReplacer(eraseRest, "", eraseBelow, "").Replace(plainOut.String() + screenOut.String())
	if i := strings.IndexAny(all, "\x1b\u009b\a\r"); i >= 0 {
		t.Errorf("control character in %q", all)
	}
	if !strings.Contains(all, "evil[2Jmessage") {
		t.Errorf("the message is missing in %q", all)
	}
}

func TestModelCounts(t *testing.T) {
	model := NewTracker("default/agent").Next(scene{12 * time.Second, "uuoxxtban"}.input())
	if model.Aside != 1 || len(model.Cells) != 8 || model.Done != 2 {
		t.Errorf("aside %d, cells %d, done %d", model.Aside, len(model.Cells), model.Done)
	}
	if got := fmt.Sprint(model.Revisions); got != "[{6b8f7d4c9 1} {7c9d5f6b8 3}]" {
		t.Errorf("revisions %s", got)
	}
	var kinds []rollout.VerdictKind
	for _, w := range model.Waits {
		kinds = append(kinds, w.Kind)
	}
	want := []rollout.VerdictKind{rollout.Blocked, rollout.WaitTerminating, rollout.WaitAvailable, rollout.WaitTerminating, rollout.WaitBudget}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("waits in the order %v, want %v", kinds, want)
	}
	if away := model.Waits[1]; away.NotReady != 12*time.Second || fmt.Sprint(away.Nodes) != "[node-003 node-004]" {
		t.Errorf("the nodes that are not ready: %+v", away)
	}
}

func TestModelOfAPlanThatDoesNotMatch(t *testing.T) {
	snapshot, plan := scene{0, "uuu"}.input()
	plan.Verdicts = plan.Verdicts[:1]
	snapshot.Set.Update = 7
	model := New(Input{Snapshot: snapshot, Plan: plan})
	if model.Target != unknownRevision || model.Cells[2].Kind != rollout.NotEvaluated {
		t.Errorf("target %q, third cell %v", model.Target, model.Cells[2])
	}
}

func TestEveryVerdictHasAPlace(t *testing.T) {
	aside := map[rollout.VerdictKind]bool{rollout.NotEvaluated: true, rollout.NotWanted: true, rollout.Stays: true}
	for _, kind := range rollout.VerdictKinds() {
		if got := kind.Group() == rollout.GroupIdle; got != aside[kind] {
			t.Errorf("verdict %v is in group %d", kind, kind.Group())
		}
	}
	for _, g := range []glyphs{unicodeGlyphs(), asciiGlyphs()} {
		seen := map[rune]bool{g.notReady: true}
		for group, char := range g.group {
			if char == 0 || seen[char] {
				t.Errorf("group %d has no character of its own", group)
			}
			seen[char] = true
		}
	}
}

func TestOpenWritesLinesWhereThereIsNoTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer file.Close()
	for _, v := range []View{
		Open(&bytes.Buffer{}, func(string) string { return "" }),
		Open(file, func(string) string { return "" }),
	} {
		if _, ok := v.(*Lines); !ok {
			t.Errorf("got a %T", v)
		}
	}
}

func TestLocale(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, true},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "en_GB.UTF-8"}, true},
		{map[string]string{"LC_ALL": "C.utf8", "LANG": "C"}, true},
		{map[string]string{"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}, false},
	} {
		if got := supportsUTF8(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0s", 400 * time.Millisecond: "0.4s", 949 * time.Millisecond: "0.9s", 950 * time.Millisecond: "1s",
		59400 * time.Millisecond: "59s", 59600 * time.Millisecond: "1m00s", 65 * time.Second: "1m05s",
		2*time.Hour + 3*time.Minute: "2h03m", -time.Second: "-1s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each node is counted once, with the character that it is drawn with.
func TestLegendCountsEachNodeOnce(t *testing.T) {
	s, p := moment(rollout.UpToDate, rollout.UpToDate, rollout.WaitBudget, rollout.WaitTerminating, rollout.WaitTerminating)
	s.Nodes[1].Ready, s.Nodes[3].Ready = false, false
	var said []string
	for _, entry := range legend(New(Input{Snapshot: s, Plan: p}), asciiGlyphs()) {
		said = append(said, entry.text)
	}
	if got := strings.Join(said, ", "); got != "# up-to-date 1, - wait-terminating 1, . wait-budget 1, x node not ready 2" {
		t.Errorf("got %s", got)
	}
}
