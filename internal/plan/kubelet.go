// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"everynode.dev/everynode/internal/rollout"
)

// kubelets simulates everything but the manager: kubelets, scheduler, hook handlers and the pod garbage collector.
type kubelets struct {
	Assumptions
	// busy are the nodes with tasks, in order; tasks has the task of each pod, by UID.
	busy  []int
	tasks map[string]task
	// ran are the pods that would be ready if they were not being changed in place.
	ran map[string]bool
	// wanted is the revision whose pods fail on the nodes in Fails.
	wanted int
}

// task is what happens to one pod, and when it is finished.
type task struct {
	stage stage
	due   rollout.Time
}

// stage is what is happening to a pod.
type stage uint8

const (
	resting   stage = iota // nothing
	stopping               // the pod is being deleted
	releasing              // its preDelete hook is running
	changing               // it has been changed in place
	starting               // it is not ready yet
)

func newKubelets(a Assumptions, wanted int) kubelets {
	return kubelets{Assumptions: a, tasks: map[string]task{}, ran: map[string]bool{}, wanted: wanted}
}

// fails reports whether a pod fails on a node.
func (k *kubelets) fails(p *rollout.Pod, n *rollout.Node) bool {
	return k.Fails[n.Name] && p.Revision == k.wanted
}

// pull sets the time at which the nodes that wait for images have them.
func (k *kubelets) pull(s *rollout.Snapshot) {
	if k.Pull < 0 {
		return
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.ImageWait {
			n.ImageUntil = rollout.Earlier(n.ImageUntil, s.Now.Add(max(k.Pull, 1)))
		}
	}
}

// observe updates the tasks of a node after something changed there.
func (k *kubelets) observe(s *rollout.Snapshot, node int) {
	n := &s.Nodes[node]
	working := false
	for i := range n.Pods {
		p := &n.Pods[i]
		if !k.Apart || !slices.ContainsFunc(n.Pods, func(other rollout.Pod) bool { return other.UID != p.UID && other.Scheduled && !other.Phase.Terminal() }) {
			bind(p, n)
		}
		k.settle(p, n, s.Now)
		at := k.stageOf(p, n)
		t := k.tasks[p.UID]
		if t.stage != at {
			t = task{stage: at, due: s.Now.Add(k.takes(at))}
		}
		if at == resting {
			delete(k.tasks, p.UID)
			continue
		}
		k.tasks[p.UID], working = t, true
	}
	place, found := slices.BinarySearch(k.busy, node)
	switch {
	case working && !found:
		k.busy = slices.Insert(k.busy, place, node)
	case !working && found:
		k.busy = slices.Delete(k.busy, place, place+1)
	}
}

// bind binds a pod to the node that it was created for.
func bind(p *rollout.Pod, n *rollout.Node) {
	if !n.Gone && !p.Deleting {
		p.Scheduled = true
	}
}

// settle makes the changes that take no time: a pod is not ready while it is changed in place, and is ready again right
// afterwards.
func (k *kubelets) settle(p *rollout.Pod, n *rollout.Node, now rollout.Time) {
	if k.Fails[n.Name] && !k.fails(p, n) {
		p.Waiting = rollout.WaitingNone // it has been changed in place from the revision that fails
	}
	switch {
	case p.InPlace != rollout.InPlaceNone:
		k.ran[p.UID] = k.ran[p.UID] || p.Ready || p.InPlace == rollout.InPlaceArrived
		p.Ready = false
	case k.ran[p.UID] && n.Ready:
		p.Ready, p.ReadySince = true, now
		delete(k.ran, p.UID)
	}
}

// stageOf returns what is happening to a pod. Nothing happens on a node that is not ready, or to a pod that reports
// that it cannot start.
func (k *kubelets) stageOf(p *rollout.Pod, n *rollout.Node) stage {
	switch {
	case n.Gone && p.Scheduled:
		return stopping
	case p.Hook == rollout.HookWaiting && !p.Deleting && !n.Gone && k.Hook >= 0:
		return releasing
	case n.Gone || !n.Ready:
		return resting
	case p.Deleting:
		return stopping
	case p.Phase.Terminal(), k.fails(p, n) && p.Waiting != rollout.WaitingNone:
		return resting
	case p.InPlace == rollout.InPlacePatched && (p.Stuck == rollout.NoDetail || p.StuckAt != 0): // that there is an agent is assumed
		return changing
	case p.InPlace == rollout.InPlaceNone && p.Scheduled && !p.Ready && p.Trouble == "" && k.Start >= 0:
		return starting
	default:
		return resting
	}
}

func (k *kubelets) takes(s stage) time.Duration {
	switch s {
	case stopping:
		return k.Stop
	case releasing:
		return k.Hook
	case changing:
		return k.Change
	case starting:
		return k.Start
	default:
		return 0
	}
}

// due returns when the next task finishes; 0 if there is none.
func (k *kubelets) due() rollout.Time {
	var next rollout.Time
	for _, t := range k.tasks {
		next = rollout.Earlier(next, t.due)
	}
	return next
}

// serve finishes the tasks that are due.
func (k *kubelets) serve(s *rollout.Snapshot) {
	for _, node := range slices.Clone(k.busy) {
		n := &s.Nodes[node]
		done := false
		n.Pods = slices.DeleteFunc(n.Pods, func(p rollout.Pod) bool {
			t, has := k.tasks[p.UID]
			if !has || t.due > s.Now || t.stage != stopping {
				return false
			}
			delete(k.tasks, p.UID)
			done = true
			return true
		})
		for i := range n.Pods {
			p := &n.Pods[i]
			if t, has := k.tasks[p.UID]; has && t.due <= s.Now {
				k.finish(p, n, t.stage, s.Now)
				done = true
			}
		}
		if done {
			k.observe(s, node)
		}
	}
}

// finish ends a task other than the deletion of a pod.
func (k *kubelets) finish(p *rollout.Pod, n *rollout.Node, at stage, now rollout.Time) {
	delete(k.tasks, p.UID)
	if (at == changing || at == starting) && k.fails(p, n) {
		p.Phase, p.Ready, p.Waiting = rollout.Running, false, rollout.WaitingFor("CrashLoopBackOff")
		delete(k.ran, p.UID)
		return
	}
	switch at {
	case releasing:
		p.Hook = rollout.HookReleased
	case changing:
		p.Arrive() // observe reads it next
	case starting:
		p.Phase, p.Ready, p.ReadySince = rollout.Running, true, now
	}
}
