// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"everynode.dev/everynode/internal/testing/fakecluster"
)

// While the API server does not answer, a frame of the list waits for the policies once, and not once for each set: otherwise the list of 20 sets needs 100 seconds to say
// that it is not up to date, and that of 1,000 more than an hour.
func TestTheListWaitsForPoliciesOnce(t *testing.T) {
	const sets = 20
	var objects []runtime.Object
	for i := range sets {
		objects = append(objects, fakecluster.Roll{Name: fmt.Sprintf("agent-%d", i), Advanced: true}.Objects(t)...)
	}
	cluster := fakecluster.New(t, objects...)
	var mu sync.Mutex
	now, reads, silent := fakecluster.Now(), 0, false
	cluster.Options.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	cluster.Dynamic.PrependReactor("list", "rolloutpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if !silent {
			return false, nil, nil
		}
		reads, now = reads+1, now.Add(5*time.Second) // policyPatience
		return true, nil, errors.New("context deadline exceeded")
	})
	w := open(t, cluster)
	var m message
	if w.read(http.MethodGet, "/api/sets", "", &m); len(m.Items) != sets {
		t.Fatalf("there are %d sets", len(m.Items))
	}
	mu.Lock()
	silent, now = true, now.Add(allPace)
	mu.Unlock()
	w.read(http.MethodGet, "/api/sets", "", &m)
	mu.Lock()
	defer mu.Unlock()
	if reads > 2 {
		t.Errorf("one frame has waited %d times for the policies: %s", reads, time.Duration(reads)*5*time.Second)
	}
}
