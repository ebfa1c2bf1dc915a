// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

var (
	seeds  = flag.Int("seeds", 1000, "how many seeds TestSim plays")
	from   = flag.Uint64("from", 1, "the first seed")
	update = flag.Bool("update", false, "write the stories of the scripts, and the invariants of docs/reliability.md, anew")
	count  = flag.Bool("count", false, "count what breaks instead of ending with the first broken run")
	quick  = flag.Bool("quick", false, "tell the first broken run as it is")
	rules  = flag.String("rules", "", "the only invariants that are asked, with commas; all if empty")
	always = flag.String("with", "", "kinds of steps that every run of TestSim has, of faultNames or laterNames, with commas")
	only   = flag.String("dialects", "native,kruise,edge", "the dialects that TestSim plays, with commas")
)

// TestMain lets one goroutine run at a time, so that those of a manager that are started together ask in the same order each time.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.NArg() > 0 { // -count takes no number: with one, the flags after it would be ignored
		_, _ = os.Stderr.WriteString(words("reading the flags: %q is none\n", flag.Arg(0)))
		os.Exit(2)
	}
	if err := checkRules(*rules); err != nil {
		_, _ = os.Stderr.WriteString(words("reading -rules: %v\n", err))
		os.Exit(2)
	}
	for _, name := range strings.Split(*always, ",") {
		if kinds := slices.Concat(faultNames(), laterNames()); name != "" && !slices.Contains(kinds, name) {
			_, _ = os.Stderr.WriteString(words("reading -with: choose from %s\n", strings.Join(kinds, ", ")))
			os.Exit(2)
		}
	}
	runtime.GOMAXPROCS(1)
	klog.SetLogger(logr.Discard())
	m.Run()
}

// stepsOf is how many steps a run has before all is fair.
const stepsOf = 150

// TestSim plays one run for each seed. A run that breaks an invariant is cut short and shown as a story; the story is a script, which
// belongs into testdata once the defect is mended.
func TestSim(t *testing.T) {
	began, reported, total := time.Now(), time.Now(), 0
	broken := map[string][]uint64{}
	for i := range uint64(*seeds) {
		seed := *from + i
		var o *outcome
		inTime(words("seed %d", seed), func() { o = playSeed(t, seed) })
		total += len(o.story)
		if o.broken != nil && *count {
			broken[o.broken.rule] = append(broken[o.broken.rule], seed)
		} else if o.broken != nil {
			if !*quick {
				o = shrink(t, o)
			}
			t.Fatalf("seed %d breaks %s\n%s", seed, o.broken, o.text())
		}
		if time.Since(reported) > 2*time.Second && *seeds > 1000 {
			reported = time.Now()
			_, _ = os.Stderr.WriteString(words("%d seeds, %d steps, %s\n", i+1, total, time.Since(began).Round(time.Second)))
		}
	}
	for _, rule := range sorted(broken) {
		t.Errorf("%s: %d of %d seeds, at first %d", rule, len(broken[rule]), *seeds, broken[rule][:min(10, len(broken[rule]))])
	}
	t.Logf("%d seeds, %d steps, %s", *seeds, total, time.Since(began).Round(time.Millisecond))
}

// playSeed plays the run of a seed.
func playSeed(t *testing.T, seed uint64) *outcome {
	t.Helper()
	cfg, r := configOf(seed)
	return play(t, cfg, chance(r, stepsOf))
}

// configOf is the configuration of a seed, and what chooses the steps of its run.
func configOf(seed uint64) (config, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 1))
	cfg := anyConfig(r, strings.Split(*only, ",")).andLater(seed)
	for _, name := range strings.Split(*always, ",") {
		if name != "" && !cfg.with(name) {
			cfg.faults = append(cfg.faults, name)
		}
	}
	cfg = cfg.alongside()
	if cfg.with("rollouts") {
		cfg.rollout = anyRollout(rand.New(rand.NewPCG(seed, 7)))
	}
	if cfg.undoes() {
		cfg.rollout += anyUndo(rand.New(rand.NewPCG(seed, 9)))
	}
	if cfg.reasons() {
		cfg.rollout += anyReasons(rand.New(rand.NewPCG(seed, 11)))
	}
	if cfg.grouped() {
		cfg.rollout += ",group:" + oneOf(rand.New(rand.NewPCG(seed, 8)), "Node", "Zone", "Cluster")
	}
	if cfg.with("rollouts") && cfg.with("zones") {
		cfg.rollout += anyZones(rand.New(rand.NewPCG(seed, 10)))
	}
	return cfg, r
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
	story, err := parseStory(string(data))
	if err != nil {
		t.Fatal(err)
	}
	var o *outcome
	inTime("story "+filepath.Base(file), func() {
		o = play(t, story.cfg, script(story.steps, false, func(step string) { t.Errorf("%q cannot be done there", step) }))
	})
	if o.broken != nil || t.Failed() {
		t.Fatalf("breaks %v\n%s", o.broken, o.text())
	}
	got := strings.Join(append(story.about, "config "+story.cfg.String()), "\n") + "\n" + strings.Join(o.unfair(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if got != string(data) {
		t.Errorf("the story is now (run with -update to write it down)\n%s", got)
	}
}

// storyOf is a story that was read: what it is about, how it begins, and its steps up to where all is fair, which follows from them.
type storyOf struct {
	about, steps []string
	cfg          config
}

func parseStory(text string) (storyOf, error) {
	var story storyOf
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var err error
		switch {
		case line == "# "+fairBegins:
			return story, nil
		case strings.HasPrefix(line, "##"):
			story.about = append(story.about, line)
		case strings.HasPrefix(line, "#") || line == "":
		case strings.HasPrefix(line, "config "):
			story.cfg, err = parseConfig(strings.TrimPrefix(line, "config "))
		default:
			story.steps = append(story.steps, line)
		}
		if err != nil {
			return story, err
		}
	}
	return story, nil
}

// unfair is the story up to where all is fair.
func (o *outcome) unfair() []string {
	for i, line := range o.story {
		if line == "# "+fairBegins {
			return o.story[:i]
		}
	}
	return o.story
}
