// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"everynode.dev/everynode/internal/dialect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/cli/live"
	"everynode.dev/everynode/internal/cli/view"
	"everynode.dev/everynode/internal/dialect/native"
)

// story is a running demo.
type story struct {
	plane Plane
	view  view.View
	// count is the number of nodes, version the version of the API server.
	count   int
	version string
	clients clients
	nodes   []string
	witness *Witness
	set     *live.Set
	// cut are the two nodes that were cut off.
	cut []string

	// stop ends the demo early; tasks are the goroutines of the demo.
	stop  context.CancelCauseFunc
	tasks sync.WaitGroup

	mu sync.Mutex
	// model is the last picture, dark are the nodes that were observed not ready.
	model view.Model
	dark  map[string]bool

	seen seen
}

// seen are the observations for the summary.
type seen struct {
	created, rolled, caughtUp, stopped, recovered time.Duration
	// spoilt is the number of nodes that got the bad image, kept the number of pods that survived it.
	spoilt, kept int
	figures      Figures
}

// budget returns the number of nodes that an update may make unavailable.
func (s *story) budget() int { return budgetOf(s.count) }

// play runs all acts and checks the counts.
func (s *story) tell(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer s.tasks.Wait()
	defer stop(nil)
	s.stop = stop
	s.tasks.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.plane.Done():
			stop(errors.New("another process stopped the plane"))
		}
	})
	for _, act := range []func(context.Context) error{s.prepare, s.create, s.roll, s.spoil, s.undo, s.judge} {
		if err := act(ctx); err != nil {
			return s.withDarkNodes(err)
		}
	}
	return nil
}

// prepare waits for the nodes, and starts the witness and the view.
func (s *story) prepare(ctx context.Context) error {
	var err error
	if s.clients, err = connect(s.plane); err != nil {
		return err
	}
	version, err := s.clients.typed.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	s.version = version.GitVersion
	if s.nodes, err = s.readyNodes(ctx); err != nil {
		return err
	}
	if s.witness, err = watchPods(ctx, s.clients.typed, newTally(s.nodes, s.budget())); err != nil {
		return err
	}
	s.tasks.Go(s.witness.wait)
	s.set, err = live.Watch(ctx, live.Options{
		Client: s.clients.typed, Dynamic: s.clients.dynamic, Namespace: namespace, Name: setName,
		Source: dialect.Source{
			Dialect: "native", Resource: appsv1.SchemeGroupVersion.WithResource("daemonsets"), Kind: "DaemonSet", Digest: native.Digest,
		},
	})
	if err != nil {
		return err
	}
	s.tasks.Go(s.set.Wait)
	s.tasks.Go(func() { s.draw(ctx) })
	return nil
}

// readyNodes waits until all nodes are ready and have no taints, and returns their names.
func (s *story) readyNodes(ctx context.Context) ([]string, error) {
	var ready []string
	err := s.poll(ctx, s.limit(), func() (bool, error) {
		list, err := s.clients.typed.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("listing the nodes: %w", err)
		}
		ready = nil
		for _, node := range list.Items {
			if usable(&node) {
				ready = append(ready, node.Name)
			}
		}
		return len(ready) == s.count && len(list.Items) == s.count, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for %d nodes to be ready (%d are): %w", s.count, len(ready), err)
	}
	slices.Sort(ready)
	return ready, nil
}

