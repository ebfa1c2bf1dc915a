// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"everynode.dev/everynode/localplane/internal/home"
)

// store persists manifests for a registry library that persists only blobs: accepted manifests are written to files,
// and pushed again at the next start.
type store struct {
	dir      string
	registry http.Handler
	// pushing is held while a manifest is pushed and written.
	pushing sync.Mutex
}

// kept is a stored manifest.
type kept struct {
	Repo      string `json:"repo"`
	Reference string `json:"reference"`
	Type      string `json:"type"`
	Manifest  []byte `json:"manifest"`
}

// suffix is the suffix of complete files; files of interrupted writes have another one.
const suffix = ".json"

// maxManifest is the minimum limit in the specification.
const maxManifest = 4 << 20

// openStore restores what is in dir, and returns it too.
func openStore(dir string, registry http.Handler) (*store, []kept, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, fmt.Errorf("making the registry's directory: %w", err)
	}
	s := &store{dir: dir, registry: registry}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the registry's manifests: %w", err)
	}
	var all []kept
	for _, f := range files {
		if filepath.Ext(f.Name()) != suffix {
			continue
		}
		k, err := s.read(f.Name())
		if err != nil {
			return nil, nil, err
		}
		all = append(all, k)
	}
	s.restore(all)
	return s, all, nil
}

func (s *store) read(name string) (kept, error) {
	var k kept
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	if err != nil {
		return k, fmt.Errorf("reading the registry's manifest %s (remove the file to do without it): %w", name, err)
	}
	return k, nil
}

// restore pushes manifests to the registry again. The registry accepts an index only after its manifests, so this
// repeats while there is progress. If a part of an index was deleted or has changed, the index is missing, but
// everything else is restored.
func (s *store) restore(left []kept) {
	for len(left) > 0 {
		var refused []kept
		var errs []error
		for _, k := range left {
			if err := put(s.registry, k); err != nil {
				refused, errs = append(refused, k), append(errs, err)
			}
		}
		if len(refused) == len(left) {
			fmt.Fprintln(os.Stderr, "restoring what was pushed to the registry (push it again):", errors.Join(errs...))
			return
		}
		left = refused
	}
}

// put pushes a manifest to the registry, without a network.
func put(registry http.Handler, k kept) error {
	r := &http.Request{
		Method: http.MethodPut,
		URL:    &url.URL{Path: "/v2/" + k.Repo + "/manifests/" + k.Reference},
		Header: http.Header{"Content-Type": {k.Type}},
		Body:   io.NopCloser(bytes.NewReader(k.Manifest)),
	}
	var a answer
	registry.ServeHTTP(&a, r)
	if a.status != http.StatusCreated {
		return fmt.Errorf("manifest %s of %s: the registry answers %d %s", k.Reference, k.Repo, a.status, bytes.TrimSpace(a.body.Bytes()))
	}
	return nil
}

// answer records the response to a request without a network.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// passOn sends the response to a client.
func (a *answer) passOn(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // an error means that the client has disconnected
}

// ServeHTTP implements http.Handler.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, repo, reference := what(r.URL.Path)
	switch {
	case kind == Manifest && r.Method == http.MethodPut:
		s.put(w, r, kept{Repo: repo, Reference: reference, Type: r.Header.Get("Content-Type")})
	case kind == Manifest && r.Method == http.MethodDelete:
		s.remove(w, r, kept{Repo: repo, Reference: reference})
	default:
		s.registry.ServeHTTP(w, r)
	}
}

// put stores the manifest after the registry has accepted it, and before the client gets the response.
func (s *store) put(w http.ResponseWriter, r *http.Request, k kept) {
	var err error
	if k.Manifest, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(k.Manifest))
	s.pushing.Lock()
	defer s.pushing.Unlock()
	var a answer
	s.registry.ServeHTTP(&a, r)
	if a.status == http.StatusCreated {
		if err := s.keep(k, a.header.Get("Docker-Content-Digest")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	a.passOn(w)
}

func (s *store) remove(w http.ResponseWriter, r *http.Request, k kept) {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	if err := os.Remove(s.file(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.registry.ServeHTTP(w, r)
}

// keep stores a manifest under its name, and under its digest, which stays valid when the tag moves.
func (s *store) keep(k kept, digest string) error {
	for _, reference := range []string{digest, k.Reference} {
		k.Reference = reference
		raw, err := json.Marshal(k)
		if err != nil {
			return fmt.Errorf("keeping manifest %s of %s: %w", k.Reference, k.Repo, err)
		}
		if err := home.WriteFile(s.file(k), raw); err != nil {
			return err
		}
	}
	return nil
}

// file returns the file for a name. A name may be too long for a file name, and has slashes.
func (s *store) file(k kept) string {
	sum := sha256.Sum256([]byte(k.Repo + ":" + k.Reference))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+suffix)
}
