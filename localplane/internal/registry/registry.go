// SPDX-License-Identifier: Apache-2.0

// Package registry is the registry of images of a plane's real nodes: plain HTTP, on one address, with a log in which each
// request is one line, so that a test can tell which node has pulled what, and when.
//
// What is pushed stays: blobs and manifests are files in one directory. The images that come with a plane are put there at each
// start, over whatever has their names.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/images"
)

// Options say where the registry is and what is in it.
type Options struct {
	// Listen is the address with port on which it answers.
	Listen string
	// Dir is the directory of what is pushed; it is made if it is not there.
	Dir string
	// Log is the file that gets a line for each request (Entry).
	Log string
	// Latency is how long each blob lets a client wait for its first byte, as a slow line would.
	Latency time.Duration
	// Images are what the images that come with a plane are made from; without Dir there are none.
	Images images.Sources
	// Password is that of User.
	Password string
	// ReadyFile gets this process's pid when the registry answers; empty tells nobody.
	ReadyFile string
}

// LatencyPath is where PUT with the parameter value=2s changes the latency while the registry runs.
const LatencyPath = "/_localplane/latency"

// Run answers until ctx ends.
func Run(ctx context.Context, o Options) error {
	if o.Password == "" {
		return errors.New("the registry needs a password: without one everybody on this machine could decide what nodes run")
	}
	if o.Latency < 0 {
		return fmt.Errorf("the registry's latency is %s: give 0 or a time such as 2s", o.Latency)
	}
	s, err := newServer(ctx, o)
	if err != nil {
		return err
	}
	defer s.log.close()
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("opening the registry's address: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if o.ReadyFile != "" {
		if err := home.WriteFile(o.ReadyFile, []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
			return err
		}
		defer os.Remove(o.ReadyFile)
	}
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("answering on %s: %w", o.Listen, err)
	}
	return nil
}

// server is the registry with its log and its slow line.
type server struct {
	registry http.Handler
	password string
	blobs    *blobs
	log      *accessLog
	latency  atomic.Int64 // a time.Duration
}

func newServer(ctx context.Context, o Options) (*server, error) {
	disk, err := openBlobs(filepath.Join(o.Dir, "blobs"))
	if err != nil {
		return nil, err
	}
	handler := ggcr.New(ggcr.WithBlobHandler(disk), ggcr.Logger(log.New(io.Discard, "", 0)))
	shipped, err := ship(ctx, o.Images, disk, handler)
	if err != nil {
		return nil, err
	}
	manifests, pushed, err := openStore(filepath.Join(o.Dir, "manifests"), handler)
	if err != nil {
		return nil, err
	}
	// A second time: what was pushed may name them, and so comes after them, and may have their names.
	for _, k := range shipped {
		if err := put(handler, k); err != nil {
			return nil, err
		}
	}
	if err := disk.sweep(slices.Concat(pushed, shipped)); err != nil {
		return nil, err
	}
	lines, err := openLog(o.Log)
	if err != nil {
		return nil, err
	}
	s := &server{registry: manifests, password: o.Password, blobs: disk, log: lines}
	s.latency.Store(int64(o.Latency))
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	seen := &observed{ResponseWriter: w, status: http.StatusOK}
	if r.URL.Path != LatencyPath {
		defer func() { s.log.write(entry(r, begin, seen)) }()
	}
	if !s.allowed(seen, r) {
		return
	}
	if r.URL.Path == LatencyPath {
		s.changeLatency(seen, r)
		return
	}
	kind, _, reference := what(r.URL.Path)
	if kind != Blob || r.Method != http.MethodGet {
		s.registry.ServeHTTP(seen, r)
		return
	}
	if !wait(r.Context(), time.Duration(s.latency.Load())) {
		seen.status = statusGone
		return
	}
	if !s.blobs.serve(seen, r, reference) {
		s.registry.ServeHTTP(seen, r)
	}
}

func (s *server) changeLatency(w http.ResponseWriter, r *http.Request) {
	value := r.URL.Query().Get("value")
	d, err := time.ParseDuration(value)
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "change the latency with PUT "+LatencyPath+"?value=2s", http.StatusMethodNotAllowed)
	case err != nil || d < 0:
		http.Error(w, fmt.Sprintf("value is %q: give 0s or a time such as 2s", value), http.StatusBadRequest)
	default:
		s.latency.Store(int64(d))
		w.WriteHeader(http.StatusNoContent)
	}
}

// wait waits, and tells whether ctx has lasted that long.
func wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
