// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// witness sees every event of the pods that sets of the name agent select in a namespace. Where its watch breaks it lists anew: what happened between is then one
// event, so it can be used also where the API server dies, when the Recorder of package observe has to give up.
type witness struct {
	s      *harness.Space
	cancel context.CancelFunc

	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
	testimony
}

// testimony is what a witness has to say.
type testimony struct {
	// made, ended and restarted are pods since the witness began to look.
	made, ended, restarted []string
	// crowded are the moments at which a node had more than one pod; terminating ones count.
	crowded []string
	// fewest is the smallest number of nodes with a pod in use that was seen after all nodes had one.
	fewest int
	// worst are the nodes without one at that moment, and what they have instead.
	worst string
	// settled is whether there was such a moment.
	settled bool
}

// newWitness begins to look.
func newWitness(t testing.TB, s *harness.Space) *witness {
	t.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	w := &witness{s: s, cancel: cancel, pods: map[types.UID]*corev1.Pod{}}
	w.fewest = len(s.Nodes)
	factory := informers.NewSharedInformerFactoryWithOptions(s.Cluster.Client, 0, informers.WithNamespace(s.Name))
	pods := factory.Core().V1().Pods().Informer()
	registration, err := pods.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, first bool) { w.see(object, first, false) },
		UpdateFunc: func(_, object any) { w.see(object, false, false) },
		DeleteFunc: func(object any) { w.see(object, false, true) },
	})
	if err != nil {
		t.Fatalf("watching the pods of %s: %v", s.Name, err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		t.Fatalf("watching the pods of %s did not begin", s.Name)
	}
	t.Cleanup(cancel)
	return w
}

// see takes in one event; first is whether the pod is one of those that were there already.
func (w *witness) see(object any, first, gone bool) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || !relevant(pod) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.pods[pod.UID]
	switch {
	case !known && !first:
		w.made = append(w.made, pod.Name)
	case known && restarts(pod) > restarts(old):
		w.restarted = append(w.restarted, pod.Name)
	}
	ends := gone || pod.DeletionTimestamp != nil
	if ended := known && old.DeletionTimestamp != nil; ends && !ended && !first {
		w.ended = append(w.ended, pod.Name)
	}
	w.pods[pod.UID] = pod
	if gone {
		delete(w.pods, pod.UID)
	}
	if !first {
		w.count()
	}
}

// relevant is whether a pod is one that the sets of the name agent select.
func relevant(pod *corev1.Pod) bool { return pod.Labels["app"] == agent }

// count looks at all nodes.
func (w *witness) count() {
	names, used := map[string][]string{}, map[string]bool{}
	for _, pod := range w.pods {
		node := observe.NodeOf(pod)
		if node == "" {
			continue
		}
		names[node] = append(names[node], pod.Name)
		if inUse(pod) {
			used[node] = true
		}
	}
	for node, pods := range names {
		if len(pods) > 1 {
			w.crowded = append(w.crowded, node+": "+strings.Join(slices.Sorted(slices.Values(pods)), ", "))
		}
	}
	w.settled = w.settled || len(used) == len(w.s.Nodes)
	if w.settled && len(used) < w.fewest {
		w.fewest, w.worst = len(used), w.describe(used)
	}
}

// describe lists the pods of the nodes that have none in use.
func (w *witness) describe(used map[string]bool) string {
	var lines []string
	for _, pod := range w.pods {
		if node := observe.NodeOf(pod); !used[node] {
			lines = append(lines, fmt.Sprintf("%s: pod %s %s version %s of revision %s ready %t ending %t state %q", node, pod.Name, pod.Status.Phase, pod.ResourceVersion,
				pod.Labels[appsv1.ControllerRevisionHashLabelKey], harness.Ready(pod), pod.DeletionTimestamp != nil, pod.Labels[kruise.LifecycleState]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// inUse is whether a pod is ready, and nobody is about to end or to change it.
func inUse(pod *corev1.Pod) bool {
	return harness.Ready(pod) && pod.DeletionTimestamp == nil && pod.Labels[kruise.LifecycleState] != kruise.LifecyclePreparingDelete
}

// testify waits until the witness has seen everything that has happened, and returns what it has seen. It goes on looking, and
// begins anew.
func (w *witness) testify(t testing.TB) testimony {
	t.Helper()
	list, err := w.s.Cluster.Client.CoreV1().Pods(w.s.Name).List(w.s.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing the pods of %s: %v", w.s.Name, err)
	}
	w.s.Poll("the witness has seen all pods as they are", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.upTo(list)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.testimony
	w.testimony = testimony{fewest: len(w.s.Nodes)}
	return seen
}

// await waits until the witness has seen enough.
func (w *witness) await(what string, enough func(seen testimony) bool) {
	w.s.Poll(what, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !enough(w.testimony) {
			return fmt.Errorf("%d pods made, %d ended, %d restarted", len(w.made), len(w.ended), len(w.restarted))
		}
		return nil
	})
}

// upTo is nil if every pod of the list was seen at least in its version, and none beside them is left.
func (w *witness) upTo(list *corev1.PodList) error {
	missing := maps.Clone(w.pods)
	for i := range list.Items {
		pod := &list.Items[i]
		if !relevant(pod) {
			continue
		}
		seen := w.pods[pod.UID]
		if seen == nil || before(seen.ResourceVersion, pod.ResourceVersion) {
			return fmt.Errorf("pod %s is not seen at version %s", pod.Name, pod.ResourceVersion)
		}
		delete(missing, pod.UID)
	}
	for _, pod := range missing {
		if before(pod.ResourceVersion, list.ResourceVersion) {
			return fmt.Errorf("the end of pod %s is not seen", pod.Name)
		}
	}
	return nil
}

// before is whether one version of the API server's store is older than the other; it numbers all of its versions.
func before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order < 0
}

// sawNothing fails unless no pod came, went or restarted.
func (w *witness) sawNothing(t testing.TB, during string) {
	t.Helper()
	seen := w.testify(t)
	if n := len(seen.made) + len(seen.ended) + len(seen.restarted); n != 0 {
		t.Fatalf("%s: pods made %v, ended %v, restarted %v\n%s%s", during, seen.made, seen.ended, seen.restarted,
			w.s.View().Describe(), w.s.Cluster.LogTails())
	}
	seen.oneEach(t, during)
}

// oneEach fails if a node ever had two pods.
func (seen testimony) oneEach(t testing.TB, during string) {
	t.Helper()
	if n := len(seen.crowded); n != 0 {
		t.Fatalf("%s: more than one pod on a node %d times, first %s", during, n, seen.crowded[0])
	}
}

func restarts(pod *corev1.Pod) int32 {
	var total int32
	for _, status := range pod.Status.ContainerStatuses {
		total += status.RestartCount
	}
	return total
}
