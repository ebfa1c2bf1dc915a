// SPDX-License-Identifier: Apache-2.0

package testapp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// run calls the program, and returns what it prints.
func run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := Run(ctx, Invocation{Args: args, Getenv: func(string) string { return "" }, Out: &out})
	return out.String(), err
}

// site answers with what handle says, and counts.
func site(t *testing.T, handle http.HandlerFunc) (url string, count *atomic.Int64) {
	t.Helper()
	count = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, count
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method+"\n") }

// TestProbeDoesNotWaitForAnswers: it goes on asking while the first questions are open, and prints an answer to each.
func TestProbeDoesNotWaitForAnswers(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int64
	url, count := site(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 5 {
			close(release)
		}
		<-release
		echo(w, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-release
		cancel()
	}()
	out, err := run(ctx, "probe", url, "--every", "5ms", "--timeout", "1m")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := ReadAnswers([]byte(out + `{"time":`))
	if err != nil || len(answers) < 5 || int64(len(answers)) != count.Load() {
		t.Fatalf("%d answers to %d questions: %v", len(answers), count.Load(), err)
	}
	for _, answer := range answers {
		if !answer.OK || answer.Body != http.MethodGet || answer.Status != http.StatusOK || answer.Latency <= 0 || answer.Time.IsZero() {
			t.Errorf("answer %+v", answer)
		}
	}
}

func TestProbeTellsFailures(t *testing.T) {
	url, _ := site(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) })
	mute, _ := site(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, c := range []struct {
		url    string
		status int
		says   string
	}{{url, 503, ""}, {mute, 0, "Timeout"}, {"http://127.0.0.1:1", 0, "refused"}} {
		out, err := run(t.Context(), "probe", c.url, "--duration", "1ms", "--every", "1m", "--timeout", "50ms")
		if err != nil {
			t.Fatal(err)
		}
		answers, err := ReadAnswers([]byte(out))
		if err != nil || len(answers) != 1 {
			t.Fatalf("%s: %q (%v)", c.url, out, err)
		}
		if a := answers[0]; a.OK || a.Status != c.status || (a.Error == "") != (c.says == "") || !strings.Contains(a.Error, c.says) {
			t.Errorf("%s: %+v", c.url, a)
		}
	}
}

// TestHoldKeepsQuestionsOpen: there are as many at a time as it was told, never more.
func TestHoldKeepsQuestionsOpen(t *testing.T) {
	all := make(chan struct{})
	var reached sync.Once
	var open atomic.Int64
	url, count := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch now := open.Add(1); {
		case now == 3:
			reached.Do(func() { close(all) })
		case now > 3:
			t.Errorf("%d questions are open", now)
		}
		<-all
		open.Add(-1) // before the answer, after which the client asks again
		echo(w, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-all
		cancel()
	}()
	out, err := run(ctx, "hold", url, "--connections", "3")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := ReadAnswers([]byte(out))
	if err != nil || int64(len(answers)) != count.Load() {
		t.Errorf("%d questions, %d answers (%v)", count.Load(), len(answers), err)
	}
	for _, answer := range answers {
		if !answer.OK {
			t.Errorf("answer %+v", answer)
		}
	}
}

func TestGetAndPost(t *testing.T) {
	url, _ := site(t, echo)
	for mode, want := range map[string]string{"get": "GET\n", "post": "POST\n"} {
		if out, err := run(t.Context(), mode, url); err != nil || out != want {
			t.Errorf("%s prints %q (%v)", mode, out, err)
		}
	}
	refusing, _ := site(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	if out, err := run(t.Context(), "get", refusing); err == nil || out != "no\n" {
		t.Errorf("what is refused is printed as %q (%v)", out, err)
	}
}

func TestCatAndSleep(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t.Context(), "cat", name); err != nil || out != "text\n" {
		t.Errorf("cat prints %q (%v)", out, err)
	}
	if _, err := run(t.Context(), "cat", name+".not"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := run(ctx, "sleep"); err != nil || ctx.Err() == nil {
		t.Errorf("sleep ends with %v before it is told to", err)
	}
}

func TestRefusesWrongArguments(t *testing.T) {
	for _, args := range []string{
		"dance", "probe", "probe --every 1s", "probe http://x --every 0s", "probe http://x --often 1s", "probe http://x http://y",
		"hold http://x --connections 0", "hold", "get", "post http://x http://y", "cat", "sleep 1",
	} {
		if _, err := run(t.Context(), strings.Fields(args)...); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
