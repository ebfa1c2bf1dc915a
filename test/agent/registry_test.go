// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// registry is an image registry on loopback, in memory, that can be told to fail. It knows the three requests of which a pull
// consists.
type registry struct {
	server *httptest.Server
	host   string

	mu sync.Mutex
	// content is everything that is served: manifests by "repository/manifests/reference", blobs by "repository/blobs/digest".
	content map[string]content
	// login, when not empty, is the name and the password that have to be shown.
	login [2]string
	// cut is how many downloads of layers break off in the middle from now on.
	cut int
	// hold, when not nil, stops downloads of layers in the middle until it is closed.
	hold chan struct{}
	// begun gets the path of each download of a layer.
	begun chan string
	// dropped gets the path of each download that was held, and that the other side gave up.
	dropped chan string
	served  map[string]int
}

type content struct {
	mediaType string
	data      []byte
	layer     bool
}

// Media types of the parts of an image.
const (
	typeManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeConfig   = "application/vnd.docker.container.image.v1+json"
	typeLayer    = "application/vnd.docker.image.rootfs.diff.tar"
)

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{content: map[string]content{}, begun: make(chan string, 100), dropped: make(chan string, 100), served: map[string]int{}}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	r.host = r.server.Listener.Addr().String()
	return r
}

// stop takes the registry from the network, start brings it back at the same address.
func (r *registry) stop() {
	r.server.CloseClientConnections()
	r.server.Close()
}

func (r *registry) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", r.host)
	if err != nil {
		t.Fatal(err)
	}
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: r}} //nolint:gosec // on loopback, for a test
	r.server.Start()
	t.Cleanup(r.server.Close)
}

func (r *registry) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// layers is how often a layer of a repository was asked for.
func (r *registry) layers(repository string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.served[repository]
}

// awaitDrop waits until a download was given up.
func (r *registry) awaitDrop(t *testing.T) {
	t.Helper()
	select {
	case <-r.dropped:
	case <-time.After(patience):
		t.Fatal("the download goes on")
	}
}

// push stores an image with one layer of random data of a size, and returns its name without the tag.
func (r *registry) push(t *testing.T, repository, tag string, size int) string {
	t.Helper()
	layer := tarOf(t, size)
	config := mustJSON(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	part := func(mediaType string, data []byte) map[string]any {
		return map[string]any{"mediaType": mediaType, "digest": digest(data), "size": len(data)}
	}
	manifest := mustJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": part(typeConfig, config), "layers": []any{part(typeLayer, layer)},
	})
	r.set(func() {
		for key, c := range map[string]content{
			"manifests/" + tag:              {typeManifest, manifest, false},
			"manifests/" + digest(manifest): {typeManifest, manifest, false},
			"blobs/" + digest(config):       {"application/octet-stream", config, false},
			"blobs/" + digest(layer):        {"application/octet-stream", layer, true},
		} {
			r.content[path.Join(repository, key)] = c
		}
	})
	return r.host + "/" + repository
}

func tarOf(t *testing.T, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	rand.New(rand.NewSource(rand.Int63())).Read(data)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err := w.WriteHeader(&tar.Header{Name: "data", Mode: 0o644, Size: int64(size), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return layer.Bytes()
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// ServeHTTP answers as a registry does.
func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	name := strings.TrimPrefix(request.URL.Path, "/v2/")
	user, password, _ := request.BasicAuth()
	r.mu.Lock()
	found, ok := r.content[name]
	denied := r.login != [2]string{} && r.login != [2]string{user, password}
	hold, half := r.hold, false
	if found.layer && !denied && request.Method == http.MethodGet {
		r.served[name[:strings.Index(name, "/blobs/")]]++
		if half = r.cut > 0; half {
			r.cut--
		}
	}
	r.mu.Unlock()
	switch {
	case denied:
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		registryError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	case name == "":
		w.WriteHeader(http.StatusOK)
	case !ok:
		registryError(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
	default:
		w.Header().Set("Content-Type", found.mediaType)
		w.Header().Set("Docker-Content-Digest", digest(found.data))
		w.Header().Set("Content-Length", fmt.Sprint(len(found.data)))
		if request.Method == http.MethodHead {
			return
		}
		r.send(w, request, found, hold, half)
	}
}

// send sends content; of a layer it may stop in the middle, for a while or for good.
func (r *registry) send(w http.ResponseWriter, request *http.Request, c content, hold chan struct{}, half bool) {
	if !c.layer {
		_, _ = w.Write(c.data)
		return
	}
	_, _ = w.Write(c.data[:len(c.data)/2])
	_ = http.NewResponseController(w).Flush()
	r.begun <- request.URL.Path
	if hold != nil {
		select {
		case <-hold:
		case <-request.Context().Done():
			r.dropped <- request.URL.Path
			return
		}
	}
	if half {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(c.data[len(c.data)/2:])
}

func registryError(w http.ResponseWriter, code int, name, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, name, text)
}
