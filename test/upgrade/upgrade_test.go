// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"everynode.dev/everynode/test/harness"
)

// TestSmoke is a roll of a DaemonSet of apps/v1 that the next version ends, and one that the version before ends.
func TestSmoke(t *testing.T) {
	p := begin(t)
	rolls(t, p, native())
}

// TestRolls: one version follows the other, and back, while there is nothing to do, and in the middle of rolls.
func TestRolls(t *testing.T) {
	for _, k := range []kind{native(), advanced(), yurt()} {
		t.Run(k.name, func(t *testing.T) {
			p := begin(t)
			t.Run("AtRest", func(t *testing.T) { rests(t, p.in(t), k) })
			t.Run("InMidRoll", func(t *testing.T) { rolls(t, p.in(t), k) })
		})
	}
}

// rests changes versions while there is nothing to do. The site has the earlier version before and after.
func rests(t *testing.T, p *site, k kind) {
	s := p.Space(t, allNodes)
	k.run(s)
	before := history(s.View())
	for i, to := range []version{p.this, p.earlier} {
		recorder := k.observe(s)
		p.upgrade(to)
		k.look(t, s, recorder, 5+i, before)
	}
}

// rolls changes versions in the middle of rolls. The site has the earlier version before and after.
func rolls(t *testing.T, p *site, k kind) {
	s := p.Space(t, allNodes)
	k.run(s)
	for _, step := range []struct {
		to    version
		image string
	}{{p.this, harness.Image2}, {p.earlier, harness.Image3}} {
		recorder := k.observe(s)
		p.install(step.to)
		generation := k.begin(t, s, step.image)
		p.replace(step.to)
		midRoll(t, s, step.image)
		k.end(t, s, recorder, generation, step.image)
	}
}

// in is the site for a subtest.
func (s *site) in(t *testing.T) *site {
	within := *s
	within.t = t
	return &within
}
