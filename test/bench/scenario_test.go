// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Names of scenarios.
const (
	create  = "create"
	idle    = "idle"
	roll    = "roll"
	restart = "restart"
	cut     = "cut"
)

// scenario is something that is done to each row.
type scenario struct {
	name  string
	floor bool // there is a floor for it
	play  func(*bench, settings) (*result, error)
}

// scenarios are all, in the order in which they are played on one plane. Nodes are cut last: it leaves the least behind that way.
func scenarios() []scenario {
	return []scenario{
		{create, true, (*bench).create},
		{idle, false, (*bench).idle},
		{roll, true, (*bench).roll},
		{restart, false, (*bench).restart},
		{cut, true, (*bench).cut},
	}
}

// create has a set get its first pods.
func (b *bench) create(settings) (*result, error) { return b.change(create) }

// roll has all pods get another image.
func (b *bench) roll(settings) (*result, error) {
	r, err := b.change(roll)
	if err == nil && b.client != nil {
		r.Cycle, err = b.client.cycle(b)
	}
	return r, err
}

// change orders the next image, and waits until all pods have it and the status says so.
func (b *bench) change(name string) (*result, error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	profiled, err := b.profile(name)
	if err != nil {
		return nil, errors.Join(err, profiled(nil))
	}
	r, err := b.ordered(name)
	return r, errors.Join(err, profiled(r))
}

func (b *bench) ordered(name string) (*result, error) {
	generation, err := b.order(nil)
	if err != nil {
		return nil, err
	}
	return b.finish(name, generation)
}

// finish waits until all pods have the newest image, and the status says so.
func (b *bench) finish(name string, generation int64) (*result, error) {
	nodes := len(b.nodes)
	done, err := b.crowd.await(b.ctx, "all pods are new and ready", b.crowd.all(nodes))
	if err != nil {
		return nil, err
	}
	if err := b.awaitStatus(generation, nodes); err != nil {
		return nil, err
	}
	r, err := b.end(name)
	if err == nil {
		r.Wall = done.Sub(b.from.at).Seconds()
	}
	return r, err
}

// idle has nothing happen but heartbeats.
func (b *bench) idle(s settings) (*result, error) {
	if err := b.awaitHeartbeats(); err != nil {
		return nil, err
	}
	if err := b.begin(); err != nil {
		return nil, err
	}
	profiled, err := b.profile(idle)
	if err != nil {
		return nil, errors.Join(err, profiled(nil))
	}
	select {
	case <-time.After(s.idle):
	case <-b.ctx.Done():
		return nil, b.ctx.Err()
	}
	r, err := b.end(idle)
	if err == nil {
		r.Wall = r.Whole
	}
	return r, errors.Join(err, profiled(r))
}

// awaitHeartbeats returns when the nodes write their status about as often as kubelets do: nodes that were all made at once begin with
// that minutes later, and a minute without heartbeats says nothing about what they cost. If it never comes to that, idle is measured all the
// same, and judged by what was counted.
func (b *bench) awaitHeartbeats() error {
	const between, patience = 20 * time.Second, 6 * time.Minute
	last, err := readCounts(b.ctx, b.cluster.Client)
	if err != nil {
		return err
	}
	writes := 0
	err = wait.PollUntilContextTimeout(b.ctx, between, patience, false, func(ctx context.Context) (bool, error) {
		now, err := readCounts(ctx, b.cluster.Client)
		writes = now.since(last).Nodes
		last = now
		return usual(writes, heartbeats(len(b.nodes), between.Seconds())), err
	})
	if err != nil && (!wait.Interrupted(err) || b.ctx.Err() != nil) {
		return fmt.Errorf("waiting until nodes write their status as often as kubelets do: %w; %d nodes have written it %d times in the last %s", err, len(b.nodes), writes, between)
	}
	return nil
}

// usual is whether nodes are written about as often as is expected: after an update each node has an image to report besides.
func usual(writes int, expected float64) bool {
	const least, most = 0.5, 3
	return float64(writes) >= least*expected && float64(writes) <= most*expected+1
}

func TestUsual(t *testing.T) {
	for _, c := range []struct {
		writes   int
		expected float64
		want     bool
	}{{0, 13.3, false}, {6, 13.3, false}, {7, 13.3, true}, {40, 13.3, true}, {42, 13.3, false}, {5000, 333, false}, {0, 1.3, false}, {1, 1.3, true}} {
		if got := usual(c.writes, c.expected); got != c.want {
			t.Errorf("%d writes where %g are expected: %v", c.writes, c.expected, got)
		}
	}
}

