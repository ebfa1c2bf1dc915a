// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"maps"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// received sets when the API server received the create that the last event shows.
func (s *tale) received(at time.Time) *tale {
	s.log[len(s.log)-1].Object.SetCreationTimestamp(metav1.NewTime(at))
	return s
}

// TestSlowCreates: a webhook holds a create back, and meanwhile the set gets another template.
func TestSlowCreates(t *testing.T) {
	for _, test := range []struct {
		name   string
		before bool
		want   []Invariant
	}{
		{"the API server had received it before", true, nil},
		{"the API server received it later", false, []Invariant{Limits}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTale(t, 2, plain).observed("b").excuse("a0").remove("a0")
			sent := s.now
			s.template("c").observed("c")
			if !test.before {
				sent = s.now
			}
			s.wait(time.Minute)
			s.create("late", "n0")
			s.pods["late"].Labels = map[string]string{"controller-revision-hash": "b"}
			s.log[len(s.log)-1].Object = s.pods["late"].DeepCopy()
			s.received(sent)
			wantInvariants(t, s.judge(), test.want...)
		})
	}
}

// TestSlowDeletes: a webhook holds a delete back, and meanwhile the pod has become what it may not be when it is deleted.
func TestSlowDeletes(t *testing.T) {
	undone := failing("a").revision("first", "1", 1)
	undone.change("old-a", func(pod *corev1.Pod) { pod.Labels = map[string]string{"controller-revision-hash": "1"} })
	undone.revision("second", "2", 2)
	sent := undone.now
	undone.revision("third", "1", 3).wait(time.Minute).terminate("old-a")

	recovered := failing("a", "b").terminate("old-a").unready("old-b")
	whileUnready := recovered.now
	recovered.ready("old-b").wait(time.Minute).terminate("old-b")

	for name, test := range map[string]struct {
		story *story
		pod   types.UID
		sent  time.Time
		want  Invariant
	}{
		"the pod is up to date again": {undone, "uid-old-a", sent, Kept},
		"the pod is available again":  {recovered, "uid-old-b", whileUnready, Budget},
	} {
		t.Run(name, func(t *testing.T) {
			r := rules()
			r.Outages = true
			wantInvariants(t, Judge(test.story.log, r), test.want)
			r.Received = map[types.UID]time.Time{test.pod: test.sent}
			wantInvariants(t, Judge(test.story.log, r))
			r.Received = map[types.UID]time.Time{test.pod: test.sent.Add(30 * time.Second)}
			wantInvariants(t, Judge(test.story.log, r), test.want)
		})
	}
}

// TestDeletes: what was refused had no effect, and what may have had one counts unless a later delete was carried out.
func TestDeletes(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	write := func(second int64, uid types.UID, code int32) Write {
		return Write{Sent: at(second), Manager: "m", Verb: "delete", Resource: "pods", UID: uid, Code: code}
	}
	user := write(1, "user", http.StatusOK)
	user.Manager = ""
	got := Deletes([]Write{
		user, write(1, "refused", http.StatusForbidden), write(1, "unknown", 0), write(1, "repeated", http.StatusGatewayTimeout),
		write(2, "repeated", http.StatusOK), write(3, "repeated", http.StatusOK),
	})
	if want := map[types.UID]time.Time{"unknown": at(1), "repeated": at(2)}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDecided: what took effect at once is judged at its own time, also where the API has whole seconds.
func TestDecided(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	created := func(before time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-before))}}
	}
	for before, want := range map[time.Duration]time.Time{0: now, certain: now, 6 * time.Second: now.Add(-6 * time.Second)} {
		if got := newWorld(Rules{}).decided(Event{Type: watch.Added, At: now}, nil, created(before)); !got.Equal(want) {
			t.Errorf("created %s before: %s, want %s", before, got, want)
		}
	}
	if got := newWorld(Rules{}).decided(Event{Type: watch.Modified, At: now}, created(time.Hour), created(time.Hour)); !got.Equal(now) {
		t.Errorf("a change of an old pod was decided at %s, want %s", got, now)
	}
}
