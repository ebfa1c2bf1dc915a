// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	seeds  = flag.Int("seeds", 1000, "how many seeds TestSim plays")
	from   = flag.Uint64("from", 1, "the first seed")
	update = flag.Bool("update", false, "write the stories of the scripts anew")
	count  = flag.Bool("count", false, "count what breaks instead of ending with the first broken run")
	quick  = flag.Bool("quick", false, "tell the first broken run as it is")
	only   = flag.String("dialects", "native,kruise,edge", "the dialects that TestSim plays, with commas")
)

// TestMain lets one goroutine run at a time, so that those of a manager that are started together ask in the same order each time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	m.Run()
}

// stepsOf is how many steps a run has before all is fair.
const stepsOf = 150

// TestSim plays one run for each seed. A run that breaks an invariant is cut short and told as a story; the story is a script, which
// belongs into testdata once the defect is mended.
func TestSim(t *testing.T) {
	began, told, total := time.Now(), time.Now(), 0
	broken := map[string][]uint64{}
	for i := range uint64(*seeds) {
		seed := *from + i
		r := rand.New(rand.NewPCG(seed, 1))
		o := play(t, anyConfig(r, strings.Split(*only, ",")), chance(r, stepsOf))
		total += len(o.story)
		if o.broken != nil && *count {
			broken[o.broken.rule] = append(broken[o.broken.rule], seed)
		} else if o.broken != nil {
			if !*quick {
				o = shrink(t, o)
			}
			t.Fatalf("seed %d breaks %s\n%s", seed, o.broken, o.text())
		}
		if time.Since(told) > 2*time.Second && *seeds > 1000 {
			told = time.Now()
			_, _ = os.Stderr.WriteString(words("%d seeds, %d steps, %s\n", i+1, total, time.Since(began).Round(time.Second)))
		}
	}
	for _, rule := range sorted(broken) {
		t.Errorf("%s: %d of %d seeds, at first %d", rule, len(broken[rule]), *seeds, broken[rule][:min(10, len(broken[rule]))])
	}
	t.Logf("%d seeds, %d steps, %s", *seeds, total, time.Since(began).Round(time.Millisecond))
}

// TestScripts plays the scripts of testdata; -update writes their stories anew.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { playScript(t, file) })
	}
}

func playScript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cfg config
	var about, steps []string
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		switch {
		case strings.HasPrefix(line, "##"):
			about = append(about, line)
		case strings.HasPrefix(line, "#") || line == "":
		case strings.HasPrefix(line, "config "):
			if cfg, err = parseConfig(strings.TrimPrefix(line, "config ")); err != nil {
				t.Fatal(err)
			}
		default:
			steps = append(steps, line)
		}
	}
	o := play(t, cfg, script(steps, false, func(step string) { t.Errorf("%q cannot be done there", step) }))
	if o.broken != nil || t.Failed() {
		t.Fatalf("breaks %v\n%s", o.broken, o.text())
	}
	got := strings.Join(append(about, "config "+cfg.String()), "\n") + "\n" + strings.Join(o.told(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if got != string(data) {
		t.Errorf("the story is now (run with -update to write it down)\n%s", got)
	}
}

// told is the story up to where all is fair.
func (o *outcome) told() []string {
	for i, line := range o.story {
		if line == "# from here on all is fair" {
			return o.story[:i]
		}
	}
	return o.story
}
