// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"everynode.dev/everynode/localplane/internal/images"
)

// deadline ends a test that hangs.
const deadline = 30 * time.Second

// options are those of a registry with images made from files that are no programs.
func options(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{
		Dir:      filepath.Join(dir, "registry"),
		Log:      filepath.Join(dir, "requests.log"),
		Password: "secret",
		Images:   images.Sources{Dir: filepath.Join(dir, "images"), Agent: filepath.Join(dir, "images", "everynode-agent"), AgentTag: "dev"},
	}
	if err := os.Mkdir(o.Images.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pause", "testapp", "everynode-agent"} {
		build(t, o, name, "program "+name)
	}
	return o
}

func build(t *testing.T, o Options, name, program string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(o.Images.Dir, name), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
}

// client asks a registry.
type client struct {
	t   *testing.T
	url string
	o   Options
}

// start starts a registry without a process.
func start(t *testing.T, o Options) (client, *httptest.Server) {
	t.Helper()
	s, err := newServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.Close(); s.log.close() })
	return client{t, server.URL, o}, server
}

func (c client) do(method, path, mediaType string, body []byte) (status int, raw []byte) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	if method != http.MethodGet { // to pull nobody needs a password
		r.SetBasicAuth(User, c.o.Password)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	if raw, err = io.ReadAll(answer.Body); err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, raw
}

// get wants the thing to be there.
func (c client) get(path string) []byte {
	c.t.Helper()
	status, raw := c.do(http.MethodGet, path, "", nil)
	if status != http.StatusOK {
		c.t.Fatalf("GET %s is answered with %d %s", path, status, raw)
	}
	return raw
}

// pull pulls an image as a runtime does, checks every digest, and returns the manifest and its digest.
func (c client) pull(repo, reference string) (raw []byte, digest string) {
	c.t.Helper()
	raw = c.get("/v2/" + repo + "/manifests/" + reference)
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, d := range append(manifest.Layers, manifest.Config) {
		blob := c.get("/v2/" + repo + "/blobs/" + d.Digest.String())
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(blob)); got != d.Digest.String() || int64(len(blob)) != d.Size {
			c.t.Errorf("blob %s has digest %s and %d bytes", d.Digest, got, len(blob))
		}
	}
	return raw, fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
}

func (c client) put(repo, reference, mediaType string, manifest []byte) {
	c.t.Helper()
	if status, raw := c.do(http.MethodPut, "/v2/"+repo+"/manifests/"+reference, mediaType, manifest); status != http.StatusCreated {
		c.t.Fatalf("pushing %s:%s is answered with %d %s", repo, reference, status, raw)
	}
}

// push pushes an image with one small layer, and returns its manifest.
func (c client) push(repo, tag, content string) []byte {
	c.t.Helper()
	blob := func(data string) v1.Descriptor {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(data)))
		status, raw := c.do(http.MethodPost, "/v2/"+repo+"/blobs/uploads/?digest="+url.QueryEscape(digest), "application/octet-stream", []byte(data))
		if status != http.StatusCreated {
			c.t.Fatalf("pushing a blob is answered with %d %s", status, raw)
		}
		h, err := v1.NewHash(digest)
		if err != nil {
			c.t.Fatal(err)
		}
		return v1.Descriptor{MediaType: "application/octet-stream", Size: int64(len(data)), Digest: h}
	}
	raw, err := json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: blob("{}"), Layers: []v1.Descriptor{blob(content)}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.put(repo, tag, images.ManifestType, raw)
	return raw
}

func (c client) entries() []Entry {
	c.t.Helper()
	raw, err := os.ReadFile(c.o.Log)
	if err != nil {
		c.t.Fatal(err)
	}
	var list []Entry
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			c.t.Fatalf("%q: %v", lines.Text(), err)
		}
		list = append(list, e)
	}
	return list
}

func TestShippedImagesCanBePulled(t *testing.T) {
	o := options(t)
	c, _ := start(t, o)
	for _, r := range o.Images.Recipes() {
		c.pull(r.Name, r.Tag)
	}
}

func TestWhatIsPushedOutlivesARestart(t *testing.T) {
	o := options(t)
	c, server := start(t, o)
	c.push("team/web", "v1", "first")
	_, first := c.pull("team/web", "v1")
	c.push("team/web", "v1", "second") // the tag moves on, and the digest stays
	long := strings.Repeat("long/", 40) + "name"
	c.push(long, "v1", "long")
	c.push("team/gone", "v1", "gone")
	if status, _ := c.do(http.MethodDelete, "/v2/team/gone/manifests/v1", "", nil); status != http.StatusAccepted {
		t.Errorf("DELETE is answered with %d", status)
	}
	_, second := c.pull("team/web", "v1")
	server.Close()

	c, _ = start(t, o)
	if _, digest := c.pull("team/web", "v1"); digest != second {
		t.Errorf("the tag is %s after the restart, and was %s", digest, second)
	}
	c.pull("team/web", first)
	c.pull(long, "v1")
	if status, _ := c.do(http.MethodGet, "/v2/team/gone/manifests/v1", "", nil); status != http.StatusNotFound {
		t.Errorf("what was deleted is answered with %d after the restart", status)
	}
}

