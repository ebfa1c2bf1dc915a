// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"everynode.dev/everynode/test/observe"
)

// Patience is the timeout of a condition on a loaded machine.
const Patience = 2 * time.Minute

// Image is an image that the simulated nodes can pull, BrokenImage one that they cannot.
const (
	Image       = "registry.example/daemon:1"
	Image2      = "registry.example/daemon:2"
	Image3      = "registry.example/daemon:3"
	BrokenImage = "registry.example/daemon:non-existent"
)

// Space is a namespace and some nodes for one test. The nodes have the label PoolLabel with the name of the space, and
// the sets of NewSet select it, so that tests do not interfere.
type Space struct {
	Cluster *Cluster
	Name    string
	Nodes   []string

	t       testing.TB
	ctx     context.Context
	own     bool // whether the namespace is deleted with the space
	view    View
	changed chan struct{}
}

// Space creates a namespace with that many nodes for the test, and releases both when the test ends.
func (c *Cluster) Space(t testing.TB, nodes int) *Space {
	t.Helper()
	namespace, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: namespacePrefix(t.Name()),
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return c.space(t, &Space{Name: namespace.Name, own: true}, nodes)
}

// SpaceIn returns a space in an existing namespace, which is kept; the test must delete what it creates there.
func (c *Cluster) SpaceIn(t testing.TB, namespace string, nodes int) *Space {
	t.Helper()
	return c.space(t, &Space{Name: namespace}, nodes)
}

// space completes a space with a known namespace.
func (c *Cluster) space(t testing.TB, s *Space, nodes int) *Space {
	t.Helper()
	s.Cluster, s.t, s.ctx, s.changed = c, t, t.Context(), make(chan struct{}, 1)
	t.Cleanup(s.tearDown)
	var err error
	s.Nodes, err = c.takeNodes(s.ctx, s.Name, nodes)
	if err != nil {
		t.Fatalf("taking %d nodes: %v", nodes, err)
	}
	s.startWatching()
	return s
}

// In returns the same space for a subtest. The two must not wait at the same time.
func (s *Space) In(t testing.TB) *Space {
	within := *s
	within.t, within.ctx = t, t.Context()
	return &within
}

// namespacePrefix converts the name of a test to a label.
func namespacePrefix(test string) string {
	name := strings.ToLower(strings.TrimPrefix(test, "Test"))
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	return strings.TrimRight(name[:min(len(name), 50)], "-") + "-"
}

// tearDown deletes the namespace and releases the nodes, without waiting.
func (s *Space) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if s.own {
		if err := s.Cluster.Client.CoreV1().Namespaces().Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil {
			s.t.Logf("deleting namespace %s: %v", s.Name, err)
		}
	}
	if err := s.Cluster.giveBack(ctx, s.Nodes); err != nil {
		s.t.Logf("giving back the nodes of %s: %v", s.Name, err)
	}
}

func (s *Space) startWatching() {
	factory := informers.NewSharedInformerFactoryWithOptions(s.Cluster.Client, 0, informers.WithNamespace(s.Name))
	sets, revisions := factory.Apps().V1().DaemonSets(), factory.Apps().V1().ControllerRevisions()
	pods, events, nodes := factory.Core().V1().Pods(), factory.Core().V1().Events(), factory.Core().V1().Nodes()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.signal() },
		UpdateFunc: func(any, any) { s.signal() },
		DeleteFunc: func(any) { s.signal() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		sets.Informer(), revisions.Informer(), pods.Informer(), events.Informer(), nodes.Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			s.t.Fatalf("watching namespace %s: %v", s.Name, err)
		}
	}
	advanced, err := s.watchAdvanced(handler)
	if err != nil {
		s.t.Fatalf("watching Advanced DaemonSets of namespace %s: %v", s.Name, err)
	}
	s.view = View{s.Name, sets.Lister(), revisions.Lister(), pods.Lister(), events.Lister(), nodes.Lister(), advanced}
	factory.StartWithContext(s.ctx)
	for kind, synced := range factory.WaitForCacheSync(s.ctx.Done()) {
		if !synced {
			s.t.Fatalf("watching %v in namespace %s did not begin", kind, s.Name)
		}
	}
}

func (s *Space) signal() {
	select {
	case s.changed <- struct{}{}:
	default: // there is a pending signal already
	}
}

// View returns what the watches have shown so far.
func (s *Space) View() View { return s.view }

// Wait evaluates the conditions after each change until they are met; after Patience, the test fails.
func (s *Space) Wait(what string, conditions ...Condition) {
	s.t.Helper()
	s.WaitFor(Patience, what, conditions...)
}

