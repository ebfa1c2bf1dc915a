// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// The events of a set, and the object of a node, can take seconds to read. Meanwhile a page shows what it has, and follows the watches.
func TestPagesFollowWhileDetailsAreRead(t *testing.T) {
	for path, slow := range map[string][2]string{
		"/api/set/stream" + setQuery:   {"list", "events"},
		"/api/node/stream?name=node-3": {"get", "nodes"},
	} {
		t.Run(path, func(t *testing.T) { followsWhile(t, path, slow) })
	}
}

func followsWhile(t *testing.T, path string, slow [2]string) {
	cluster := zoned(t, roll())
	watched := cluster.Watched("pods")
	reads := &slowReads{asked: make(chan struct{}, 1), answered: make(chan struct{})}
	cluster.Kubernetes.PrependReactor(slow[0], slow[1], reads.react)
	w := open(t, cluster)
	t.Cleanup(func() { close(reads.answered) }) // before the window closes
	<-watched
	reads.slow.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than detailsPatience
	defer cancel()
	messages := w.follow(ctx, path)
	<-messages
	awaitChange(t, cluster, messages)
}

// The policies are read once in a second, which can take seconds too. Meanwhile the last ones are used.
func TestPagesFollowWhilePoliciesAreRead(t *testing.T) {
	cluster := zoned(t, roll())
	begun := time.Now()
	cluster.Options.Now = func() time.Time { return fakecluster.Now().Add(time.Since(begun)) }
	watched := cluster.Watched("pods")
	reads := &slowReads{asked: make(chan struct{}, 1), answered: make(chan struct{})}
	cluster.Dynamic.PrependReactor("list", "rolloutpolicies", reads.react)
	w := open(t, cluster)
	t.Cleanup(func() { close(reads.answered) }) // before the window closes
	<-watched
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	messages := w.follow(ctx, "/api/set/stream"+setQuery)
	<-messages
	reads.slow.Store(true)
	<-reads.asked
	awaitChange(t, cluster, messages)
}

// slowReads is an API server that answers nothing while slow, until answered is closed. asked has an element once a read waits.
// Its reactor is added before anything reads: a fake client takes none at the same time.
type slowReads struct {
	slow            atomic.Bool
	asked, answered chan struct{}
}

func (s *slowReads) react(clienttesting.Action) (bool, runtime.Object, error) {
	if s.slow.Load() {
		select {
		case s.asked <- struct{}{}:
		default:
		}
		<-s.answered
	}
	return false, nil, nil
}

// awaitChange changes a pod, and waits until a page shows that.
func awaitChange(t *testing.T, cluster *fakecluster.Cluster, messages <-chan message) {
	t.Helper()
	name := "agent-node-3-" + fakecluster.NewHash[:3]
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	object, err := cluster.Kubernetes.Tracker().Get(pods, "default", name)
	if err != nil {
		t.Fatal(err)
	}
	pod := object.(*corev1.Pod).DeepCopy()
	pod.ResourceVersion, pod.Status.ContainerStatuses = "9", nil
	pod.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := cluster.Kubernetes.Tracker().Update(pods, pod, "default", metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for m := range messages {
		for _, data := range m.Items {
			var c struct{ V, Verdict string }
			if err := json.Unmarshal(data, &c); err != nil {
				t.Fatal(err)
			}
			if c.V+c.Verdict == "up-to-date" {
				return
			}
		}
	}
	t.Error("a change of a pod is not shown meanwhile")
}
