// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/localplane/testapp"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/report"
)

var docs = flag.String("docs", "", "measure at full size, and write what comes out into the documents of this directory")

// way is how a node comes to its new version.
type way struct {
	title string
	kind  kind
	// ahead is whether the image is there before the roll.
	ahead bool
	edits []harness.Edit
}

func ways() []way {
	return []way{
		{title: "recreated", kind: advancedRecreate()},
		{title: "recreated, image pulled ahead", kind: advancedRecreate(), ahead: true},
		{title: "in place", kind: advancedInPlace()},
		{title: "in place, image pulled ahead", kind: advancedInPlace(), ahead: true},
		{title: surging, kind: nativeSurge(), edits: []harness.Edit{withoutLock, stopsAfter(3 * time.Second)}},
	}
}

// surging is the way in which no question may be without an answer.
const surging = "replaced with `maxSurge`"

// measured is what came out for one way.
type measured struct {
	way way
	// gaps are the times without an answer, and pauses those in which the application did not run, one of each node in each roll.
	gaps, pauses []time.Duration
	// failed is how many questions were not answered.
	failed int
	// fetched is how many parts of images the nodes have fetched during the rolls.
	fetched int
}

// TestMeasure rolls an Advanced DaemonSet in each way, and measures for how long a client on each node gets no answer. Without -docs it
// does so once, and only what can be counted is judged.
func TestMeasure(t *testing.T) {
	m := measurement{latency: time.Second, rolls: 1, cores: runtime.NumCPU()}
	if *docs != "" {
		m.rolls = 5
	}
	for _, w := range ways() {
		t.Run(w.title, func(t *testing.T) { m.measure(t, w) })
	}
	if t.Failed() || len(m.results) == 0 {
		return
	}
	t.Logf("in seconds:\n%s", m.table().Markdown())
	if err := m.judge(); err != nil {
		t.Error(err)
	}
	if *docs == "" {
		return
	}
	if err := errors.Join(m.judgeGain(), m.write(*docs)); err != nil {
		t.Error(err)
	}
}

// measurement is everything that is said of it.
type measurement struct {
	latency      time.Duration
	rolls, cores int
	results      []measured
}

func (m *measurement) measure(t *testing.T, w way) {
	// Nothing is pulled ahead but by the job of this test.
	w.kind.annotations = map[string]string{kruise.PredownloadMinUpdatedReady: "100%"}
	s := newStage(t, w.kind)
	s.run(w.edits...)
	url := s.service(corev1.ServiceInternalTrafficPolicyLocal)
	s.slowRegistry(m.latency)
	result := measured{way: w}
	for i := range m.rolls {
		version := fmt.Sprintf("%s-%d", s.Name, i)
		image := s.push(version)
		if w.ahead {
			s.pullAhead(image)
		}
		asked := len(s.requests())
		clients := s.probes(url)
		s.roll(image)
		for _, client := range clients {
			s.answers(client, version)
			answers := client.stop()
			result.gaps = append(result.gaps, longestGap(answers))
			result.failed += unanswered(answers)
			if w.title == surging { // one always runs
				result.pauses = append(result.pauses, 0)
				continue
			}
			pause, err := lastPause(s.journal(client.node))
			if err != nil {
				t.Errorf("the journal of node %s: %v", client.node, err)
			}
			result.pauses = append(result.pauses, pause)
		}
		for _, r := range s.requests()[asked:] {
			if r.content() {
				result.fetched++
			}
		}
	}
	m.results = append(m.results, result)
}

// unanswered is how many questions were not answered.
func unanswered(answers []testapp.Answer) (n int) {
	for _, answer := range answers {
		if !answer.OK {
			n++
		}
	}
	return n
}

// lastPause is the time between the end of the last run but one and the begin of the last.
func lastPause(events []testapp.Event) (time.Duration, error) {
	if len(events) < 2 || events[len(events)-2].Event != testapp.Stopped || events[len(events)-1].Event != testapp.Started {
		return 0, fmt.Errorf("it does not end with a run after another:\n%s", list(events))
	}
	return events[len(events)-1].Time.Sub(events[len(events)-2].Time), nil
}

// judge counts what must hold however fast the machine is.
func (m *measurement) judge() error {
	var errs []error
	for _, r := range m.results {
		if want := m.rolls * count; len(r.gaps) != want {
			errs = append(errs, fmt.Errorf("%s: %d times were measured, want %d", r.way.title, len(r.gaps), want))
		}
		if r.way.ahead && r.fetched > 0 {
			errs = append(errs, fmt.Errorf("%s: %d parts of images were fetched during the rolls", r.way.title, r.fetched))
		}
		if r.way.title == surging && r.failed > 0 {
			errs = append(errs, fmt.Errorf("%s: %d questions were not answered", r.way.title, r.failed))
		}
		if !r.way.ahead && r.fetched < m.rolls*count {
			errs = append(errs, fmt.Errorf("%s: only %d parts of images were fetched during the rolls", r.way.title, r.fetched))
		}
	}
	return errors.Join(errs...)
}