// restart kills the controller when a third of a roll is done, and starts it again when nothing of it is under way any more.
func (b *bench) restart(settings) (*result, error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	generation, err := b.order(nil)
	if err != nil {
		return nil, err
	}
	third := len(b.nodes) / 3
	if _, err := b.crowd.await(b.ctx, "a third of the pods is new", b.crowd.some(third)); err != nil {
		return nil, err
	}
	if err := b.kill(); err != nil {
		return nil, err
	}
	if err := b.settle(); err != nil {
		return nil, err
	}
	before, err := readCounts(b.ctx, b.cluster.Client)
	if err != nil {
		return nil, err
	}
	again, err := b.again()
	if err != nil {
		return nil, err
	}
	r, err := b.finish(restart, generation)
	if err != nil {
		return nil, err
	}
	for kind, n := range r.wanted(b.row) {
		sent := r.Requests[kind] - before.since(b.from.counts).Requests[kind]
		again.Repeated += max(sent-(n-again.done[kind]), 0)
	}
	r.Restart = again
	return r, nil
}

// again starts the killed controller, and waits until it writes.
func (b *bench) again() (*restarted, error) {
	began := time.Now()
	done := b.crowd.forgetWrites()
	if err := b.revive(); err != nil {
		return nil, err
	}
	if _, err := b.crowd.await(b.ctx, "the new controller writes", func() bool { return !b.crowd.wrote.IsZero() }); err != nil {
		return nil, err
	}
	full, err := cachesFull(b.cluster.Log(b.row.component()), began)
	if err != nil {
		return nil, err
	}
	b.crowd.mu.Lock()
	defer b.crowd.mu.Unlock()
	return &restarted{CachesFull: full.Sub(began).Seconds(), FirstWrite: b.crowd.wrote.Sub(began).Seconds(), done: done}, nil
}

// fullLine is the line of a log that says that the caches are full: the manager's, or that of upstream's controller.
var fullLine = regexp.MustCompile(`(?m)^I(\d{4} \d\d:\d\d:\d\d\.\d{6}) .*"(?:Read the cluster|Caches are synced)"`)

// cachesFull is when a log says for the last time, and after a moment, that the caches are full.
func cachesFull(log string, after time.Time) (time.Time, error) {
	lines := fullLine.FindAllStringSubmatch(log, -1)
	if len(lines) == 0 {
		return time.Time{}, errors.New("the log of the controller does not say when its caches were full")
	}
	at, err := time.ParseInLocation("20060102 15:04:05.000000", after.Format("2006")+lines[len(lines)-1][1], after.Location())
	if err != nil {
		return at, fmt.Errorf("reading the log of the controller: %w", err)
	}
	if at.Before(after) {
		return at, fmt.Errorf("the log of the controller says at %s that its caches are full, and it was started at %s", at, after)
	}
	return at, nil
}

// unreachableShare is the part of the nodes that is cut: 1 of that many.
const unreachableShare = 20

// cut has all pods get another image while nodes cannot be reached, and ends when all others have it. Then the nodes come back.
func (b *bench) cut(settings) (*result, error) {
	unreachable := b.nodes[:len(b.nodes)/unreachableShare]
	reachable := len(b.nodes) - len(unreachable)
	if err := b.onNodes(unreachable, b.silence); err != nil {
		return nil, err
	}
	if err := b.begin(); err != nil {
		return nil, err
	}
	skip := map[string]bool{}
	for _, node := range unreachable {
		skip[node] = true
	}
	if _, err := b.order(skip); err != nil {
		return nil, err
	}
	done, err := b.crowd.await(b.ctx, "all pods that can be reached are new and ready", b.crowd.some(reachable))
	if err != nil {
		return nil, err
	}
	r, err := b.end(cut)
	if err != nil {
		return nil, err
	}
	r.Wall, r.Unreachable = done.Sub(b.from.at).Seconds(), len(unreachable)
	if err := b.onNodes(unreachable, func(node string) error { return b.cluster.Plane.HealNode(b.ctx, node) }); err != nil {
		return nil, err
	}
	if b.client != nil {
		return r, nil // nobody replaces the pods that are left
	}
	_, err = b.crowd.await(b.ctx, "all pods are new and ready after the nodes have come back", b.crowd.all(len(b.nodes)))
	return r, err
}

// silence cuts a node, and writes what the node lifecycle controller writes after its grace period, which is minutes on a large plane: that
// the node is not known to be ready, and that its pods are not. The taints are then left to that controller.
func (b *bench) silence(node string) error {
	if err := b.cluster.Plane.CutNode(b.ctx, node); err != nil {
		return err
	}
	now := metav1.Now()
	core := b.cluster.Client.CoreV1()
	patch, err := encode(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}}})
	if err != nil {
		return err
	}
	if _, err := core.Nodes().Patch(b.ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("writing the status of node %s: %w", node, err)
	}
	patch, err = encode(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "NodeNotReady", LastTransitionTime: now,
	}}}})
	if err != nil {
		return err
	}
	for _, pod := range b.crowd.list() {
		if pod.node != node {
			continue
		}
		if _, err := core.Pods(namespace).Patch(b.ctx, pod.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("writing the status of pod %s: %w", pod.name, err)
		}
	}
	return nil
}

// onNodes does something to many nodes.
func (b *bench) onNodes(nodes []string, do func(node string) error) error {
	const atOnce = 16
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, node := range nodes {
		group.Go(func() error { return do(node) })
	}
	return group.Wait()
}
