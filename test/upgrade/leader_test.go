// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// TestTwoManagers: managers of both versions run at once, one of which leads. It is killed in the middle of a roll, and the other one ends that.
func TestTwoManagers(t *testing.T) {
	for _, k := range []kind{native(), advanced(), yurt()} {
		t.Run(k.name, func(t *testing.T) {
			p := begin(t)
			s := p.Space(t, allNodes)
			k.run(s)
			p.install(p.this)
			p.follow(s, k, handOver{leader: first, heir: second, version: p.this, image: harness.Image2})
			p.follow(s, k, handOver{leader: second, heir: first, version: p.earlier, image: harness.Image3})
		})
	}
}

// handOver is from the manager that leads to one of a version, in the middle of a roll to an image.
type handOver struct {
	leader, heir string
	version      version
	image        string
}

// follow has the heir started beside the leader, and the leader killed in the middle of a roll. The leader stays down.
func (s *site) follow(space *harness.Space, k kind, h handOver) {
	s.t.Helper()
	s.start(h.heir, h.version)
	recorder := k.observe(space)
	s.leads(space, k, recorder)
	generation := k.begin(s.t, space, h.image)
	s.Kill(s.t, h.leader)
	midRoll(s.t, space, h.image)
	k.end(s.t, space, recorder, generation, h.image)
	s.t.Logf("%s of %s has ended the roll", h.heir, h.version.name)
}

// leads has whoever leads look at the set beside a manager that does not lead, and does nothing to pods then.
func (s *site) leads(space *harness.Space, k kind, recorder *observe.Recorder) {
	s.t.Helper()
	events := recorder.PodEvents()
	generation := k.patch(space, "/spec/revisionHistoryLimit", "7")
	space.Wait("the leader has looked at the set", harness.RolledOut(set, generation, allNodes))
	if now := recorder.PodEvents(); now != events {
		s.t.Errorf("%d events of pods have happened where nothing was to be done", now-events)
	}
}
