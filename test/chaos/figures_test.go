// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
	"everynode.dev/everynode/test/report"
)

// sample is what a manager says of itself: these are figures, nothing is judged by them but that goroutines do not pile up.
type sample struct {
	When       string
	Manager    string
	Leads      bool
	Started    int64 // when its process began, in Unix seconds
	Age        int   // of its process then, in seconds
	Goroutines int
	Resident   int // bytes
	Heap       int // bytes in use
}

// measure asks a manager.
func measure(c *harness.Cluster, manager string) (sample, error) {
	s := sample{Manager: manager}
	url, err := c.Plane.MetricsURL(manager)
	if err != nil {
		return s, err
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, fmt.Errorf("asking %s for its metrics: %w", manager, err)
	}
	defer answer.Body.Close()
	return s.read(answer.Body)
}

func (s sample) read(text io.Reader) (sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return s, fmt.Errorf("reading the metrics of %s: %w", s.Manager, err)
	}
	value := func(name string) int {
		if metrics := families[name].GetMetric(); len(metrics) > 0 {
			return int(gauge(metrics[0]))
		}
		return 0
	}
	s.Leads, s.Started = value("leader_election_master_status") == 1, int64(value("process_start_time_seconds"))
	s.Goroutines, s.Resident, s.Heap = value("go_goroutines"), value("process_resident_memory_bytes"), value("go_memstats_heap_inuse_bytes")
	if s.Goroutines == 0 || s.Resident == 0 || s.Heap == 0 {
		return s, fmt.Errorf("the metrics of %s lack goroutines or memory: %+v", s.Manager, s)
	}
	return s, nil
}

func gauge(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetUntyped().GetValue() }

// sample takes figures of both managers, at the end of a calm time in which all sets are complete.
func (p *play) sample(when string, calm time.Duration) {
	p.t.Helper()
	began := time.Now()
	p.settle("all updates end: " + when)
	p.t.Logf("%s: all updates have ended after %s", time.Now().Format("15:04:05"), time.Since(began).Round(time.Second))
	<-time.After(calm) // what is left of the last rolls goes
	p.rest(quiet)
	for _, name := range []string{firstManager, secondManager} {
		s, err := measure(p.Cluster, name)
		if err != nil {
			p.t.Fatal(err)
		}
		s.When, s.Age = when, int(time.Now().Unix()-s.Started)
		p.samples = append(p.samples, s)
	}
}

// result is what a run leaves behind.
type result struct {
	Seed    uint64
	Nodes   int
	Seconds int
	Faults  map[kind]int
	Acts    map[string]int
	// Writes are those of the managers; Refused those that were not carried out, by HTTP code.
	Writes  map[string]int
	Refused map[int32]int
	Turns   int
	// Rests is at how many moments the status of each set was counted.
	Rests int
	// Unlogged are the pods that were deleted while the API server died, without a line in its log.
	Unlogged int
	// Gaps are the seconds without a leader that works, after the leader alone was killed.
	Gaps []float64
	Sets []setResult
	// Samples are of calm times.
	Samples []sample
}

// setResult is what was seen of one set.
type setResult struct {
	Name                         string
	Events                       int
	Created, Deleted, Restarted  int
	MostUnavailable, Budget      int // nodes that the manager has made unavailable at once
	MostSurging, MostPodsOnANode int
}

func setResultOf(name string, r observe.Report) setResult {
	return setResult{
		Name: name, Events: r.Judged, Created: len(r.Created), Deleted: len(r.Deleted), Restarted: len(r.Restarted), MostUnavailable: r.MostUnavailable,
		Budget: r.Limit, MostSurging: r.MostSurging, MostPodsOnANode: r.MostPodsOnNode,
	}
}

// markdown is the section of docs/reliability.md.
func (r result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d minutes, %d nodes, five sets, two managers, seed %d: %d faults (%s); users did %d things (%s). ",
		r.Seconds/60, r.Nodes, r.Seed, sum(r.Faults), list(r.Faults), sum(r.Acts), list(r.Acts))
	fmt.Fprintf(&b, "The managers wrote %d times (%s), the leader changed %d times, and every invariant held.\n\n", sum(r.Writes), list(r.Writes), r.Turns)
	fmt.Fprintf(&b, "At rest, %d times, each status matched the cluster.\n\n", r.Rests)
	fmt.Fprintf(&b, "Of all pods that ended, %d did so while the API server died, without a line in its audit log.\n\n", r.Unlogged)
	if len(r.Gaps) > 0 {
		fmt.Fprintf(&b, "From the death of a leader to the first write of the next: %d times, %.1f to %.1f s.\n\n", len(r.Gaps), slices.Min(r.Gaps), slices.Max(r.Gaps))
	}
	sets := report.Table{Words: 1, Head: []string{"set", "events", "pods created", "deleted", "changed in place", "unavailable by the manager, at most", "budget", "surging, at most", "pods on a node, at most"}}
	for _, s := range r.Sets {
		sets.Rows = append(sets.Rows, numbers(s.Name, s.Events, s.Created, s.Deleted, s.Restarted, s.MostUnavailable, s.Budget, s.MostSurging, s.MostPodsOnANode))
	}
	b.WriteString(sets.Markdown() + "\n")
	calm := report.Table{Words: 2, Head: []string{"calm minute", "manager", "age, s", "goroutines", "resident, MiB", "heap in use, MiB"}}
	for _, s := range r.Samples {
		who := s.Manager
		if s.Leads {
			who += " (leads)"
		}
		calm.Rows = append(calm.Rows, append([]string{s.When}, numbers(who, s.Age, s.Goroutines, s.Resident>>20, s.Heap>>20)...))
	}
	b.WriteString(calm.Markdown())
	return b.String()
}

func numbers(name string, values ...int) []string {
	cells := []string{name}
	for _, v := range values {
		cells = append(cells, fmt.Sprint(v))
	}
	return cells
}

func sum[K comparable](counts map[K]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

func list[K ~string](counts map[K]int) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", key, counts[key]))
	}
	return strings.Join(parts, ", ")
}

// write leaves the figures where they are wanted.
func (r result) write() error {
	if *out != "" {
		numbers, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(*out, 0o755); err != nil {
			return err
		}
		for name, content := range map[string][]byte{"chaos.json": append(numbers, '\n'), "chaos.md": []byte(r.markdown())} {
			if err := os.WriteFile(filepath.Join(*out, name), content, 0o644); err != nil {
				return err
			}
		}
	}
	if *docs == "" {
		return nil
	}
	path := filepath.Join(*docs, "reliability.md")
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	document, err = report.Replace(document, "chaos", r.markdown())
	if err != nil {
		return fmt.Errorf("writing the figures into %s: %w", path, err)
	}
	return os.WriteFile(path, document, 0o644)
}

func TestSample(t *testing.T) {
	const text = "# TYPE leader_election_master_status gauge\nleader_election_master_status{name=\"everynode-manager\"} 1\n# TYPE go_goroutines gauge\ngo_goroutines 42\n" +
		"process_resident_memory_bytes 1e+08\ngo_memstats_heap_inuse_bytes 5e+07\nprocess_start_time_seconds 7\n"
	s, err := sample{Manager: "m"}.read(strings.NewReader(text))
	if want := (sample{Manager: "m", Leads: true, Started: 7, Goroutines: 42, Resident: 100000000, Heap: 50000000}); err != nil || s != want {
		t.Errorf("read %+v, %v, want %+v", s, err, want)
	}
	if _, err := (sample{}).read(strings.NewReader("x 1\n")); err == nil {
		t.Error("metrics without figures were read")
	}
}