// WaitFor is Wait with another timeout.
func (s *Space) WaitFor(patience time.Duration, what string, conditions ...Condition) {
	s.t.Helper()
	if err := s.TryFor(patience, conditions...); err != nil {
		s.t.Fatalf("waited %s for this: %s; but %v\n%s%s", patience, what, err, s.view.Describe(), s.Cluster.LogTails())
	}
}

// TryFor is WaitFor, but returns an error.
func (s *Space) TryFor(patience time.Duration, conditions ...Condition) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	met := All(conditions...)
	for {
		err := met(s.view)
		if err == nil {
			return nil
		}
		select {
		case <-s.changed:
		case <-deadline.C:
			return err
		case <-s.ctx.Done():
			return fmt.Errorf("%w (%w)", err, s.ctx.Err())
		}
	}
}

// Poll repeats a check for which there is no watch, such as of a log.
func (s *Space) Poll(what string, met func() error) {
	s.t.Helper()
	s.PollFor(Patience, what, met)
}

// PollFor is Poll with another patience.
func (s *Space) PollFor(patience time.Duration, what string, met func() error) {
	s.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = met()
		return last == nil, nil
	})
	if err != nil {
		s.t.Fatalf("waited %s for this: %s; but %v\n%s", patience, what, last, s.Cluster.LogTails())
	}
}

// Edit changes a set before it is written.
type Edit func(set *appsv1.DaemonSet)

// NewSet returns a set of that name on the nodes of the space: maxUnavailable 1, one container with Image.
func (s *Space) NewSet(name string, edits ...Edit) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{PoolLabel: s.Name},
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "daemon", Image: Image}},
		},
	}
	for _, edit := range edits {
		edit(set)
	}
	return set
}

// Create creates a set.
func (s *Space) Create(name string, edits ...Edit) *appsv1.DaemonSet {
	s.t.Helper()
	set, err := s.Cluster.Client.AppsV1().DaemonSets(s.Name).Create(s.ctx, s.NewSet(name, edits...), metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("creating set %s: %v", name, err)
	}
	return set
}

// Run creates a set and waits until it runs on all nodes of the space.
func (s *Space) Run(name string, edits ...Edit) *appsv1.DaemonSet {
	s.t.Helper()
	set := s.Create(name, edits...)
	s.Wait("set "+name+" runs on every node", RolledOut(name, set.Generation, len(s.Nodes)))
	return set
}

// Update changes a set and returns the new object.
func (s *Space) Update(name string, edits ...Edit) *appsv1.DaemonSet {
	s.t.Helper()
	sets := s.Cluster.Client.AppsV1().DaemonSets(s.Name)
	var written *appsv1.DaemonSet
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		set, err := sets.Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, edit := range edits {
			edit(set)
		}
		written, err = sets.Update(s.ctx, set, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		s.t.Fatalf("updating set %s: %v", name, err)
	}
	return written
}

// Kubectl runs kubectl in the namespace of the space and returns its output.
func (s *Space) Kubectl(args ...string) string {
	s.t.Helper()
	out, err := s.Cluster.Kubectl(s.ctx, append([]string{"--namespace", s.Name}, args...)...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Observe starts to record a set of the space.
func (s *Space) Observe(name string) *observe.Recorder {
	s.t.Helper()
	recorder, err := observe.Record(s.ctx, s.Cluster.Client, s.Name, name)
	if err != nil {
		s.t.Fatalf("observing set %s: %v", name, err)
	}
	return recorder
}

// Judge finishes a recording; the test fails if an invariant was violated or the recording is incomplete.
func (s *Space) Judge(recorder *observe.Recorder) observe.Report {
	s.t.Helper()
	report, err := recorder.Finish(s.ctx)
	if err != nil {
		s.t.Fatalf("the observation itself failed: %v", err)
	}
	if err := report.Err(); err != nil {
		s.t.Fatalf("observed from outside: %v", err)
	}
	s.t.Logf("observed from outside: %s", report.Summary())
	return report
}

// WithImage sets the image of the only container.
func WithImage(image string) Edit {
	return func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

// WithBudget sets a rolling update with these budgets.
func WithBudget(maxUnavailable, maxSurge string) Edit {
	unavailable, surge := intstr.Parse(maxUnavailable), intstr.Parse(maxSurge)
	return func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge},
		}
	}
}

// WithOnDelete sets the strategy OnDelete.
func WithOnDelete(set *appsv1.DaemonSet) {
	set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

// WithAnnotation sets an annotation of the set, or removes it if the value is empty.
func WithAnnotation(key, value string) Edit {
	return func(set *appsv1.DaemonSet) {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		if set.Annotations[key] = value; value == "" {
			delete(set.Annotations, key)
		}
	}
}

// WithMinReady sets minReadySeconds.
func WithMinReady(seconds int32) Edit {
	return func(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = seconds }
}
