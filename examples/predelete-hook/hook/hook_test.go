// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"everynode.dev/everynode/api/kruise"
)

const nodeName = "node-0001"

// pod is a pod that runs and has both blocks.
func pod(edit func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "agent-1", UID: "uid-1",
			Labels:     map[string]string{"app": "agent", DefaultLabel: "true"},
			Finalizers: []string{"example.io/of-somebody-else", DefaultFinalizer},
		},
		Spec: corev1.PodSpec{NodeName: nodeName},
	}
	edit(p)
	return p
}

func preparing(p *corev1.Pod) { p.Labels[kruise.LifecycleState] = kruise.LifecyclePreparingDelete }

func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "uid-of-node"}}
}

// blocks are those that the pod still has in the API.
func blocks(t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	p, err := client.CoreV1().Pods("default").Get(t.Context(), "agent-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left := slices.Clone(p.Finalizers)
	if _, ok := p.Labels[DefaultLabel]; ok {
		left = append(left, DefaultLabel)
	}
	return left
}

func TestRelease(t *testing.T) {
	const foreign = "example.io/of-somebody-else"
	both := Options{Label: DefaultLabel, Finalizer: DefaultFinalizer}
	for _, c := range []struct {
		name    string
		options Options
		pod     *corev1.Pod
		worked  bool
		want    []string
	}{
		{"runs", both, pod(func(*corev1.Pod) {}), false, []string{foreign, DefaultFinalizer, DefaultLabel}},
		{"prepared", both, pod(preparing), true, []string{foreign}},
		{"prepared, label only", Options{Label: DefaultLabel}, pod(preparing), true, []string{foreign, DefaultFinalizer}},
		{"prepared, finalizer only", Options{Finalizer: DefaultFinalizer}, pod(preparing), true, []string{foreign, DefaultLabel}},
		{"prepared, nothing of ours", Options{Label: "example.io/other"}, pod(preparing), false, []string{foreign, DefaultFinalizer, DefaultLabel}},
		{"deleted by somebody", both, pod(deleted), true, []string{foreign}},
		{"deleted by somebody, no finalizer of ours", Options{Label: DefaultLabel}, pod(deleted), false, []string{foreign, DefaultFinalizer, DefaultLabel}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(c.pod, node())
			worked := false
			c.options.Work = func(_ context.Context, _ *corev1.Pod, n *corev1.Node) error {
				worked = n != nil && n.Name == nodeName
				return nil
			}
			r := releaser{Options: c.options, client: client}
			if err := r.Release(t.Context(), c.pod); err != nil {
				t.Fatal(err)
			}
			if got := blocks(t, client); worked != c.worked || !slices.Equal(got, c.want) {
				t.Errorf("worked is %t, blocks left are %q; want %t, %q", worked, got, c.worked, c.want)
			}
		})
	}
}

// TestTheNodeIsGone: the work is told, the pod is released all the same.
func TestTheNodeIsGone(t *testing.T) {
	p := pod(preparing)
	client := fake.NewClientset(p)
	told := false
	r := releaser{client: client, Options: Options{Label: DefaultLabel, Work: func(_ context.Context, _ *corev1.Pod, n *corev1.Node) error {
		told = n == nil
		return nil
	}}}
	if err := r.Release(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := blocks(t, client); !told || slices.Contains(got, DefaultLabel) {
		t.Errorf("the work was told that the node is gone: %t; blocks left are %q", told, got)
	}
}

// TestNothingIsReleasedBeforeTheWorkIsDone: neither when the work fails, nor when it is not known whether the node exists.
func TestNothingIsReleasedBeforeTheWorkIsDone(t *testing.T) {
	p := pod(preparing)
	client := fake.NewClientset(p, node())
	r := releaser{client: client, Options: Options{Label: DefaultLabel, Work: func(context.Context, *corev1.Pod, *corev1.Node) error {
		return errors.New("no place")
	}}}
	if err := r.Release(t.Context(), p); err == nil || err.Error() != "working for pod default/agent-1: no place" {
		t.Errorf("got error %v", err)
	}
	client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("timed out")
	})
	if err := r.Release(t.Context(), p); err == nil || !strings.HasPrefix(err.Error(), "looking for the node of pod default/agent-1") {
		t.Errorf("got error %v", err)
	}
	if got := blocks(t, client); !slices.Contains(got, DefaultLabel) {
		t.Errorf("the pod was released: blocks left are %q", got)
	}
}

func TestReserve(t *testing.T) {
	p := pod(preparing)
	client := fake.NewClientset(p, node())
	work := Reserve(client, clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	if err := work(t.Context(), p, nil); err != nil {
		t.Errorf("a node that is gone: %v", err)
	}
	if err := work(t.Context(), p, node()); err != nil {
		t.Fatal(err)
	}
	n, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Annotations["reserved.example.io/default.agent"]; got != "2026-01-02T03:04:05Z" {
		t.Errorf("the node has annotations %q", n.Annotations)
	}
}

func TestReservedKeyIsValid(t *testing.T) {
	p := pod(func(p *corev1.Pod) { p.Namespace, p.Labels["app"] = strings.Repeat("n", 62), "agent" })
	if got, want := ReservedKey(p), ReservedPrefix+strings.Repeat("n", 62); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRunWithNothingToRelease(t *testing.T) {
	if err := RunWith(t.Context(), fake.NewClientset(), Options{}); err == nil {
		t.Error("it runs although there is nothing that it could do")
	}
}

// TestRunTriesAgain: a pod that is prepared while the controller runs is released, though the work fails at first.
func TestRunTriesAgain(t *testing.T) {
	client := fake.NewClientset(pod(func(*corev1.Pod) {}), node())
	released := make(chan struct{})
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(released)
		return false, nil, nil
	})
	watching, once := make(chan struct{}), sync.Once{}
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		once.Do(func() { close(watching) })
		return true, w, err
	})
	tries := 0
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- RunWith(ctx, client, Options{Label: DefaultLabel, Work: func(context.Context, *corev1.Pod, *corev1.Node) error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		}})
	}()
	<-watching
	if _, err := client.CoreV1().Pods("default").Update(t.Context(), pod(preparing), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-released:
	case <-time.After(time.Minute):
		t.Fatal("the pod was not released within a minute")
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
