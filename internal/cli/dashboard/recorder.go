// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"everynode.dev/everynode/internal/cli/inspect"
	"everynode.dev/everynode/internal/clustercache"
)

const (
	// recordPace is the minimum time between two looks at a set that changes, quietPace the time between looks at one that does not. While its page is viewed, each
	// frame is a look.
	recordPace = 2 * time.Second
	quietPace  = 10 * time.Second
	// recordedFor is how long a set is recorded after its page was open last.
	recordedFor = 6 * time.Hour
)

// recorder records the sets whose pages are or were open. Nothing is recorded of other sets, and nothing is written to a disk.
type recorder struct {
	// wake receives a value when a set is new.
	wake chan struct{}
	// most is the maximum number of entries.
	most int

	mu   sync.Mutex
	sets map[clustercache.Key]*recorded
}

// recorded is a set that is recorded.
type recorded struct {
	recording
	viewers int
	// viewed is when the last viewer left, looked when the set was looked at.
	viewed, looked time.Time
	changed        bool
	// tooLarge reports whether there was no room for its nodes.
	tooLarge bool
}

func newRecorder() *recorder {
	return &recorder{wake: make(chan struct{}, 1), most: mostEntries, sets: map[clustercache.Key]*recorded{}}
}

// view begins to record a set, if that has not begun before. leave must be called when its page is closed.
func (r *recorder) view(key clustercache.Key, now func() time.Time) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := r.sets[key]
	if set == nil {
		set = &recorded{}
		r.sets[key] = set
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	set.viewers++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		set.viewers, set.viewed = set.viewers-1, now()
	})
}

// touch says that a set has changed.
func (r *recorder) touch(key clustercache.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if set := r.sets[key]; set != nil {
		set.changed = true
	}
}

// due returns the sets to look at now, and drops those whose pages were not open for long.
func (r *recorder) due(now time.Time) (keys []clustercache.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, set := range r.sets {
		switch since := now.Sub(set.looked); {
		case set.viewers == 0 && now.Sub(set.viewed) >= recordedFor:
			delete(r.sets, key)
		case set.looked.IsZero(), set.changed, since >= quietPace:
			set.looked, set.changed = now, false
			keys = append(keys, key)
		}
	}
	return keys
}

// take records a look at a set. A set that was deleted and created again is another set.
func (r *recorder) take(key clustercache.Key, uid types.UID, now time.Time, nodes []nodeState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := r.sets[key]
	if set == nil {
		return
	}
	set.looked = now
	if set.uid != uid {
		set.recording = recording{uid: uid}
	}
	set.look(moment(now.UnixMilli()), nodes)
	r.bound()
	set.tooLarge = set.now == nil
}

// forget drops what was recorded of a set that does not exist any more.
func (r *recorder) forget(key clustercache.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if set := r.sets[key]; set != nil {
		set.recording = recording{}
	}
}

// bound drops entries while there are too many: first recordings without changes of sets without a viewer, then changes, always those of the set with the most, and then recordings
// of sets that are viewed.
func (r *recorder) bound() {
	for {
		total := 0
		var idle, busiest, largest *recorded
		for _, set := range r.sets {
			size := set.size()
			total += size
			if size > 0 && set.viewers == 0 && len(set.changes) == 0 && (idle == nil || set.viewed.Before(idle.viewed)) {
				idle = set
			}
			if len(set.changes) > 0 && (busiest == nil || len(set.changes) > len(busiest.changes)) {
				busiest = set
			}
			if size > 0 && (largest == nil || size > largest.size()) {
				largest = set
			}
		}
		switch {
		case total <= r.most:
			return
		case idle != nil:
			idle.recording = recording{}
		case busiest != nil:
			busiest.fold(min(max(total-r.most, len(busiest.changes)/10), len(busiest.changes)))
		default:
			largest.recording = recording{}
		}
	}
}

var (
	errNotYetRecorded = errors.New("nothing has been recorded of it yet: try again in some seconds")
	errTooLarge       = errors.New("nothing is recorded of it: this set, and the others whose pages are open, have more nodes than the dashboard may record")
)

// past returns what was recorded of a set; an error if that is nothing.
func (r *recorder) past(key clustercache.Key) (past, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := r.sets[key]
	switch {
	case set == nil || set.now == nil && !set.tooLarge:
		return past{}, errNotYetRecorded
	case set.now == nil:
		return past{}, errTooLarge
	}
	return set.recording.past(), nil
}

// record looks at sets until ctx ends.
func (s *server) record(ctx context.Context) {
	for {
		for _, key := range s.recorder.due(s.o.Now()) {
			s.look(ctx, key)
		}
		if !wait(ctx, recordPace, s.recorder.wake) {
			return
		}
	}
}

// look records what the nodes of a set are like now.
func (s *server) look(ctx context.Context, key clustercache.Key) {
	now := s.o.Now()
	m, ok := s.fleet.At(ctx, key)
	if !ok {
		s.recorder.forget(key)
		return
	}
	s.seen(key, m, now)
}

// seen records what was read of a set. While the cluster does not answer, that is what was there before, and a gap follows.
func (s *server) seen(key clustercache.Key, m *inspect.Evaluation, at time.Time) {
	if s.lost() == "" {
		s.recorder.take(key, m.Workload.UID, at, statesOf(m))
	}
}

// past answers with what was recorded of a set.
func (s *server) past(w http.ResponseWriter, r *http.Request) {
	key, err := keyOf(r)
	if err == nil && s.fleet.WorkloadOf(key) == nil {
		err = errMissing
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	p, err := s.recorder.past(key)
	if err != nil {
		fail(w, http.StatusNotFound, err.Error())
		return
	}
	answer(w, p)
}