// judgeGain compares the ways with each other: an image that has to be fetched first costs what the registry takes, at least.
func (m *measurement) judgeGain() error {
	var errs []error
	for i := 0; i+1 < len(m.results) && m.results[i+1].way.ahead; i += 2 {
		without, with := report.Summarize(m.results[i].gaps).Median, report.Summarize(m.results[i+1].gaps).Median
		if without < with+m.latency {
			errs = append(errs, fmt.Errorf("%s: the median is %s, and %s with the image pulled ahead: at least %s less was to be expected",
				m.results[i].way.title, without, with, m.latency))
		}
	}
	return errors.Join(errs...)
}

func (m *measurement) table() report.Table {
	table := report.Table{Words: 1, Head: []string{
		"a node is", "nodes measured", "not running, median", "greatest", "no answer, least", "median", "90%", "greatest", "questions without an answer",
	}}
	for _, r := range m.results {
		pauses, gaps := report.Summarize(r.pauses), report.Summarize(r.gaps)
		table.Rows = append(table.Rows, []string{
			r.way.title, fmt.Sprint(gaps.Count), report.Seconds(pauses.Median), report.Seconds(pauses.Max),
			report.Seconds(gaps.Min), report.Seconds(gaps.Median), report.Seconds(gaps.P90), report.Seconds(gaps.Max),
			fmt.Sprint(r.failed),
		})
	}
	return table
}

// figure shows the times without an answer of each way, from the shortest to the longest.
func (m *measurement) figure() report.Figure {
	figure := report.Figure{X: "nodes, in the order of their times", Y: "time without an answer (s)", Joined: true}
	panel := report.Panel{Title: fmt.Sprintf("a client behind a Service, 20 questions a second, %d nodes, %d rolls", count, m.rolls)}
	for _, r := range m.results {
		series := report.Series{Name: strings.ReplaceAll(r.way.title, "`", "")}
		for i, gap := range slices.Sorted(slices.Values(r.gaps)) {
			series.Points = append(series.Points, report.Point{X: float64(i + 1), Y: gap.Seconds()})
		}
		panel.Series = append(panel.Series, series)
	}
	figure.Panels = []report.Panel{panel}
	return figure
}

// write puts the plot and the section into the documents.
func (m *measurement) write(dir string) error {
	svg, err := m.figure().SVG()
	if err != nil {
		return err
	}
	page := filepath.Join(dir, "real-nodes.md")
	document, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`%d real nodes, %d rolls of each kind, one node at a time; the registry takes %s for each part of an image; on %d cores.
In seconds, the time in which the application did not run, and the time in which a client got no answer:

%s
![The longest time without an answer, for each node and roll](images/real-nodes.svg)
`, count, m.rolls, m.latency, m.cores, m.table().Markdown())
	if document, err = report.Replace(document, "measured", text); err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return errors.Join(os.WriteFile(page, document, 0o644), os.WriteFile(filepath.Join(dir, "images", "real-nodes.svg"), svg, 0o644))
}

// TestJudgeMeasurement: what a measurement is refused for.
func TestJudgeMeasurement(t *testing.T) {
	made := func(fetched, fetchedAhead int, gap, gapAhead time.Duration) *measurement {
		gaps := func(d time.Duration) []time.Duration { return []time.Duration{d, d, d} }
		return &measurement{latency: time.Second, rolls: 1, results: []measured{
			{way: ways()[0], gaps: gaps(gap), fetched: fetched}, {way: ways()[1], gaps: gaps(gapAhead), fetched: fetchedAhead},
		}}
	}
	surged := made(6, 0, 4*time.Second, time.Second)
	surged.results = append(surged.results, measured{way: ways()[4], gaps: []time.Duration{1, 1, 1}, fetched: 6, failed: 1})
	lacking := made(6, 0, 4*time.Second, time.Second)
	lacking.results[0].gaps = lacking.results[0].gaps[1:]
	for name, c := range map[string]struct {
		m               *measurement
		refused, noGain bool
	}{
		"good":                 {made(6, 0, 4*time.Second, time.Second), false, false},
		"nothing was fetched":  {made(0, 0, 4*time.Second, time.Second), true, false},
		"fetched all the same": {made(6, 1, 4*time.Second, time.Second), true, false},
		"a node is lacking":    {lacking, true, false},
		"a surge with a gap":   {surged, true, false},
		"nothing was gained":   {made(6, 0, 4*time.Second, 3500*time.Millisecond), false, true},
	} {
		if err := c.m.judge(); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.m.judgeGain(); (err != nil) != c.noGain {
			t.Errorf("%s: %v", name, err)
		}
	}
}
