// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// ruled plays runs that break a rule which exists only here: after the steps n1 is tainted and v2 the image; or, if they are fair, n1 has v2 in the end.
func ruled(fair bool) player {
	return func(t *testing.T, cfg config, pick picker) *outcome {
		return playTo(t, cfg, pick, func(s *sim, _ []op) bool {
			if fair {
				s.note(fairBegins)
				s.settle()
			}
			n, has := s.w.node("n1"), func(p *corev1.Pod) bool { return imageOf(p) == "v2" }
			if n != nil && (fair && slices.ContainsFunc(s.podsOn("n1"), has) || !fair && len(n.Spec.Taints) > 0 && imageOfSet(s.w.set()) == "v2") {
				s.broken = &breach{"no-v2", "n1 is"}
			}
			return false
		})
	}
}

// TestShrink: a run that breaks a rule is cut to what it needs for that, and its story can be played again.
func TestShrink(t *testing.T) {
	for name, c := range map[string]struct {
		fair  bool
		steps int
	}{
		"in the middle": {false, 2}, // the taint and the edit
		"in the end":    {true, 1},  // the edit
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config{dialect: nativeRun, nodes: 3, unavailable: "1", surge: "0", faults: []string{"nodes", "users"}}
			first := firstBroken(t, cfg, ruled(c.fair))
			o := shrink(t, first)
			if o.broken == nil || o.broken.rule != "no-v2" || len(o.steps) != c.steps || o.cfg.nodes != 1 {
				t.Fatalf("%d steps are left, breaking %v\n%s", len(o.steps), o.broken, o.text())
			}
			for i := range o.steps {
				if o.again(t, o.cfg, slices.Delete(slices.Clone(o.steps), i, i+1)) != nil {
					t.Errorf("it needs no %q\n%s", o.steps[i], o.text())
				}
			}
			told, err := parseStory(o.text())
			if err != nil {
				t.Fatal(err)
			}
			follow := script(told.steps, false, func(step string) { t.Errorf("%q cannot be done there", step) })
			if again := o.play(t, told.cfg, follow); again.broken == nil || again.text() != o.text() {
				t.Errorf("the story\n%s\nis the next time\n%s", o.text(), again.text())
			}
		})
	}
}

// firstBroken is the run of the first seed that breaks a rule.
func firstBroken(t *testing.T, cfg config, play player) *outcome {
	t.Helper()
	for seed := range uint64(50) {
		if o := play(t, cfg, chance(rand.New(rand.NewPCG(seed, 6)), stepsOf)); o.broken != nil {
			o.play = play
			return o
		}
	}
	t.Fatal("no seed breaks it")
	return nil
}
