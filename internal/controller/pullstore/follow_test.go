// SPDX-License-Identifier: Apache-2.0

package pullstore

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
)

func pod(name, node string, set string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": set}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// told collects of which jobs Pods tells.
type told struct {
	mu   sync.Mutex
	jobs []string
}

func (t *told) add(job types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs = append(t.jobs, job.Name)
}

func (t *told) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.jobs)
	said := strings.Join(t.jobs, " ")
	t.jobs = nil
	return said
}

// watched are the selectors of the watches that were asked for.
func watched(c *kubernetesfake.Clientset) []string {
	var all []string
	for _, a := range c.Actions() {
		if w, ok := a.(clienttesting.WatchAction); ok {
			r := w.GetWatchRestrictions()
			all = append(all, w.GetNamespace()+": "+r.Labels.String()+"; "+r.Fields.String())
		}
	}
	return all
}

func TestPodsOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := kubernetesfake.NewClientset(pod("a1", "n1", "a"), pod("a2", "n2", "a"), pod("a3", "", "a"), pod("b1", "n9", "b"))
		ctx, cancel := context.WithCancel(t.Context())
		pods, said := NewPods(c), &told{}
		pods.Changed = said.add
		nodes := func(job, set string) string {
			n, known := pods.Nodes(ctx, key(job), app(set))
			if !known {
				return "?"
			}
			return strings.Join(slices.Sorted(maps.Keys(n)), " ")
		}
		if got := nodes("one", "a"); got != "?" {
			t.Errorf("before they are read: %q", got)
		}
		synctest.Wait()
		if got := nodes("one", "a"); got != "n1 n2" || said.take() != "one" {
			t.Errorf("nodes %q", got)
		}
		if got := nodes("two", "a"); got != "n1 n2" {
			t.Errorf("what another job knows: %q", got)
		}
		want := []string{"ns: app=a; spec.nodeName!=,status.phase!=Failed,status.phase!=Succeeded"}
		if got := watched(c); !slices.Equal(got, want) {
			t.Errorf("watches %q, want %q", got, want)
		}
		change := func(p *corev1.Pod, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		api := c.CoreV1().Pods("ns")
		change(api.Update(ctx, pod("a1", "n1", "a"), metav1.UpdateOptions{}))
		change(api.Create(ctx, pod("a4", "n1", "a"), metav1.CreateOptions{}))
		change(nil, api.Delete(ctx, "a1", metav1.DeleteOptions{}))
		if got := nodes("one", "a"); got != "n1 n2" || said.take() != "" {
			t.Errorf("one pod in the place of another: nodes %q", got)
		}
		ended := pod("a2", "n2", "a")
		ended.Status.Phase = corev1.PodSucceeded
		change(api.Update(ctx, ended, metav1.UpdateOptions{}))
		if got := nodes("two", "a"); got != "n1" || said.take() != "one two" {
			t.Errorf("a pod has ended: nodes %q", got)
		}
		change(api.Update(ctx, pod("a3", "n3", "a"), metav1.UpdateOptions{}))
		if got := nodes("two", "a"); got != "n1 n3" || said.take() != "one two" {
			t.Errorf("a pod was bound: nodes %q", got)
		}
		pods.End(key("one"))
		change(nil, api.Delete(ctx, "a4", metav1.DeleteOptions{}))
		if got := nodes("two", "a"); got != "n3" || said.take() != "two" {
			t.Errorf("one job has ended: nodes %q", got)
		}
		nodes("two", "b") // it says otherwise now
		synctest.Wait()
		if got := nodes("two", "b"); got != "n9" || len(pods.pods) != 1 {
			t.Errorf("nodes %q, %d watches", got, len(pods.pods))
		}
		if n, known := pods.Nodes(ctx, key("two"), &metav1.LabelSelector{MatchLabels: map[string]string{"?": "?"}}); !known || len(n) != 0 || len(pods.pods) != 0 {
			t.Errorf("a selector that cannot be read: nodes %v, %d watches", n, len(pods.pods))
		}
		nodes("three", "a")
		synctest.Wait()
		cancel()
		pods.Wait()
	})
}

// A list that comes anew, after the watch was lost, says what has gone meanwhile.
func TestPodsAreReplaced(t *testing.T) {
	said := &told{}
	s := newSelectedPods(said.add)
	s.follow(key("job"))
	transform := s.Transformer()
	list := func(pods ...*corev1.Pod) string {
		t.Helper()
		var all []any
		for i, p := range pods {
			var obj any = p
			if i%2 == 0 { // as when it is streamed
				obj, _ = transform(p)
			}
			all = append(all, obj)
		}
		if err := s.Replace(all, "1"); err != nil {
			t.Fatal(err)
		}
		n, _ := s.follow(key("job"))
		return strings.Join(slices.Sorted(maps.Keys(n)), " ")
	}
	for _, step := range []struct {
		pods       []*corev1.Pod
		nodes, say string
	}{
		{nil, "", "job"}, // that there are none is news, once
		{nil, "", ""},
		{[]*corev1.Pod{pod("a", "n1", "x"), pod("b", "n2", "x"), pod("c", "n2", "x")}, "n1 n2", "job"},
		{[]*corev1.Pod{pod("b", "n2", "x"), pod("d", "n1", "x")}, "n1 n2", ""}, // one in the place of another
		{[]*corev1.Pod{pod("d", "n1", "x")}, "n1", "job"},
	} {
		if got := list(step.pods...); got != step.nodes {
			t.Errorf("nodes %q, want %q", got, step.nodes)
		}
		if got := said.take(); got != step.say {
			t.Errorf("told %q, want %q", got, step.say)
		}
	}
}

// TestFollowedPodsAreSmall: of a pod that a job follows, what is kept is its name and a place in two tables.
func TestFollowedPodsAreSmall(t *testing.T) {
	const nodes, limit = 20000, 256
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	empty := heap()
	s := newSelectedPods(func(types.NamespacedName) {})
	streaming := toolscache.NewStore(toolscache.DeletionHandlingMetaNamespaceKeyFunc, toolscache.WithTransformer(s.Transformer()))
	for i := range nodes {
		p := pod(fmt.Sprintf("agent-%010x", i), fmt.Sprintf("ip-10-%03d-%03d.internal", i>>8, i&255), "agent")
		p.Annotations = map[string]string{"a": strings.Repeat("x", 1000)}
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		p = &corev1.Pod{}
		if err := p.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		if err := streaming.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Replace(streaming.List(), "1"); err != nil {
		t.Fatal(err)
	}
	listing := (heap() - empty) / nodes
	runtime.KeepAlive(streaming)
	streaming = nil
	kept := (heap() - empty) / nodes
	t.Logf("%d bytes a pod with its node, %d while they are listed", kept, listing)
	if kept > limit || listing > 3*limit || kept < 20 {
		t.Errorf("%d bytes a pod with its node, %d while they are listed; want at most %d and %d", kept, listing, limit, 3*limit)
	}
	if n, known := s.follow(key("job")); !known || len(n) != nodes {
		t.Errorf("%d nodes", len(n))
	}
}
