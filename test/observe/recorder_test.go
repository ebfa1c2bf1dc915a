// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// server is an API server of one kind: its lists, and the watches that the recorder opens. A watch gets what the
// test sends it, so events can be lost on purpose.
type server struct {
	mu      sync.Mutex
	version int
	pods    map[types.UID]*corev1.Pod
	from    []string
	refuse  error
	opened  chan *watch.FakeWatcher
}

func newServer() *server {
	return &server{version: 1, pods: map[types.UID]*corev1.Pod{}, opened: make(chan *watch.FakeWatcher, 10)}
}

// put changes a pod and returns what a watch would send.
func (s *server) put(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(s.version),
	}}
	s.pods[pod.UID] = pod
	return pod
}

func (s *server) source() source {
	return source{
		name: "pods",
		list: func(context.Context) (string, []metav1.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			var objects []metav1.Object
			for _, pod := range s.pods {
				objects = append(objects, pod)
			}
			return fmt.Sprint(s.version), objects, nil
		},
		watch: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.refuse != nil {
				return nil, s.refuse
			}
			w := watch.NewFake()
			s.from = append(s.from, options.ResourceVersion)
			s.opened <- w
			return w, nil
		},
		holds: func(metav1.Object) bool { return true },
	}
}

func (s *server) record(t *testing.T) *Recorder {
	t.Helper()
	r, err := record(t.Context(), rules(), []source{s.source()})
	if err != nil {
		t.Fatal(err)
	}
	r.patience = 200 * time.Millisecond
	return r
}

func TestRecorderTakesUpABrokenWatchWhereItEnded(t *testing.T) {
	s := newServer()
	s.put("a")
	r := s.record(t)
	first := <-s.opened
	first.Add(s.put("b"))
	first.Stop()
	second := <-s.opened
	second.Add(s.put("c"))
	if _, err := r.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.from); got != "[2 3]" {
		t.Errorf("watches began at %s, want [2 3]", got)
	}
	if r.PodEvents() != 3 {
		t.Errorf("%d pods recorded, want 3", r.PodEvents())
	}
}

func TestRecorderReportsAnExpiredWatch(t *testing.T) {
	tests := map[string]func(s *server, open *watch.FakeWatcher){
		"refused when it is opened again": func(s *server, open *watch.FakeWatcher) {
			s.mu.Lock()
			s.refuse = apierrors.NewResourceExpired("too old resource version: 1 (9)")
			s.mu.Unlock()
			open.Stop()
		},
		"ended by an event": func(_ *server, open *watch.FakeWatcher) {
			gone := apierrors.NewResourceExpired("too old resource version: 1 (9)").Status()
			open.Error(&gone)
		},
	}
	for name, expire := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			r := s.record(t)
			expire(s, <-s.opened)
			// The watch is opened again after a second.
			reported := func(context.Context) (bool, error) { return r.failure() != nil, nil }
			if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, reported); err != nil {
				t.Fatalf("no failure was reported: %v", err)
			}
			_, err := r.Finish(t.Context())
			if err == nil || !strings.Contains(err.Error(), "too old resource version") {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestRecorderNoticesALostEvent(t *testing.T) {
	s := newServer()
	r := s.record(t)
	open := <-s.opened
	open.Add(s.put("a"))
	s.put("lost")
	open.Add(s.put("b"))
	_, err := r.Finish(t.Context())
	if err == nil || !strings.Contains(err.Error(), "do not add up") {
		t.Fatalf("error %v", err)
	}
}

// putNext is put with another generation of the same object.
func (s *server) putNext(name string, generation int64) *corev1.Pod {
	pod := s.put(name)
	pod.Generation = generation
	return pod
}

// recordRenewed records a kind whose versions the server may forget.
func (s *server) recordRenewed(t *testing.T) *Recorder {
	t.Helper()
	renewed := s.source()
	renewed.renewed = true
	r, err := record(t.Context(), rules(), []source{renewed})
	if err != nil {
		t.Fatal(err)
	}
	r.patience = 2 * time.Second
	return r
}

func TestRecorderListsARenewedKindAgain(t *testing.T) {
	s := newServer()
	s.putNext("a", 1)
	r := s.recordRenewed(t)
	open := <-s.opened
	open.Modify(s.putNext("a", 2))
	s.putNext("a", 3) // no watch shows this one
	gone := apierrors.NewResourceExpired("too old resource version: 1 (9)").Status()
	open.Error(&gone)
	(<-s.opened).Modify(s.putNext("a", 4))
	if _, err := r.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.PodEvents() != 4 {
		t.Errorf("%d versions recorded, want 4", r.PodEvents())
	}
}

func TestRecorderNoticesALostGenerationOfARenewedKind(t *testing.T) {
	s := newServer()
	s.putNext("a", 1)
	r := s.recordRenewed(t)
	open := <-s.opened
	s.putNext("a", 2)
	s.putNext("a", 3)
	gone := apierrors.NewResourceExpired("too old resource version: 1 (9)").Status()
	open.Error(&gone)
	<-s.opened
	_, err := r.Finish(t.Context())
	if err == nil || !strings.Contains(err.Error(), "between generation 1 and 3 are lost") {
		t.Fatalf("error %v", err)
	}
}