func TestTheSameDigestUnderAnotherTag(t *testing.T) {
	c, server := start(t, options(t))
	manifest, digest := c.pull("app", "v1")
	c.put("app", "same", images.ManifestType, manifest)
	c.put("other/app", "v9", images.ManifestType, manifest)
	server.Close()
	c, _ = start(t, c.o)
	for _, name := range [][2]string{{"app", "same"}, {"other/app", "v9"}, {"app", digest}} {
		if _, got := c.pull(name[0], name[1]); got != digest {
			t.Errorf("%v has digest %s, want %s", name, got, digest)
		}
	}
}

func TestAnIndexIsRestoredAfterItsImages(t *testing.T) {
	c, server := start(t, options(t))
	const indexType = "application/vnd.oci.image.index.v1+json"
	var index v1.IndexManifest
	index.SchemaVersion, index.MediaType = 2, indexType
	// Among as many images there are some whose files are read after that of the index.
	for i := range 20 {
		raw := c.push("multi", fmt.Sprintf("part%d", i), fmt.Sprintf("part %d", i))
		h, size, err := v1.SHA256(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		index.Manifests = append(index.Manifests, v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: size, Digest: h})
	}
	raw, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	c.put("multi", "all", indexType, raw)
	server.Close()
	c, _ = start(t, c.o)
	if got := c.get("/v2/multi/manifests/all"); !bytes.Equal(got, raw) {
		t.Errorf("the index is %s", got)
	}
	c.pull("multi", "part19")
}

