// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/apply"
	"everynode.dev/everynode/internal/apply/executor"
	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/rollout"
)

// neighbours are other sets of a manager, of a dialect of their own: one of them keeps the only worker of its queue at work, so that the other one waits
// there for as long as that takes; and its writes, which have no answer, leave one at a time to the others. Nothing else is done for them:
// they are being deleted, so that even a mutant that does not ask whether it may write leaves them alone.
type neighbours struct {
	// wait is whether that is so now, and turn is closed when it is over.
	wait bool
	turn chan struct{}
	end  context.CancelFunc
}

const neighbourhood = "neighbours"

// dialect is theirs: whether anything may be written for them is not answered before their turn is over.
func (n *neighbours) dialect() dialect.Dialect {
	return dialect.Dialect{Source: dialect.Source{Dialect: neighbourhood}, MayWrite: func() bool {
		<-n.turn
		return false
	}}
}

// moveIn lets a manager know of them.
func (n *neighbours) moveIn(m *manager) {
	for _, name := range []string{"one", "another"} {
		key := clustercache.Key{Dialect: neighbourhood, Namespace: neighbourhood, Name: name}
		m.index.PutSet(key, &dialect.Workload{Namespace: key.Namespace, Name: name, UID: types.UID(name), Selector: labels.Nothing(), Deleting: true})
	}
	ctx, end := context.WithCancel(m.s.ctx)
	n.end = end
	go m.c.Run(ctx)
}

// goOn ends the work on both.
func (n *neighbours) goOn() {
	if n.wait {
		close(n.turn)
	}
	n.wait = false
}

// busyOps are whether other sets of the leader wait for a pass, for whose sake it leaves what it has not begun in time.
func (s *sim) busyOps(ops []op) []op {
	m := s.lead
	if m.others.wait {
		return append(ops, op{"no other set of " + m.name + " waits any more", 2, m.quiet})
	}
	return append(ops, op{"other sets of " + m.name + " wait", 2 * s.storm(), m.crowd})
}

// crowd has one of the neighbours be worked on, so that the other one waits.
func (m *manager) crowd() {
	m.others.wait, m.others.turn = true, make(chan struct{})
	m.c.EnqueueAll(neighbourhood)
	go m.others.write(m)
	m.rest()
}

// write sends as many deletes of one of them as there may be at once.
func (n *neighbours) write(m *manager) {
	e := &executor.Executor{
		Index: m.index, Pods: hanging{turn: n.turn}, Events: silent{}, Clock: m.clock, Count: func(string, apply.Answer) {}, Pace: m.pace,
	}
	job := &executor.Job{
		Key: clustercache.Key{Dialect: neighbourhood}, Texts: &dialect.Texts{}, Batch: 1,
		MayWrite: func() bool { return true }, Others: func() bool { return false },
		Snapshot: rollout.Snapshot{Nodes: make([]rollout.Node, 1)}, Plan: rollout.Plan{Verdicts: make([]rollout.Verdict, 1)},
	}
	for range m.pace.Window() {
		job.Plan.Actions = append(job.Plan.Actions, rollout.Action{Kind: rollout.Delete})
	}
	_, _ = e.Run(m.s.ctx, job) // what becomes of them is their concern
}

// hanging are pods that are deleted when their turn is over.
type hanging struct {
	executor.Pods
	turn chan struct{}
}

func (h hanging) Delete(context.Context, string, string, metav1.Preconditions) error {
	<-h.turn
	return nil
}

// quiet has none of them wait any more.
func (m *manager) quiet() {
	m.others.goOn()
	m.rest()
}
