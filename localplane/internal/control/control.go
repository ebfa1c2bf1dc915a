// SPDX-License-Identifier: Apache-2.0

// Package control connects other commands to the supervisor of a running plane: HTTP over a Unix socket in the plane's
// home, which only its owner can access.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"everynode.dev/everynode/localplane/internal/home"
	"everynode.dev/everynode/localplane/internal/supervisor"
)

// Plane are the functions of a plane that can be called.
type Plane interface {
	Components(ctx context.Context) ([]supervisor.Status, error)
	KillComponent(ctx context.Context, name string) error
	StartComponent(ctx context.Context, name string) error
	// Down starts to stop the plane and returns.
	Down(ctx context.Context) error
}

const (
	pathComponents = "/v1/components"
	pathDown       = "/v1/down"
)

// failure is the body of a response other than 200.
type failure struct {
	Error string `json:"error"`
}

// Server serves the socket until Close.
type Server struct {
	http *http.Server
}

// Listen starts to serve plane.
func Listen(socket string, plane Plane) (*Server, error) {
	l, err := home.ListenSocket(socket)
	if err != nil {
		return nil, err
	}
	s := &Server{http: &http.Server{Handler: handler(plane), ReadHeaderTimeout: 5 * time.Second}}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Close stops serving. Requests in progress are cancelled.
func (s *Server) Close() error {
	return s.http.Close()
}

func handler(plane Plane) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathComponents, func(w http.ResponseWriter, r *http.Request) {
		list, err := plane.Components(r.Context())
		reply(w, list, err)
	})
	mux.HandleFunc("POST "+pathComponents+"/{name}/kill", func(w http.ResponseWriter, r *http.Request) {
		reply(w, nil, plane.KillComponent(r.Context(), r.PathValue("name")))
	})
	mux.HandleFunc("POST "+pathComponents+"/{name}/start", func(w http.ResponseWriter, r *http.Request) {
		reply(w, nil, plane.StartComponent(r.Context(), r.PathValue("name")))
	})
	mux.HandleFunc("POST "+pathDown, func(w http.ResponseWriter, r *http.Request) {
		reply(w, nil, plane.Down(r.Context()))
	})
	return mux
}

func reply(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusConflict)
		body = failure{Error: err.Error()}
	}
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(body)
}

// Client calls a running plane.
type Client struct {
	http *http.Client
}

var _ Plane = &Client{}

// NewClient returns a client of the plane at the socket. It connects for each request.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return home.DialSocket(ctx, socket)
	}
	return &Client{http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Components implements Plane.
func (c *Client) Components(ctx context.Context) ([]supervisor.Status, error) {
	var list []supervisor.Status
	err := c.do(ctx, http.MethodGet, pathComponents, &list)
	return list, err
}

// KillComponent implements Plane.
func (c *Client) KillComponent(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, pathComponents+"/"+name+"/kill", nil)
}

// StartComponent implements Plane.
func (c *Client) StartComponent(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, pathComponents+"/"+name+"/start", nil)
}

// Down implements Plane.
func (c *Client) Down(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, pathDown, nil)
}

func (c *Client) do(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://localplane"+path, nil)
	if err != nil {
		return fmt.Errorf("asking the plane: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking the plane: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("asking the plane: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var f failure
		if err := json.Unmarshal(raw, &f); err != nil || f.Error == "" {
			return fmt.Errorf("asking the plane: %s: %s", resp.Status, bytes.TrimSpace(raw))
		}
		return errors.New(f.Error)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("asking the plane: %w", err)
	}
	return nil
}
