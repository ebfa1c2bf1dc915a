// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"everynode.dev/everynode/internal/policy"
)

// An event that a target never accepts, and never refuses for good, delays those of its own namespace only.
func TestAnEventThatIsNeverAcceptedDelaysNoOtherNamespace(t *testing.T) {
	var target *receiver
	target = receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		status := http.StatusNoContent
		if strings.Contains(target.requests()[n-1].body, `"namespace":"tenant"`) {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
	})
	b := newBench(t, "", target.URL).run()
	of := func(namespace, wave string) policy.Notice {
		n := notice(wave)
		n.Set.Namespace = namespace
		return n
	}
	b.send(of("tenant", "one"), of("tenant", "two"), of("kube-system", "three"), of("kube-system", "four"))
	b.untilCounted("a sent", 2)
	var waves []string
	for _, r := range target.requests() {
		for _, wave := range []string{"three", "four"} {
			if strings.Contains(r.body, `"wave":"`+wave+`"`) {
				waves = append(waves, wave)
			}
		}
		if strings.Contains(r.body, `"wave":"two"`) {
			t.Error("the second event of the namespace was sent before the first one was accepted")
		}
	}
	if !slices.Equal(waves, []string{"three", "four"}) {
		t.Errorf("the events of the other namespace were %v", waves)
	}
	b.untilCounted("a retried", 5)
}

// Only the namespace of an event that is not accepted waits for the next attempt. An event of another namespace that comes in the meantime is sent at once.
func TestAnEventThatIsNeverAcceptedDelaysNoLaterOne(t *testing.T) {
	var target *receiver
	target = receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		status := http.StatusNoContent
		if strings.Contains(target.requests()[n-1].body, `"namespace":"tenant"`) {
			w.Header().Set("Retry-After", "300")
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
	})
	b := newBench(t, "", target.URL)
	b.backoff = wait.Backoff{Duration: 5 * time.Minute, Steps: 1} // as after some attempts
	b.run()
	poison, other := notice("one"), notice("two")
	poison.Set.Namespace = "tenant"
	b.send(poison)
	b.untilCounted("a retried", 1)
	b.send(other)
	for began := time.Now(); b.counted("a sent") == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			t.Fatal("the event of the other namespace waits for the next attempt of one that its tenant has caused")
		}
	}
}
