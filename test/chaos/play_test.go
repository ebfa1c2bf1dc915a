// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"everynode.dev/everynode/api/everynode"
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
	// collecting are the times at which the garbage collector deletes the pods of sets that are gone.
	collecting []observe.Span
	samples    []sample
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
	case freezeLeader:
		p.freezeLeader(f)
	case deleteLease:
		p.deleteLease()
	default:
		p.neighbour(f)
	}
}

// neighbour plays a fault that others in the cluster bring about.
func (p *play) neighbour(f fault) {
	p.t.Helper()
	act, known := map[kind]func(fault){
		protectNodes: p.protect, refuseCreates: p.refuseCreates, refuseChanges: p.refuseChanges, webhookDown: p.webhookDown, webhookSlow: p.webhookSlow,
		fillQuota: p.fillQuota, runStrangers: p.strangers, changePods: p.changePods, takeLabels: p.takeLabels, finalize: p.finalize,
		dropAdvanced: p.dropAdvanced, dropPolicies: p.dropPolicies,
	}[f.kind]
	if !known {
		p.t.Fatalf("unknown fault %q: add it to this map", f.kind)
	}
	act(f)
}

// freezeLeader stops the leader in the middle of a roll, as a machine that has no time for it does, until the other one has written in its place, and
// for a while longer. When it wakes up, it has decisions in its hands that are not worth anything any more.
func (p *play) freezeLeader(f fault) {
	p.t.Helper()
	frozen := p.leader()
	process := p.process(frozen)
	p.beginRoll()
	p.signal(process, syscall.SIGSTOP)
	p.Poll("the other manager leads", func() error { return leads(p.Cluster, other(frozen)) })
	// What the frozen one had sent has been answered long since, so the next pod that comes is by its successor.
	p.beginRoll()
	p.busy(f.hold)
	p.signal(process, syscall.SIGCONT)
	p.Poll("the manager that was frozen has ended, and begins again", func() error { return p.renewed(frozen, process) })
}

// deleteLease takes the lease away in the middle of a roll, as no user should: the manager that makes it again may be another than the one that still writes.
func (p *play) deleteLease() {
	p.t.Helper()
	p.beginRoll()
	leases := p.Cluster.Client.CoordinationV1().Leases(everynode.Namespace)
	p.Poll("a user can delete the lease", func() error {
		err := leases.Delete(p.Context(), lease, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	p.Poll("a manager makes the lease again", func() error {
		_, err := leases.Get(p.Context(), lease, metav1.GetOptions{})
		return err
	})
	const renewal = 10 * time.Second // that of a leader that has lost its lease is over then
	p.busy(renewal)
	p.leader()
}

// process is the number of the process of a component, 0 while there is none.
func (p *play) process(component string) int {
	p.t.Helper()
	status, err := p.Cluster.Plane.Status(p.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range status.Components {
		if c.Name == component {
			return c.PID
		}
	}
	return 0
}

// renewed is nil when a component has another process, which answers.
func (p *play) renewed(component string, before int) error {
	if now := p.process(component); now == before || now == 0 {
		return fmt.Errorf("%s has process %d, and had %d", component, now, before)
	}
	_, err := measure(p.Cluster, component)
	return err
}

func (p *play) signal(process int, signal syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(process, signal); err != nil {
		p.t.Fatalf("sending %s to process %d: %v", signal, process, err)
	}
}

// beginRoll returns when a manager has begun to roll something new.
func (p *play) beginRoll() {
	p.t.Helper()
	plain, created := p.members[0], p.ledger.Created()
	p.show(plain, 1+plain.image%images)
	p.Poll("a roll has begun", func() error { return more(p.ledger, created) })
}

// restart kills a component without which there is no API, and starts it again.
func (p *play) restart(component string, hold time.Duration) {
	p.t.Helper()
	before := time.Now() // it dies between these two moments, which may lie apart where the machine is busy
	p.Cluster.Kill(p.t, component)
	p.outages = append(p.outages, before, time.Now())
	<-time.After(hold) // no request gets an answer now
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
	p.beginRoll()
	p.kill(dead)
	if holder := p.Cluster.SlowWriter(p.t); holder == "" { // else its successor waits for slow writes as well
		p.alone = append(p.alone, p.deaths[len(p.deaths)-1])
	}
	p.Poll("the other manager leads", func() error { return leads(p.Cluster, other(dead)) })
	p.beginRoll() // the last one may have ended with the leader, and then its successor has nothing to write
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
