// SPDX-License-Identifier: Apache-2.0

package testapp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// running is an application that serves.
type running struct {
	url  string
	stop context.CancelFunc
	done chan error
}

// start runs the application with an environment, and returns when it serves.
func start(t *testing.T, environment map[string]string) running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	out, in := io.Pipe()
	r := running{stop: stop, done: make(chan error, 1)}
	go func() {
		err := Run(ctx, Invocation{Getenv: environ(environment), Out: in})
		_ = in.Close()
		r.done <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	var port int
	if _, scanErr := fmt.Sscanf(line, "version "+environment["VERSION"]+" serves at port %d", &port); err != nil || scanErr != nil {
		t.Fatalf("the application prints %q (%v, %v) and ends with %v", line, err, scanErr, <-r.done)
	}
	r.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	return r
}

// environ has the application serve at any port.
func environ(environment map[string]string) func(string) string {
	return func(name string) string {
		if value, set := environment[name]; set || name != "PORT" {
			return value
		}
		return "0"
	}
}

func (r running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		t.Errorf("the application ends with %v", err)
	}
}

// asked is what is answered, and its status.
func asked(t *testing.T, url string) (string, int) {
	t.Helper()
	body, status, err := newClient(io.Discard, time.Minute).exchange(t.Context(), http.MethodGet, url)
	if err != nil {
		t.Fatalf("asking %s: %v", url, err)
	}
	return strings.TrimSpace(body), status
}

func TestAnswersWhoItIs(t *testing.T) {
	r := start(t, map[string]string{"VERSION": "v1", "POD": "app-x", "NODE": "real-1"})
	defer r.end(t)
	for path, want := range map[string]string{
		"/": "v1 app-x real-1", "/slow?for=1ms": "v1 app-x real-1", "/ready": "ready", "/slow": `for is "": give a duration, as in /slow?for=500ms`,
		"/other": "404 page not found",
	} {
		body, status := asked(t, r.url+path)
		if wantOK := path != "/slow" && path != "/other"; body != want || (status == http.StatusOK) != wantOK {
			t.Errorf("%s is answered %d %q, want %q", path, status, body, want)
		}
	}
}

func TestIsReadyAfterItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := newApp(t.Context(), settings{readyDelay: 10 * time.Second})
		if status := statusOf(handler); status != http.StatusServiceUnavailable {
			t.Errorf("at the start it is %d", status)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if status := statusOf(handler); status != http.StatusServiceUnavailable {
			t.Errorf("just before its time it is %d", status)
		}
		time.Sleep(time.Nanosecond)
		if status := statusOf(handler); status != http.StatusOK {
			t.Errorf("at its time it is %d", status)
		}
	})
}

func statusOf(handler http.Handler) int {
	w := status{header: http.Header{}, code: http.StatusOK}
	request, _ := http.NewRequest(http.MethodGet, "/ready", nil)
	handler.ServeHTTP(&w, request)
	return w.code
}

// status is a response of which nobody reads more than the status.
type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header         { return s.header }
func (s *status) WriteHeader(code int)        { s.code = code }
func (s *status) Write(b []byte) (int, error) { return len(b), nil }

// TestStopsInOrder: after the signal it is not ready, still answers for the delay, and ends with the last question.
func TestStopsInOrder(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	r := start(t, map[string]string{"VERSION": "v1", "STOP_DELAY": "300ms", "JOURNAL": journal})
	slow := make(chan Answer, 1)
	go func() {
		slow <- newClient(io.Discard, time.Minute).ask(context.WithoutCancel(t.Context()), r.url+"/slow?for=1s")
	}()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if body, _ := asked(t, r.url+"/busy"); body == "1 0s" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a question is open, and it says %q", body)
		}
	}
	r.stop()
	if _, status := asked(t, r.url+"/ready"); status != http.StatusServiceUnavailable {
		t.Errorf("after the signal /ready is %d", status)
	}
	if body, _ := asked(t, r.url+"/"); !strings.HasPrefix(body, "v1") {
		t.Errorf("in its delay it answers %q", body)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if answer := <-slow; !answer.OK {
		t.Errorf("the question that was open is answered %+v", answer)
	}
	if answer := newClient(io.Discard, time.Second).ask(t.Context(), r.url); answer.OK || answer.Error == "" {
		t.Errorf("after its end it is answered %+v", answer)
	}
	wantJournal(t, journal, "start v1", "stop v1")
}

// wantJournal compares kind and version of each event.
func wantJournal(t *testing.T, name string, want ...string) []Event {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	events, err := ReadJournal(raw)
	if err != nil {
		t.Fatal(err)
	}
	have := []string{}
	for _, e := range events {
		have = append(have, e.Event+" "+e.Version)
	}
	if strings.Join(have, ", ") != strings.Join(want, ", ") {
		t.Errorf("the journal has %q, want %q", have, want)
	}
	return events
}

// TestNotesOverlaps: of two that run at a time the second says so, and one that follows another does not.
func TestNotesOverlaps(t *testing.T) {
	dir := t.TempDir()
	journal, lock := filepath.Join(dir, "journal"), filepath.Join(dir, "lock")
	of := func(version string) map[string]string {
		return map[string]string{
			"VERSION": version, "JOURNAL": journal, "LOCK": lock, "POD": "app-" + version, "POD_UID": "uid-" + version, "NODE": "real-1", "CONTAINER": "main",
		}
	}
	first := start(t, of("v1"))
	second := start(t, of("v2"))
	second.end(t)
	first.end(t)
	start(t, of("v3")).end(t)
	events := wantJournal(t, journal, "start v1", "start v2", "overlap v2", "stop v2", "stop v1", "start v3", "stop v3")
	want := Event{Event: Overlapped, Time: events[2].Time, Version: "v2", Pod: "uid-v2", Container: "main", Name: "app-v2", Node: "real-1"}
	if events[2] != want || events[2].Time.IsZero() {
		t.Errorf("the overlap is %+v, want %+v", events[2], want)
	}
}

func TestCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := filepath.Join(t.TempDir(), "journal")
		begun := time.Now()
		getenv := environ(map[string]string{"VERSION": "v1", "CRASH": "true", "JOURNAL": journal})
		if err := Run(t.Context(), Invocation{Getenv: getenv, Out: io.Discard}); !errors.Is(err, errCrash) {
			t.Errorf("it ends with %v", err)
		}
		if lived := time.Since(begun); lived != crashDelay {
			t.Errorf("it lived for %s", lived)
		}
		wantJournal(t, journal, "start v1")

		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := Run(stopped, Invocation{Getenv: getenv, Out: io.Discard}); err != nil {
			t.Errorf("one that is stopped before ends with %v", err)
		}
	})
}

func TestRefusesWrongSettings(t *testing.T) {
	for name, value := range map[string]string{"PORT": "http", "READY_DELAY": "10", "STOP_DELAY": "-1s", "CRASH": "maybe"} {
		err := Run(t.Context(), Invocation{Getenv: environ(map[string]string{name: value}), Out: io.Discard})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), name+` is "`+value+`": set it to `) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	for _, name := range []string{"JOURNAL", "LOCK"} {
		nowhere := filepath.Join(t.TempDir(), "no", "such", "directory")
		if err := Run(t.Context(), Invocation{Getenv: environ(map[string]string{name: nowhere}), Out: io.Discard}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s in no directory: %v", name, err)
		}
	}
}

func TestReadsNoBrokenJournal(t *testing.T) {
	if _, err := ReadJournal([]byte("{\"event\":\"start\"}\nstart\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a journal with a broken line: %v", err)
	}
}
