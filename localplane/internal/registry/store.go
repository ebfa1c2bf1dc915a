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

// store keeps the manifests of a registry that itself keeps only blobs: what it has accepted is written to a file, and shown to
// it again at the next start.
type store struct {
	dir      string
	registry http.Handler
	// pushing is held while the registry and the file of a manifest are brought to the same.
	pushing sync.Mutex
}

// kept is a manifest in its file.
type kept struct {
	Repo      string `json:"repo"`
	Reference string `json:"reference"`
	Type      string `json:"type"`
	Manifest  []byte `json:"manifest"`
}

// suffix ends the names of whole files; those of writes that were cut off end in something else.
const suffix = ".json"

// maxManifest is what the specification asks registries to accept at least.
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

// restore gives manifests back to the registry. It takes an index only after what is in it, so this goes on for as long as that
// helps. An index of which a part was deleted, or came with the plane and is another one now, is missing then, and everything else is
// there: a plane is not to stay down for it.
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

// answer takes the answer to a request that came over no network.
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

// passOn gives the answer to somebody who waits for it.
func (a *answer) passOn(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // an error means that the client has gone
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

// put writes the manifest down when the registry has accepted it, and before the client is told so.
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

// keep writes a manifest down under its name, and under its digest, which stays when the name goes to another one.
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

// file is one for each name. A name may be too long for a file, and has slashes.
func (s *store) file(k kept) string {
	sum := sha256.Sum256([]byte(k.Repo + ":" + k.Reference))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+suffix)
}