// usable reports whether a pod of the set must run there: the taint of a new node is removed shortly after it is ready.
func usable(node *corev1.Node) bool {
	return len(node.Spec.Taints) == 0 && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// create is the first act.
func (s *story) create(ctx context.Context) error {
	s.say("", fmt.Sprintf("A control plane of Kubernetes %s is running, with %d simulated nodes.", s.version, s.count),
		fmt.Sprintf("To see it in the browser, in another terminal: KUBECONFIG=%s bin/kubectl-everynode dashboard", s.plane.Kubeconfig()),
		"", fmt.Sprintf("1. Create DaemonSet %s: one pod on every node.", setName))
	began := time.Now()
	if err := s.want(imageOne); err != nil {
		return err
	}
	if _, err := s.clients.typed.AppsV1().DaemonSets(namespace).Create(ctx, daemonSet(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating DaemonSet %s: %w", setName, err)
	}
	if err := s.everyNodeRuns(ctx, imageOne, s.nodes); err != nil {
		return err
	}
	s.seen.created = time.Since(began)
	return s.witness.ask(func(t *tally) { t.guarding = true })
}

// roll is the second act: an update during which two nodes are cut off and come back.
func (s *story) roll(ctx context.Context) error {
	budget := s.budget()
	s.say("", fmt.Sprintf("2. Roll it to version 2. maxUnavailable is %d%%: of %d nodes at most %d may be without a pod at once.", budgetPercent, s.count, budget),
		fmt.Sprintf("   On the way two nodes are cut off. They use up two of the %d slots while they are away; the other %d keep the update going.", budget, budget-2))
	began := time.Now()
	if err := s.want(imageTwo); err != nil {
		return err
	}
	if err := setImage(ctx, s.clients.typed, imageTwo); err != nil {
		return err
	}
	if err := s.await(ctx, "the first node to run version 2", func(t *tally) bool { return len(t.running(imageTwo)) > 0 }); err != nil {
		return err
	}
	if err := s.cutTwo(ctx); err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(s.nodes), func(n string) bool { return slices.Contains(s.cut, n) })
	if err := s.everyNodeRuns(ctx, imageTwo, others); err != nil {
		return err
	}
	s.seen.rolled = time.Since(began)
	if err := s.cutNodesWait(ctx); err != nil {
		return err
	}
	return s.healTwo(ctx)
}

// cutTwo cuts off two nodes that are not updated yet, from the middle of the remaining ones, so that the update reaches
// them while it continues elsewhere.
func (s *story) cutTwo(ctx context.Context) error {
	err := s.witness.ask(func(t *tally) {
		old := t.running(imageOne)
		if middle := len(old) / 2; len(old) >= 2 {
			s.cut = old[middle-1 : middle+1]
		}
		for _, node := range s.cut {
			t.cut[node] = true
		}
	})
	if err != nil {
		return err
	}
	if len(s.cut) == 0 {
		return fmt.Errorf("the update ended before two nodes could be cut off: try again with more --nodes")
	}
	for _, node := range s.cut {
		if err := s.plane.CutNode(ctx, node); err != nil {
			return fmt.Errorf("cutting off node %s: %w", node, err)
		}
	}
	s.say(fmt.Sprintf("   %s and %s are cut off now.", s.cut[0], s.cut[1]))
	return nil
}

// cutNodesWait waits until the cut nodes are known to be not ready and wait with their old pod.
func (s *story) cutNodesWait(ctx context.Context) error {
	var waits []view.Wait
	err := s.await(ctx, "the cut nodes to be known as not ready and to wait", func(*tally) bool {
		waits = waitsOf(s.picture(), s.cut)
		waiting := 0
		for _, wait := range waits {
			waiting += len(wait.Nodes)
		}
		return waiting == len(s.cut)
	})
	if err != nil {
		return err
	}
	s.say(fmt.Sprintf("   %d of %d nodes run version 2: the update did not wait for the other two. Why they wait:", s.count-len(s.cut), s.count))
	for _, wait := range waits {
		s.say(fmt.Sprintf("   %s (not ready for %s): %s.", strings.Join(wait.Nodes, ", "), view.Duration(wait.NotReady), wait.Reason))
	}
	s.say(fmt.Sprintf("   (A node that is tainted as unreachable is not a desired one: hence the %d in the figures above, as on any cluster.)", s.count-len(s.cut)))
	return nil
}

// waitsOf returns the waits of those of the nodes that are not ready.
func waitsOf(m view.Model, nodes []string) []view.Wait {
	var waits []view.Wait
	for _, wait := range m.Waits {
		wait.Nodes = slices.DeleteFunc(slices.Clone(wait.Nodes), func(n string) bool { return !slices.Contains(nodes, n) })
		if wait.NotReady > 0 && len(wait.Nodes) > 0 {
			waits = append(waits, wait)
		}
	}
	return waits
}

func (s *story) healTwo(ctx context.Context) error {
	s.say("   Both come back now.")
	began := time.Now()
	for _, node := range s.cut {
		if err := s.plane.HealNode(ctx, node); err != nil {
			return fmt.Errorf("healing node %s: %w", node, err)
		}
		if err := s.witness.ask(func(t *tally) { t.healed[node] = true }); err != nil {
			return err
		}
	}
	if err := s.everyNodeRuns(ctx, imageTwo, s.nodes); err != nil {
		return err
	}
	s.seen.caughtUp = time.Since(began)
	return nil
}

// imagePullBackOff is the reason of a kubelet for an image that cannot be pulled.
const imagePullBackOff = "ImagePullBackOff"

// standstill is the time without progress after which the demo reports that the update has stopped.
const standstill = 5 * time.Second

// spoil is the third act: an image that cannot be pulled.
func (s *story) spoil(ctx context.Context) error {
	s.say("", "3. Now a bad image: it cannot be pulled, so none of its pods ever gets ready.")
	if err := s.want(imageBroken); err != nil {
		return err
	}
	if err := setImage(ctx, s.clients.typed, imageBroken); err != nil {
		return err
	}
	budget := s.budget()
	what := fmt.Sprintf("%d pods to be in %s", budget, imagePullBackOff)
	err := s.await(ctx, what, func(t *tally) bool { return len(t.troubled(imageBroken, imagePullBackOff)) == budget })
	if err != nil {
		return err
	}
	if err := s.standStill(ctx, s.count-budget); err != nil {
		return err
	}
	s.seen.stopped, s.seen.spoilt = standstill, budget
	s.say(fmt.Sprintf("   The update has stopped at its budget: %d pods are in %s, the other %d nodes keep what they had.", budget, imagePullBackOff, s.count-budget))
	return nil
}

// standStill returns an error unless that many nodes run version 2 during the whole time.
func (s *story) standStill(ctx context.Context, healthy int) error {
	for end := time.Now().Add(standstill); time.Now().Before(end); {
		running := 0
		if err := s.witness.ask(func(t *tally) { running = len(t.running(imageTwo)) }); err != nil {
			return err
		}
		if running != healthy {
			return fmt.Errorf("the update to the bad image did not stop at its budget: %d nodes still run version 2, and %d should", running, healthy)
		}
		if err := pause(ctx, interval); err != nil {
			return err
		}
	}
	return nil
}

// undo is the fourth act.
func (s *story) undo(ctx context.Context) error {
	s.say("", "4. Undo it, as `kubectl rollout undo` does.")
	began := time.Now()
	before := map[string]types.UID{}
	if err := s.witness.ask(func(t *tally) { t.image, before = imageTwo, t.available() }); err != nil {
		return err
	}
	if err := undo(ctx, s.clients.typed); err != nil {
		return err
	}
	if err := s.everyNodeRuns(ctx, imageTwo, s.nodes); err != nil {
		return err
	}
	s.seen.recovered = time.Since(began)
	return s.witness.ask(func(t *tally) {
		after := t.available()
		for node, uid := range before {
			if after[node] == uid {
				s.seen.kept++
			}
		}
	})
}

// judge checks the counts when the picture shows the end too.
func (s *story) judge(ctx context.Context) error {
	if err := s.await(ctx, "the picture to show every node up to date", func(*tally) bool { return s.picture().Done == s.count }); err != nil {
		return err
	}
	if err := s.witness.ask(func(t *tally) { s.seen.figures = t.figures }); err != nil {
		return err
	}
	f := s.seen.figures
	switch {
	case f.Unavailable > s.budget():
		return fmt.Errorf("%d nodes that were not cut off were without an available pod at once, and the budget is %d", f.Unavailable, s.budget())
	case f.Beyond > 0:
		return fmt.Errorf("%d available pods were taken down although the budget of %d had been used up for more than %s", f.Beyond, s.budget(), tooLate)
	case f.MostPerNode > 1:
		return fmt.Errorf("a node had %d pods at once, and one is the most that is allowed", f.MostPerNode)
	case f.Needless > 0:
		return fmt.Errorf("%d pods that were ready and of the wanted version were restarted", f.Needless)
	case s.seen.kept != s.count-s.budget():
		return fmt.Errorf("%d of the %d pods that the bad image had not reached outlived its undoing, and all should", s.seen.kept, s.count-s.budget())
	}
	return nil
}
