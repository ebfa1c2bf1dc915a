// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// play is a run: a plane, the troupe on it, and what has been broken.
type play struct {
	*troupe
	faults map[kind]int
	// deaths are managers that were killed, alone those of them that led while nothing else was broken that a successor needs.
	deaths, alone []observe.Death
	outages       []time.Time
	samples       []sample
}

func newPlay(t *testing.T, nodes int) *play {
	t.Helper()
	return &play{troupe: newTroupe(t, plane(t, nodes, 2), nodes, usual()), faults: map[kind]int{}}
}

// suffer plays one fault from its beginning to its end. Until then, and meanwhile where that is possible, users are at work.
func (p *play) suffer(f fault) {
	p.t.Helper()
	p.random = rand.New(rand.NewPCG(f.seed, 2))
	p.busy(f.after)
	p.t.Logf("%s: %s", time.Now().Format("15:04:05"), f.kind)
	p.faults[f.kind]++
	switch f.kind {
	case killLeader:
		p.replaceLeader(f)
	case killStandby:
		dead := other(p.leader())
		p.kill(dead)
		p.busy(f.hold)
		p.Cluster.StartComponent(p.t, dead)
	case killAPIServer:
		p.restart(apiServer, f.hold)
	case killEtcd:
		p.restart(etcd, f.hold)
	case cutNodes:
		heal := p.cut(f)
		p.busy(f.hold + grace)
		heal()
	case cutAndKill:
		heal := p.cut(f)
		p.busy(f.hold)
		p.replaceLeader(f)
		heal()
	case killServerLeader:
		dead := p.leader()
		p.kill(dead)
		p.restart(apiServer, f.hold)
		p.Cluster.StartComponent(p.t, dead)
		p.leader()
	}
}

// restart kills a component without which there is no API, and starts it again.
func (p *play) restart(component string, hold time.Duration) {
	p.t.Helper()
	p.Cluster.Kill(p.t, component)
	p.outages = append(p.outages, time.Now())
	<-time.After(hold) // nobody can do anything now
	p.Cluster.StartComponent(p.t, component)
}

// kill kills a manager.
func (p *play) kill(manager string) {
	p.t.Helper()
	p.Cluster.Kill(p.t, manager)
	p.deaths = append(p.deaths, observe.Death{Manager: manager, At: time.Now()})
}

// replaceLeader kills the leader in the middle of a roll, and starts it again when the other one leads.
func (p *play) replaceLeader(f fault) {
	p.t.Helper()
	dead := p.leader()
	plain := p.members[0]
	created := p.ledger.Created()
	p.show(plain, 1+plain.image%images)
	p.Poll("a roll has begun", func() error { return more(p.ledger, created) })
	p.kill(dead)
	p.alone = append(p.alone, p.deaths[len(p.deaths)-1])
	p.Poll("the other manager leads", func() error { return leads(p.Cluster, other(dead)) })
	p.busy(f.hold)
	p.Cluster.StartComponent(p.t, dead)
}

// more is nil once more pods have been created than before.
func more(ledger *observe.Ledger, before int) error {
	if ledger.Created() == before {
		return errors.New("no pod was created")
	}
	return nil
}

// leader is the manager that leads, once there is one.
func (p *play) leader() string {
	p.t.Helper()
	var found string
	p.Poll("a manager leads", func() error {
		var errs []error
		for _, name := range []string{firstManager, secondManager} {
			err := leads(p.Cluster, name)
			if err == nil {
				found = name
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return found
}

func other(manager string) string {
	if manager == firstManager {
		return secondManager
	}
	return firstManager
}

// leads is nil if a manager says that it leads.
func leads(c *harness.Cluster, manager string) error {
	s, err := measure(c, manager)
	if err == nil && !s.Leads {
		return fmt.Errorf("%s does not lead", manager)
	}
	return err
}

// cut cuts nodes, and returns what heals them.
func (p *play) cut(f fault) (heal func()) {
	p.t.Helper()
	var away []string
	for _, i := range p.random.Perm(len(p.Nodes))[:max(1, len(p.Nodes)*f.nodes/100)] {
		away = append(away, p.Nodes[i])
	}
	for _, node := range away {
		p.CutNode(node)
	}
	return func() {
		for _, node := range away {
			p.HealNode(node)
		}
	}
}
