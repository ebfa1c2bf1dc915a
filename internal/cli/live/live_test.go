// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"net/url"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"everynode.dev/everynode/internal/clustercache"
	"everynode.dev/everynode/internal/dialect"
	"everynode.dev/everynode/internal/revision"
	"everynode.dev/everynode/internal/rollout"
)

func template(image string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}}}
}

// A set whose revision is not written yet is shown as it will be: every pod is old, none is unknown.
func TestLookAtASetThatWasJustChanged(t *testing.T) {
	index := clustercache.NewIndex(func(clustercache.Key) {})
	key := clustercache.Key{Dialect: "native", Namespace: "default", Name: "agent"}
	s := &Set{key: key, Fleet: &Fleet{index: index, memory: map[clustercache.Key]rollout.Memory{}}}
	if _, _, ok := s.Evaluate(1); ok {
		t.Error("a set that does not exist was seen")
	}
	index.PutNode(clustercache.Node{Name: "n1", RV: "1", Ready: true})
	index.PutSet(key, &dialect.Workload{Namespace: "default", Name: "agent", UID: "u", Template: template("two")})
	data, err := revision.Data(template("one"))
	if err != nil {
		t.Fatal(err)
	}
	index.PutRevision(clustercache.Revision{Namespace: "default", Name: "agent-a", UID: "r", RV: "2", Owner: "u", Hash: "a", Number: 1, Data: data})
	index.PutPod(clustercache.Pod{Namespace: "default", Name: "agent-1", UID: "p", RV: "3", Node: "n1", Owner: "u", Generation: -1,
		Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "a"}})
	snapshot, _, ok := s.Evaluate(1)
	if !ok || snapshot.Set.Update != 1 || snapshot.Revisions[1].Name != clustercache.Unwritten || snapshot.Nodes[0].Pods[0].Revision != 0 {
		t.Errorf("%v %+v", ok, snapshot)
	}
}

// What the API server answers is news. That nobody answers is none; that nobody asks any more says nothing.
func TestLost(t *testing.T) {
	request := func(err error) error { return &url.Error{Op: "Get", URL: "https://192.0.2.1/api/v1/pods", Err: err} }
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{nil, false}, {request(syscall.ECONNREFUSED), true}, {request(context.Canceled), false}, {apierrors.NewUnauthorized("who are you"), true},
		{apierrors.NewInternalError(syscall.EIO), true}, {apierrors.NewResourceExpired("too old"), false}, {apierrors.NewTooManyRequestsError("later"), false},
	} {
		s := &Fleet{lost: map[string]error{}}
		if s.recordListError("pods", c.err); (s.Lost() != nil) != c.lost {
			t.Errorf("%v: it is lost because of %v", c.err, s.Lost())
		}
	}
	turns := 0
	s := &Fleet{lost: map[string]error{}, turned: func() { turns++ }}
	for _, resource := range []string{"nodes", "pods", "pods"} {
		s.recordListError(resource, request(syscall.ECONNREFUSED))
	}
	if turns != 2 {
		t.Errorf("two connections are lost, and that is said %d times", turns)
	}
	if s.recordListError("pods", nil); s.Lost() == nil {
		t.Error("there is no news of nodes, and it is not lost")
	}
	if s.recordListError("nodes", nil); s.Lost() != nil {
		t.Errorf("there is news of all, and it is lost: %v", s.Lost())
	}
	if s.recordListError("nodes", nil); turns != 4 {
		t.Errorf("two connections were lost and are there again, and that is said %d times", turns)
	}
}

// The revision of an update tells when it began, but not where a set goes back to an old one.
func TestBegan(t *testing.T) {
	for name, c := range map[string]struct {
		made    []rollout.Time
		current int
		want    rollout.Time
	}{
		"the newest":                {[]rollout.Time{10, 20}, 1, 20},
		"the only one":              {[]rollout.Time{10}, 0, 10},
		"back to an old one":        {[]rollout.Time{20, 10}, 1, 0},
		"two of one time":           {[]rollout.Time{10, 10}, 1, 0},
		"one that is not written":   {[]rollout.Time{10}, -1, 0},
		"one whose time is missing": {[]rollout.Time{0}, 0, 0},
	} {
		v := View{History: &clustercache.Resolved{}}
		v.History.Current = c.current
		for _, at := range c.made {
			v.History.Revisions = append(v.History.Revisions, clustercache.Revision{Created: at})
		}
		if got := v.Began(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
