// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/everynode"
	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/api/kruise/v1beta1"
	"everynode.dev/everynode/internal/features"
	"everynode.dev/everynode/test/report"
)

var docs = flag.String("docs", "", "measure at full size, and write what comes out into the documents of this directory")

// measurement is what is rolled, and everything that is said of it.
type measurement struct {
	Nodes int     `json:"nodes"`
	Cores int     `json:"cores"`
	Pull  float64 `json:"pullSeconds"`
	// Unavailable is the budget of the roll.
	Unavailable string `json:"maxUnavailable"`
	// Parallelism is how many nodes pull ahead at once.
	Parallelism int    `json:"parallelism"`
	Rolls       []roll `json:"rolls"`
}

// roll is one roll. Its times are in seconds since it was ordered.
type roll struct {
	Kind     string    `json:"kind"`
	Images   way       `json:"images"`
	Whole    float64   `json:"wholeRoll"`
	AllThere float64   `json:"allImagesThere"`
	Nodes    []nodeGap `json:"nodes"`

	jobs map[string]bool // those that pulled ahead, and whether the set owned them
}

// way is how the images come to the nodes.
type way string

const (
	asNeeded way = "pulled when needed"
	ahead    way = "pulled ahead"
	awaited  way = "pulled ahead and waited for"
)

// kind is a kind of daemon set that is measured.
type kind struct{ title, apiVersion, name string }

func kinds() []kind {
	return []kind{{"Advanced DaemonSet", "apps.kruise.io/v1beta1", "advanced"}, {"DaemonSet of apps/v1", "apps/v1", "native"}}
}

// TestMeasure rolls a set of each kind over simulated nodes, without pulling its images ahead and with that, and measures from outside
// for how long each node has no ready pod. Without -docs it is a small one, and only what can be counted is judged.
func TestMeasure(t *testing.T) {
	m := &measurement{Nodes: 20, Pull: 1, Unavailable: "25%", Parallelism: 10, Cores: runtime.NumCPU()}
	if *docs != "" {
		m.Nodes, m.Pull, m.Unavailable, m.Parallelism = 100, 5, "10%", 30
	}
	gate := func(on bool) string {
		return fmt.Sprintf("--feature-gates=%s=%t", features.PreDownloadImageForDaemonSetUpdate, on)
	}
	t.Run("without", func(t *testing.T) { m.measure(t, gate(false), asNeeded) })
	t.Run("with", func(t *testing.T) { m.measure(t, gate(true), ahead, awaited) })
	if t.Failed() {
		return
	}
	slices.SortStableFunc(m.Rolls, func(a, b roll) int { return cmp.Compare(a.Kind, b.Kind) })
	t.Logf("seconds without a ready pod:\n%s", m.table().Markdown())
	for _, r := range m.Rolls {
		if err := r.judge(m.Nodes); err != nil {
			t.Errorf("%s, %s: %v", r.Kind, r.Images, err)
		}
	}
	if *docs == "" {
		return
	}
	if err := m.judgeGain(); err != nil {
		t.Error(err)
	}
	if err := m.write(*docs); err != nil {
		t.Error(err)
	}
}

