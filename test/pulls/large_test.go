// SPDX-License-Identifier: Apache-2.0

package pulls

import (
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"everynode.dev/everynode/api/kruise/v1beta1"
)

// largeTime is how long a job over 1,000 nodes may take that all begin at once; about a quarter of it is usual on two cores.
const largeTime = 2 * time.Minute

// columns are the numbers of a job, as kubectl get -w shows them.
type columns struct{ total, active, succeeded, failed int32 }

// columnsOf collects what a watch shows of the jobs, until the test ends.
func (w *world) columnsOf() func() []columns {
	w.t.Helper()
	var mu sync.Mutex
	var seen []columns
	w.t.Cleanup(w.follow(&v1beta1.ImagePullJobList{}, func(e watch.Event) {
		job, ok := e.Object.(*v1beta1.ImagePullJob)
		if !ok {
			return
		}
		now := columns{job.Status.Desired, job.Status.Active, job.Status.Succeeded, job.Status.Failed}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
	}))
	return func() []columns {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// TestJobOf1000: a job over 1,000 nodes that may all pull at once ends in time, its columns move while it runs, and they never go back.
func TestJobOf1000(t *testing.T) {
	const many = 1000
	w := newWorld(t, many)
	shown := w.columnsOf()
	began := time.Now()
	w.start("large", "agent:2", many)
	s := w.ended()["large"]
	took := time.Since(began)
	t.Logf("1,000 nodes had the image after %s, and a pull takes %s", took.Round(100*time.Millisecond), pullTime)
	if s.Desired != many || s.Succeeded != many || s.Failed != 0 || took > largeTime {
		t.Errorf("ended after %s as %+v", took, s)
	}
	all := shown()
	moved := 0
	for i, c := range all {
		if i > 0 && c.succeeded < all[i-1].succeeded || c.active > many || c.failed > 0 {
			t.Errorf("the columns went from %+v to %+v", all[max(0, i-1)], c)
		}
		if c.active > 0 && c.succeeded > 0 && c.succeeded < many {
			moved++
		}
	}
	if moved < 3 {
		t.Errorf("on the way the columns showed %d states: %+v", moved, all)
	}
}
