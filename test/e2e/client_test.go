// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/localplane/testapp"
	"everynode.dev/everynode/test/harness"
)

// asking is a process inside a node that asks the application.
type asking struct {
	s      *stage
	node   string
	out    buffer
	cancel context.CancelFunc
	ended  chan error
}

// buffer is written by one and read by another.
type buffer struct {
	mu  sync.Mutex
	raw bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.raw.Write(p)
}

func (b *buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.raw.Bytes())
}

// program is the application as a program of this machine, which can be run in any node.
func program(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(harness.BinDir(), "images", "testapp"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ask starts a client in a node, and returns when it was answered for the first time.
func (s *stage) ask(node string, args ...string) *asking {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	a := &asking{s: s, node: node, cancel: cancel, ended: make(chan error, 1)}
	argv := append([]string{program(s.t)}, args...)
	go func() {
		a.ended <- s.Cluster.Plane.NodeExec(ctx, node, argv, localplane.Streams{Out: &a.out, Err: &a.out})
	}()
	s.t.Cleanup(cancel)
	s.Poll("a client in "+node+" is answered", func() error {
		answers := a.answers()
		if len(answers) == 0 || !answers[len(answers)-1].OK {
			return fmt.Errorf("it has printed %.300s", a.out.Bytes())
		}
		return nil
	})
	return a
}

// probe has a client in a node ask 20 times a second. It gives a question up before the kernel tries a second time to connect, which
// is after a second: what has to be tried again is not answered.
func (s *stage) probe(node, url string) *asking {
	s.t.Helper()
	return s.ask(node, "probe", url, "--every", "50ms", "--timeout", "900ms")
}

// probes are clients in all nodes.
func (s *stage) probes(url string) []*asking {
	s.t.Helper()
	clients := make([]*asking, 0, count)
	for _, node := range s.Nodes {
		clients = append(clients, s.probe(node, url))
	}
	return clients
}

// answers are those so far.
func (a *asking) answers() []testapp.Answer {
	answers, err := testapp.ReadAnswers(a.out.Bytes())
	if err != nil {
		a.s.t.Fatalf("the client in %s: %v\n%s", a.node, err, a.out.Bytes())
	}
	return answers
}

// answered waits until a question that is asked from now on was answered.
func (a *asking) answered() {
	a.s.t.Helper()
	now := time.Now()
	a.s.Poll("a client in "+a.node+" is answered", func() error {
		if last := a.last(); last == nil || last.Time.Before(now) {
			return errors.New("it is not")
		}
		return nil
	})
}

// last is the last question that was answered as it should.
func (a *asking) last() *testapp.Answer {
	answers := a.answers()
	for i := len(answers) - 1; i >= 0; i-- {
		if answers[i].OK {
			return &answers[i]
		}
	}
	return nil
}

// arrival is when an answer came.
func arrival(a testapp.Answer) time.Time { return a.Time.Add(a.Latency) }

// sinceFirst are the answers in the order in which they came, from the first one that is as it should be. What was asked before that one
// came does not count: the node may not have known the Service yet.
func sinceFirst(answers []testapp.Answer) []testapp.Answer {
	answers = slices.SortedFunc(slices.Values(answers), func(a, b testapp.Answer) int { return arrival(a).Compare(arrival(b)) })
	first := slices.IndexFunc(answers, func(a testapp.Answer) bool { return a.OK })
	if first < 0 {
		return answers
	}
	begin := arrival(answers[first])
	return slices.DeleteFunc(answers, func(a testapp.Answer) bool { return arrival(a).Before(begin) || a.Time.Before(begin) && !a.OK })
}

// stop ends the client after one more answer, and returns all since the first.
func (a *asking) stop() []testapp.Answer {
	a.s.t.Helper()
	a.answered()
	a.cancel()
	err := <-a.ended
	var exit *exec.ExitError
	if err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, &exit) {
		a.s.t.Errorf("the client in %s: %v", a.node, err)
	}
	return sinceFirst(a.answers())
}

// noGap ends the client and fails if a question was not answered.
func (a *asking) noGap() {
	a.s.t.Helper()
	answers := a.stop()
	if err := failures(answers); err != nil {
		a.s.t.Errorf("the client in %s: %v", a.node, err)
	}
	a.s.t.Logf("the client in %s was answered %d times, the longest time between two answers was %s", a.node, len(answers), longestGap(answers))
}

// failures tells the questions that were not answered as they should.
func failures(answers []testapp.Answer) error {
	var failed []string
	for _, answer := range answers {
		if !answer.OK {
			failed = append(failed, fmt.Sprintf("%s %d %s%s", answer.Time.Format("15:04:05.000"), answer.Status, answer.Body, answer.Error))
		}
	}
	if len(failed) == 0 && len(answers) > 0 {
		return nil
	}
	return fmt.Errorf("%d of %d questions were not answered:\n%s", len(failed), len(answers), strings.Join(failed[:min(len(failed), 10)], "\n"))
}

// longestGap is the longest time in which no answer came that was as it should be.
func longestGap(answers []testapp.Answer) time.Duration {
	var longest time.Duration
	var last time.Time
	for _, answer := range answers {
		if !answer.OK {
			continue
		}
		if !last.IsZero() {
			longest = max(longest, arrival(answer).Sub(last))
		}
		last = arrival(answer)
	}
	return longest
}

// TestGaps: what counts as a gap, and as a failure.
func TestGaps(t *testing.T) {
	at := func(ms int, ok bool) testapp.Answer { return testapp.Answer{Time: time.UnixMilli(int64(ms)), OK: ok} }
	late := func(ms, latency int) testapp.Answer {
		return testapp.Answer{Time: time.UnixMilli(int64(ms)), Latency: time.Duration(latency) * time.Millisecond, OK: true}
	}
	for _, c := range []struct {
		answers []testapp.Answer
		gap     time.Duration
		fails   bool
	}{
		{[]testapp.Answer{at(0, true), at(50, true), at(120, true)}, 70 * time.Millisecond, false},
		{[]testapp.Answer{at(150, true), at(0, true), at(100, false), at(50, false)}, 150 * time.Millisecond, true},
		{[]testapp.Answer{at(0, false), at(50, true), at(100, false)}, 0, true},
		{[]testapp.Answer{at(50, true), at(0, false), at(100, true)}, 50 * time.Millisecond, false},
		{[]testapp.Answer{late(0, 1000), at(50, false), at(1050, true)}, 50 * time.Millisecond, false},
		{[]testapp.Answer{at(0, true), late(50, 1000), at(1100, true)}, 1050 * time.Millisecond, false},
		{[]testapp.Answer{at(0, false)}, 0, true},
		{nil, 0, true},
	} {
		answers := sinceFirst(c.answers)
		if gap := longestGap(answers); gap != c.gap || (failures(answers) != nil) != c.fails {
			t.Errorf("%v: gap %s, %v", answers, gap, failures(answers))
		}
	}
}

// fromOutside asks a pod from this machine, through the network of the nodes.
func (s *stage) fromOutside(address string, at int32, path string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return s.Cluster.Plane.DialNetwork(ctx, network, address)
		},
	}}
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, fmt.Sprintf("http://%s%s", net.JoinHostPort(address, fmt.Sprint(at)), path), nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	return strings.TrimSpace(body.String()), err
}
