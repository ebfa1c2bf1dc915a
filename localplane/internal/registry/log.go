// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Kind is the kind of a request.
type Kind string

// The kinds of requests.
const (
	Manifest Kind = "manifest"
	Blob     Kind = "blob"
	// Upload is a part of the push of a blob.
	Upload Kind = "upload"
	// Tag is the list of the tags of a repository.
	Tag Kind = "tag"
	// Other is everything else, such as the API version check.
	Other Kind = "other"
)

// Entry is a line of the log.
type Entry struct {
	// Time is the time of the request.
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Kind   Kind      `json:"kind"`
	// Repo and Reference are the repository, and the tag or digest of a manifest, or the digest of a blob.
	Repo      string `json:"repo,omitempty"`
	Reference string `json:"reference,omitempty"`
	// Status is the status of the response, 499 if the client did not wait for it; Bytes is the length of its body.
	Status int   `json:"status"`
	Bytes  int64 `json:"bytes"`
	// Remote is the IP address of the client: that of a node, or the gateway's for clients outside.
	Remote string `json:"remote"`
}

// statusGone is logged but never sent, because the client has disconnected.
const statusGone = 499

func entry(r *http.Request, at time.Time, seen *observed) Entry {
	kind, repo, reference := what(r.URL.Path)
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	return Entry{
		Time: at.UTC(), Method: r.Method, Kind: kind, Repo: repo, Reference: reference,
		Status: seen.status, Bytes: seen.bytes, Remote: remote,
	}
}

// what parses a path of the registry API. The name of a repository may have slashes.
func what(path string) (kind Kind, repo, reference string) {
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return Other, "", ""
	}
	// /v2/NAME/blobs/uploads/ has an empty last part, and /v2/NAME/blobs/uploads/ID one more than the others.
	if before, id, ok := cutLast(rest, "/blobs/uploads/"); ok {
		return Upload, before, id
	}
	for _, one := range []struct {
		between string
		kind    Kind
	}{{"/manifests/", Manifest}, {"/blobs/", Blob}, {"/tags/", Tag}} {
		if before, after, ok := cutLast(rest, one.between); ok && !strings.Contains(after, "/") {
			return one.kind, before, after
		}
	}
	return Other, "", ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 1 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// accessLog is the log file. Each entry is written at once, so that lines do not mix.
type accessLog struct {
	file *os.File
}

func openLog(path string) (*accessLog, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the registry's log: %w", err)
	}
	return &accessLog{file: f}, nil
}

func (l *accessLog) close() { _ = l.file.Close() }

func (l *accessLog) write(e Entry) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		// An incomplete log must not go unnoticed.
		fmt.Fprintln(os.Stderr, "writing the registry's log:", err)
	}
}

// observed records the status and length of a response.
type observed struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (o *observed) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (o *observed) Write(p []byte) (int, error) {
	n, err := o.ResponseWriter.Write(p)
	o.bytes += int64(n)
	return n, err
}
