// SPDX-License-Identifier: Apache-2.0

// Package registry is the image registry for a plane's real nodes: plain HTTP, on one address, with a log of all
// requests, so that a test can check which node has pulled what, and when.
//
// Pushed images persist: blobs and manifests are files in one directory. The images of a plane are stored at each
// start, and replace images with their names.
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

// Options are the options of the registry.
type Options struct {
	// Listen is the address with port to listen on.
	Listen string
	// Dir is the directory of the images; it is created if it does not exist.
	Dir string
	// Log is the log file of requests (Entry).
	Log string
	// Latency is the delay before the first byte of each blob, to simulate a slow connection.
	Latency time.Duration
	// Images are the sources of the images of a plane; without Dir there are none.
	Images images.Sources
	// Password is the password of User.
	Password string
	// ReadyFile gets the pid of this process when the registry is ready; it is optional.
	ReadyFile string
}

// LatencyPath is where PUT with the parameter value=2s changes the latency while the registry runs.
const LatencyPath = "/_localplane/latency"

// Run serves until ctx ends.
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

// server is the registry with its log and its latency.
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
	// A second time: pushed images may have the same names, and were stored after them.
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

// wait waits, and reports whether ctx has not ended before.
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