// measure rolls a set of each kind in each of these ways on a plane of its own.
func (m *measurement) measure(t *testing.T, gate string, ways ...way) {
	w := newWorldWith(t, worldOptions{nodes: m.Nodes, pull: time.Duration(m.Pull * float64(time.Second)), manager: []string{gate}})
	for _, k := range kinds() {
		obj := set(k.apiVersion, k.name, k.name+":0")
		edit := func(value any, path ...string) {
			if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
		edit(m.Unavailable, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
		edit(fmt.Sprint(m.Parallelism), "metadata", "annotations", kruise.PredownloadParallelism)
		w.begin(m, obj)
		for i, way := range ways {
			r := w.roll(m, obj, fmt.Sprint(i+1), way)
			r.Kind, r.Images = k.title, way
			m.Rolls = append(m.Rolls, r)
		}
		if err := w.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// begin creates a set and waits for its first pods.
func (w *world) begin(m *measurement, obj *unstructured.Unstructured) {
	w.t.Helper()
	g := newGaps(obj.GetName(), "0", m.Nodes)
	defer w.watchGaps(g, obj.GetName())()
	if err := w.Create(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
	w.wait(g, "the first pods")
}

// roll gives the set the image of another tag, and waits until all nodes have it.
func (w *world) roll(m *measurement, obj *unstructured.Unstructured, tag string, how way) roll {
	w.t.Helper()
	g := newGaps(obj.GetName(), tag, m.Nodes)
	defer w.watchGaps(g, obj.GetName())()
	jobs := map[string]bool{} // whether the set owns it, by name
	stop := w.follow(&v1beta1.ImagePullJobList{}, func(e watch.Event) {
		job := e.Object.(*v1beta1.ImagePullJob)
		jobs[job.Name] = metav1.IsControlledBy(job, obj)
	})
	defer stop()
	ordered := time.Now()
	w.patch(obj, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%t"}},"spec":{"template":{"spec":{"containers":[{"name":"main","image":"%s:%s"}]}}}}`,
		everynode.WaitForImage, how == awaited, obj.GetName(), tag))
	w.wait(g, "the roll")
	whole := time.Since(ordered)
	nodes, err := g.measured(ordered)
	if err != nil {
		w.t.Fatal(err)
	}
	await(w.t, w, &v1beta1.ImagePullJobList{}, "the jobs to go after the roll", func(l *v1beta1.ImagePullJobList) bool { return len(l.Items) == 0 })
	stop()
	r := roll{Whole: whole.Round(time.Millisecond).Seconds(), Nodes: nodes, jobs: jobs}
	for _, n := range nodes {
		r.AllThere = max(r.AllThere, n.There)
	}
	return r
}

func (w *world) wait(g *gaps, what string) {
	w.t.Helper()
	const patience = 5 * time.Minute
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case <-g.finished:
	case <-deadline.C:
		w.t.Fatalf("waited %s in vain for %s of %d nodes: %s", patience, what, g.count, g)
	}
}

// judge counts what must hold however fast the machine is.
func (r roll) judge(nodes int) error {
	var errs []error
	if len(r.Nodes) != nodes {
		errs = append(errs, fmt.Errorf("%d nodes were measured, and there are %d", len(r.Nodes), nodes))
	}
	for _, n := range r.Nodes {
		if n.Times != 1 {
			errs = append(errs, fmt.Errorf("node %s was left without a ready pod %d times", n.Node, n.Times))
		}
	}
	switch had := r.hadImage(); {
	case r.Images == asNeeded && had != 0:
		errs = append(errs, fmt.Errorf("%d nodes had an image that nobody had pulled ahead", had))
	case r.Images == ahead && had < nodes/2, r.Images == awaited && had < nodes:
		errs = append(errs, fmt.Errorf("%d of %d nodes had the image before their old pod went", had, nodes))
	}
	wanted := 1
	if r.Images == asNeeded {
		wanted = 0
	}
	if owned := slices.Collect(maps.Values(r.jobs)); len(owned) != wanted || slices.Contains(owned, false) {
		errs = append(errs, fmt.Errorf("the jobs and whether the set owned them: %v; %d was to be expected", r.jobs, wanted))
	}
	return errors.Join(errs...)
}

func (r roll) hadImage() int {
	had := 0
	for _, n := range r.Nodes {
		if n.Ahead {
			had++
		}
	}
	return had
}

// judgeGain compares the rolls of one run with each other: what was pulled ahead has disappeared from the time without a ready pod.
func (m *measurement) judgeGain() error {
	var errs []error
	without := map[string]time.Duration{}
	for _, r := range m.Rolls {
		median := report.Summarize(r.gaps(anyNode)).Median
		switch {
		case r.Images == asNeeded:
			without[r.Kind] = median
		case median >= without[r.Kind]/2:
			errs = append(errs, fmt.Errorf("%s, %s: the median is %s, and was %s without: less than half was to be expected",
				r.Kind, r.Images, median, without[r.Kind]))
		}
	}
	return errors.Join(errs...)
}

// gaps are the times of those nodes without a ready pod.
func (r roll) gaps(which func(nodeGap) bool) []time.Duration {
	var times []time.Duration
	for _, n := range r.Nodes {
		if which(n) {
			times = append(times, time.Duration(n.Gap*float64(time.Second)))
		}
	}
	return times
}

func anyNode(nodeGap) bool     { return true }
func firstNode(n nodeGap) bool { return n.First }
func laterNode(n nodeGap) bool { return !n.First }
func seconds(s float64) string { return report.Seconds(time.Duration(s * float64(time.Second))) }

func (m *measurement) table() report.Table {
	table := report.Table{Words: 2, Head: []string{
		"set", "images", "there before", "least", "median", "90%", "greatest", "median, first nodes", "median, later nodes", "whole roll", "all images there",
	}}
	for _, r := range m.Rolls {
		all, first, later := report.Summarize(r.gaps(anyNode)), report.Summarize(r.gaps(firstNode)), report.Summarize(r.gaps(laterNode))
		table.Rows = append(table.Rows, []string{
			r.Kind, string(r.Images), fmt.Sprintf("%d of %d", r.hadImage(), len(r.Nodes)),
			report.Seconds(all.Min), report.Seconds(all.Median), report.Seconds(all.P90), report.Seconds(all.Max),
			report.Seconds(first.Median), report.Seconds(later.Median), seconds(r.Whole), seconds(r.AllThere),
		})
	}
	return table
}

func (m *measurement) figure() report.Figure {
	figure := report.Figure{X: "nodes, in the order of their update", Y: "time without a ready pod (s)"}
	for _, k := range kinds() {
		panel := report.Panel{Title: k.title}
		for _, r := range m.Rolls {
			if r.Kind != k.title {
				continue
			}
			series := report.Series{Name: string(r.Images)}
			for i, n := range r.Nodes {
				series.Points = append(series.Points, report.Point{X: float64(i + 1), Y: n.Gap})
			}
			panel.Series = append(panel.Series, series)
		}
		figure.Panels = append(figure.Panels, panel)
	}
	return figure
}

// write puts the plot, all numbers, and the section of image-pulls.md into the documents.
func (m *measurement) write(dir string) error {
	svg, err := m.figure().SVG()
	if err != nil {
		return err
	}
	numbers, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// A line for each roll and each node.
	numbers = bytes.ReplaceAll(bytes.ReplaceAll(numbers, []byte(`{"kind"`), []byte("\n"+`{"kind"`)), []byte(`{"node"`), []byte("\n"+`{"node"`))
	page := filepath.Join(dir, "image-pulls.md")
	document, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	document, err = report.Replace(document, "measured", m.section())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "images"), 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		page: document, filepath.Join(dir, "images", "image-pulls.svg"): svg,
		filepath.Join(dir, "images", "image-pulls.json"): append(numbers, '\n'),
	} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// section is what image-pulls.md says of it.
func (m *measurement) section() string {
	return fmt.Sprintf(`%d simulated nodes, pulls of %g s (up to a fifth more or less), maxUnavailable %s, %d nodes pull ahead at once; on %d cores.
All times are in seconds.

%s
![Time without a ready pod, for each node](images/image-pulls.svg)
`, m.Nodes, m.Pull, m.Unavailable, m.Parallelism, m.Cores, m.table().Markdown())
}

// TestJudge: what a measurement is refused for, with rolls that are written here.
func TestJudge(t *testing.T) {
	const nodes = 4
	made := func(images way, gap float64, had int, jobs map[string]bool) roll {
		r := roll{Kind: "set", Images: images, jobs: jobs}
		for i := range nodes {
			r.Nodes = append(r.Nodes, nodeGap{Node: fmt.Sprint(i), Gap: gap, Ahead: i < had, Times: 1})
		}
		return r
	}
	owned := map[string]bool{"job": true}
	flapping, lacking := made(asNeeded, 7, 0, nil), made(asNeeded, 7, 0, nil)
	flapping.Nodes[1].Times, lacking.Nodes = 2, lacking.Nodes[1:]
	for name, c := range map[string]struct {
		roll    roll
		refused bool
	}{
		"as needed":                  {made(asNeeded, 7, 0, nil), false},
		"ahead":                      {made(ahead, 2, 2, owned), false},
		"awaited":                    {made(awaited, 2, 4, owned), false},
		"a node twice without":       {flapping, true},
		"a node is lacking":          {lacking, true},
		"ahead though not asked":     {made(asNeeded, 7, 1, nil), true},
		"a job that nobody asked":    {made(asNeeded, 7, 0, owned), true},
		"few ahead":                  {made(ahead, 2, 1, owned), true},
		"one not awaited":            {made(awaited, 2, 3, owned), true},
		"no job":                     {made(ahead, 2, 4, nil), true},
		"a job of somebody else":     {made(ahead, 2, 4, map[string]bool{"job": false}), true},
		"two jobs for one container": {made(ahead, 2, 4, map[string]bool{"job": true, "other": true}), true},
	} {
		if err := c.roll.judge(nodes); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	for gap, refused := range map[float64]bool{3.4: false, 3.5: true, 9: true} {
		m := &measurement{Rolls: []roll{made(asNeeded, 7, 0, nil), made(ahead, gap, 4, owned)}}
		if err := m.judgeGain(); (err != nil) != refused {
			t.Errorf("a median of %g s, and 7 s without: %v", gap, err)
		}
	}
}
