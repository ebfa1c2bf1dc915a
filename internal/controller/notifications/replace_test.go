// SPDX-License-Identifier: Apache-2.0

package notifications

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
)

// targetsAt are targets named a, b, ... at these addresses.
func targetsAt(t *testing.T, urls ...string) *Targets {
	t.Helper()
	text := head + "targets:\n"
	for i, url := range urls {
		text += fmt.Sprintf("- {name: %c, webhook: {url: %q}, signingKeyFiles: [%q]}\n", 'a'+i, url, keyFile(t, testKey))
	}
	targets, err := ParseTargets([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

// Targets are replaced while the manager runs: what waits for a target is sent to its new address, what was under way first, and a new target gets what follows.
func TestTargetsAreReplaced(t *testing.T) {
	down := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	up, other := receive(t, ok), receive(t, ok)
	b := newBench(t, "", down.URL)
	b.backoff = wait.Backoff{Duration: maxDelay, Steps: 1} // it waits for an attempt when the targets are replaced
	b.run().send(notice("one"), notice("two"))
	b.untilCounted("a retried", 1)
	b.Replace(targetsAt(t, up.URL, other.URL))
	b.untilCounted("a sent", 2)
	b.send(notice("three"))
	b.untilCounted("a sent", 3)
	b.untilCounted("b sent", 1)
	for i, wave := range []string{"one", "two", "three"} {
		if got := up.requests()[i].body; !strings.Contains(got, `"wave":"`+wave+`"`) {
			t.Errorf("event %d is %s", i, got)
		}
	}
	b.Replace(targetsAt(t))
	b.send(notice("four"))
	if got := len(other.requests()); got != 1 || b.counted("a dropped")+b.counted("a failed") != 0 {
		t.Errorf("%d events, counts %v", got, b.counts)
	}
}

// A file that is read again names the certificates that count.
func TestFilesOfTargets(t *testing.T) {
	text := "targets: [{name: a, webhook: {url: 'https://a', caFile: /a.crt}}, {name: b}, {name: c, webhook: {url: 'https://c'}}]"
	if got := Files([]byte(text)); len(got) != 1 || got[0] != "/a.crt" || Files([]byte("nonsense")) != nil {
		t.Errorf("%q", got)
	}
}