// Pushing tools leave out what the registry has already, and an index may outlive what is in it.
func TestAnIndexOfWhatWasNotPushedWithIt(t *testing.T) {
	o := options(t)
	c, server := start(t, o)
	const indexType = "application/vnd.oci.image.index.v1+json"
	pushIndex := func(tag string, of []byte) {
		t.Helper()
		h, size, err := v1.SHA256(bytes.NewReader(of))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(v1.IndexManifest{
			SchemaVersion: 2, MediaType: indexType, Manifests: []v1.Descriptor{{MediaType: types.OCIManifestSchema1, Size: size, Digest: h}},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.put("app", tag, indexType, raw)
	}
	shipped, before := c.pull("app", "v1")
	pushIndex("of-a-shipped-one", shipped)
	pushIndex("v2", shipped) // the name of another one that comes with the plane
	gone := c.push("app", "gone", "gone")
	pushIndex("of-a-deleted-one", gone)
	for _, reference := range []string{"gone", fmt.Sprintf("sha256:%x", sha256.Sum256(gone))} {
		if status, _ := c.do(http.MethodDelete, "/v2/app/manifests/"+reference, "", nil); status != http.StatusAccepted {
			t.Errorf("deleting %s is answered with %d", reference, status)
		}
	}
	c.push("app", "mine", "mine")
	server.Close()

	c, server = start(t, o)
	c.get("/v2/app/manifests/of-a-shipped-one")
	c.pull("app", "mine")
	if _, digest := c.pull("app", "v2"); digest == before {
		t.Error("app:v2 is not the one that comes with the plane")
	}
	if status, _ := c.do(http.MethodGet, "/v2/app/manifests/of-a-deleted-one", "", nil); status != http.StatusNotFound {
		t.Errorf("an index of what was deleted is answered with %d", status)
	}
	server.Close()
	build(t, o, "testapp", "another program")
	c, _ = start(t, o)
	if _, digest := c.pull("app", "v1"); digest == before {
		t.Error("app:v1 is still the old one")
	}
	c.pull("app", "mine")
}

func TestAProgramThatIsBuiltAgain(t *testing.T) {
	o := options(t)
	c, server := start(t, o)
	_, before := c.pull("app", "v1")
	files := func() (n int) {
		list, err := os.ReadDir(filepath.Join(o.Dir, "blobs", "sha256"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	stored := files()
	server.Close()
	build(t, o, "testapp", "another program")
	if err := os.WriteFile(filepath.Join(o.Dir, "blobs", "upload-1"), []byte("cut off"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ = start(t, o)
	if _, after := c.pull("app", "v1"); after == before {
		t.Error("the image is still the old one")
	}
	if got := files(); got != stored {
		t.Errorf("there are %d blobs now, and there were %d", got, stored)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "blobs", "upload-1")); err == nil {
		t.Error("what a push that was cut off has left is still there")
	}
}

func TestADamagedBlobIsStoredAgain(t *testing.T) {
	o := options(t)
	c, server := start(t, o)
	manifest, _ := c.pull("app", "v1")
	parsed, err := v1.ParseManifest(bytes.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if err := os.Truncate(filepath.Join(o.Dir, "blobs", "sha256", parsed.Layers[0].Digest.Hex), 100); err != nil {
		t.Fatal(err)
	}
	c, _ = start(t, o)
	c.pull("app", "v1")
}

// A runtime that was cut off in the middle of a pull asks for the rest.
func TestTheRestOfABlob(t *testing.T) {
	c, _ := start(t, options(t))
	c.push("web", "v1", "0123456789")
	path := fmt.Sprintf("/v2/web/blobs/sha256:%x", sha256.Sum256([]byte("0123456789")))
	for ask, want := range map[string]string{"bytes=7-": "789", "bytes=2-4": "234"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Range", ask)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusPartialContent || string(got) != want {
			t.Errorf("%s is answered with %s %q (%v), want %q", ask, answer.Status, got, err, want)
		}
	}
}

func TestEachRequestIsALine(t *testing.T) {
	o := options(t)
	c, _ := start(t, o)
	c.do(http.MethodGet, "/v2/", "", nil)
	c.push("team/web", "v1", "content")
	c.pull("team/web", "v1")
	c.do(http.MethodHead, "/v2/team/web/manifests/v1", "", nil)
	c.do(http.MethodGet, "/v2/team/web/manifests/v2", "", nil)
	c.get("/v2/team/web/tags/list")
	config := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("{}")))
	layer := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("content")))
	want := []string{
		"GET other   401",
		"POST upload team/web  201", "POST upload team/web  201", "PUT manifest team/web v1 201",
		"GET manifest team/web v1 200", "GET blob team/web " + layer + " 200", "GET blob team/web " + config + " 200",
		"HEAD manifest team/web v1 200", "GET manifest team/web v2 404", "GET tag team/web list 200",
	}
	var got []string
	for _, e := range c.entries() {
		got = append(got, fmt.Sprintf("%s %s %s %s %d", e.Method, e.Kind, e.Repo, e.Reference, e.Status))
		if e.Remote != "127.0.0.1" || e.Time.IsZero() {
			t.Errorf("%+v does not say who or when", e)
		}
		if e.Reference == layer && e.Bytes != int64(len("content")) {
			t.Errorf("%+v does not say how much", e)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The registry is asked without a network, so that time is that of synctest and a request is known to be held back.
func TestLatencyHoldsBlobsBack(t *testing.T) {
	o := options(t)
	o.Latency = time.Hour
	c, web := start(t, o)
	c.push("web", "v1", "content")
	c.get("/v2/web/manifests/v1") // is not held back
	path := fmt.Sprintf("/v2/web/blobs/sha256:%x", sha256.Sum256([]byte("content")))
	synctest.Test(t, func(t *testing.T) {
		ask := func(ctx context.Context, method, path string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, path, http.NoBody)
			r.SetBasicAuth(User, o.Password)
			answer := httptest.NewRecorder()
			web.Config.Handler.ServeHTTP(answer, r)
			return answer
		}
		begin := time.Now()
		if answer := ask(t.Context(), http.MethodGet, path); answer.Body.String() != "content" || time.Since(begin) != o.Latency {
			t.Errorf("the blob is %q after %s", answer.Body, time.Since(begin))
		}
		begin = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan string, 1)
		go func() { ended <- ask(ctx, http.MethodGet, path).Body.String() }()
		synctest.Wait()
		if answer := ask(t.Context(), http.MethodPut, LatencyPath+"?value=soon"); answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), `"soon"`) {
			t.Errorf("the value soon is answered with %d %s", answer.Code, answer.Body)
		}
		if answer := ask(t.Context(), http.MethodPut, LatencyPath+"?value=0s"); answer.Code != http.StatusNoContent {
			t.Errorf("the value 0s is answered with %d", answer.Code)
		}
		if answer := ask(t.Context(), http.MethodGet, path); answer.Body.String() != "content" || time.Since(begin) != 0 {
			t.Errorf("the blob is %q after %s", answer.Body, time.Since(begin))
		}
		select {
		case content := <-ended:
			t.Errorf("a request that began before has ended with %q", content)
		default:
		}
		cancel()
		if content := <-ended; content != "" || time.Since(begin) != 0 {
			t.Errorf("a client that has gone gets %q after %s", content, time.Since(begin))
		}
	})
}

func TestRunUntilTheEnd(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	o := options(t)
	o.Listen, o.ReadyFile = free.Addr().String(), filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	for tick := time.Tick(time.Millisecond); ; <-tick {
		if _, err := os.Stat(o.ReadyFile); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("it does not get ready")
		}
	}
	client{t, "http://" + o.Listen, o}.pull("pause", "1")
	if err := Run(ctx, o); err == nil || !strings.Contains(err.Error(), o.Listen) {
		t.Errorf("a second one ends with %v, want an error with its address", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	if _, err := os.Stat(o.ReadyFile); err == nil {
		t.Error("the ready file is still there")
	}
	o.Latency = -1
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "latency") {
		t.Errorf("a negative latency ends with %v", err)
	}
}
