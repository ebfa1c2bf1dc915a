// SPDX-License-Identifier: Apache-2.0

package testapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// crashDelay is the time until an application with CRASH=true crashes.
const crashDelay = time.Second

// errCrash is the result of an application with CRASH=true.
var errCrash = errors.New("crashing, as CRASH=true says")

// serve runs the application until ctx ends.
func serve(ctx context.Context, s settings, out io.Writer) error {
	if err := s.note(Started); err != nil {
		return err
	}
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	if s.crash {
		if pause(ctx, crashDelay) {
			return errCrash
		}
		return s.note(Stopped)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", s.port))
	if err != nil {
		return fmt.Errorf("listening at port %d: %w", s.port, err)
	}
	if _, err := fmt.Fprintf(out, "version %s serves at port %d\n", s.version, listener.Addr().(*net.TCPAddr).Port); err != nil {
		return fmt.Errorf("printing the version: %w", err)
	}
	if err := s.answer(ctx, listener); err != nil {
		return err
	}
	return s.note(Stopped)
}

// answer serves until ctx ends, then for the stop delay, and then finishes open requests.
func (s settings) answer(ctx context.Context, listener net.Listener) error {
	const headerTimeout = 10 * time.Second
	server := &http.Server{Handler: newApp(ctx, s), ReadHeaderTimeout: headerTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	// This takes longer than ctx, until a SIGKILL.
	late := context.WithoutCancel(ctx)
	pause(late, s.stopDelay)
	if err := server.Shutdown(late); err != nil {
		return fmt.Errorf("answering the last questions: %w", err)
	}
	return nil
}

// pause waits. It returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// app serves requests.
type app struct {
	settings
	readyAt time.Time
	// stopping ends when the application must stop.
	stopping context.Context

	mu sync.Mutex
	// open is the number of open requests, last the time when the last one came or was answered.
	open int
	last time.Time
}

func newApp(stopping context.Context, s settings) http.Handler {
	a := &app{settings: s, readyAt: time.Now().Add(s.readyDelay), stopping: stopping, last: time.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", a.counted(a.who))
	mux.HandleFunc("/slow", a.counted(a.slow))
	mux.HandleFunc("/ready", a.ready)
	mux.HandleFunc("/busy", a.busy)
	return mux
}

// counted counts the requests of a handler for /busy.
func (a *app) counted(handle http.HandlerFunc) http.HandlerFunc {
	count := func(n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.open += n
		a.last = time.Now()
	}
	return func(w http.ResponseWriter, r *http.Request) {
		count(1)
		defer count(-1)
		handle(w, r)
	}
}

// who returns version, pod and node.
func (a *app) who(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintf(w, "%s %s %s\n", a.version, a.pod, a.node) // the client may have disconnected
}

// slow returns the same after a delay.
func (a *app) slow(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.FormValue("for"))
	if err != nil {
		http.Error(w, fmt.Sprintf("for is %q: give a duration, as in /slow?for=500ms", r.FormValue("for")), http.StatusBadRequest)
		return
	}
	if pause(r.Context(), d) {
		a.who(w, r)
	}
}

// ready reports whether the application is ready.
func (a *app) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case a.stopping.Err() != nil:
		http.Error(w, "stopping", http.StatusServiceUnavailable)
	case time.Now().Before(a.readyAt):
		http.Error(w, "starting", http.StatusServiceUnavailable)
	default:
		_, _ = fmt.Fprintln(w, "ready")
	}
}

// busy returns the number of open requests, and the time without requests: a number and a duration.
func (a *app) busy(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := time.Since(a.last)
	if a.open > 0 {
		idle = 0
	}
	_, _ = fmt.Fprintf(w, "%d %s\n", a.open, idle)
}
