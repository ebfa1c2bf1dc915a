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
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise"
	"everynode.dev/everynode/test/harness"
	"everynode.dev/everynode/test/observe"
)

// witness sees every event of the pods that sets of the name agent select in a namespace. Where its watch breaks it lists
// anew: what happened between is then one event. So it can be used where the API server dies, and where the last manager
// publishes its webhooks anew and the API server drops its versions of the sets: there the Recorder of package observe gives up.
type witness struct {
	s *harness.Space

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
	w := &witness{s: s, testimony: testimony{fewest: len(s.Nodes)}}
	list, err := w.list(ctx)
	if err != nil {
		t.Fatalf("listing the pods of %s: %v", s.Name, err)
	}
	w.pods = byUID(list)
	w.count()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.look(ctx, list.ResourceVersion)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

func (w *witness) list(ctx context.Context) (*corev1.PodList, error) {
	return w.s.Cluster.Client.CoreV1().Pods(w.s.Name).List(ctx, metav1.ListOptions{LabelSelector: "app=" + agent})
}

// look watches from a version on, and lists anew whenever the watch breaks, until ctx ends.
func (w *witness) look(ctx context.Context, version string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.follow(ctx, version)
		<-tick.C
		if list, err := w.list(ctx); err == nil {
			w.relist(byUID(list))
			version = list.ResourceVersion
		}
	}
}

// follow takes in what a watch shows until it breaks.
func (w *witness) follow(ctx context.Context, version string) {
	watcher, err := w.s.Cluster.Client.CoreV1().Pods(w.s.Name).Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + agent, ResourceVersion: version})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return // an error: the version is too old
		}
		w.mu.Lock()
		w.see(pod, event.Type == watch.Deleted)
		w.count()
		w.mu.Unlock()
	}
}

// relist takes in at once what has happened since the last event: between two of its changes nothing was as it seems.
func (w *witness) relist(now map[types.UID]*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, pod := range w.pods {
		if now[uid] == nil {
			w.see(pod, true)
		}
	}
	for _, pod := range now {
		w.see(pod, false)
	}
	w.count()
}

func byUID(list *corev1.PodList) map[types.UID]*corev1.Pod {
	pods := map[types.UID]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].UID] = &list.Items[i]
	}
	return pods
}

// see takes in one change of one pod.
func (w *witness) see(pod *corev1.Pod, gone bool) {
	old, known := w.pods[pod.UID]
	switch {
	case !known:
		w.made = append(w.made, pod.Name)
	case restarts(pod) > restarts(old):
		w.restarted = append(w.restarted, pod.Name)
	}
	ends := gone || pod.DeletionTimestamp != nil
	if ended := known && old.DeletionTimestamp != nil; ends && !ended {
		w.ended = append(w.ended, pod.Name)
	}
	w.pods[pod.UID] = pod
	if gone {
		delete(w.pods, pod.UID)
	}
}

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
	list, err := w.list(w.s.Context())
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
	w.count()
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
