// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"

	"everynode.dev/everynode/localplane"
	"everynode.dev/everynode/test/harness"
)

// request is one line of the registry's log.
type request struct {
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	Kind      string    `json:"kind"`
	Repo      string    `json:"repo"`
	Reference string    `json:"reference"`
	Status    int       `json:"status"`
	// Remote is the address of who asked: that of a node.
	Remote string `json:"remote"`
}

// content is whether a part of an image was fetched, as a whole or, as who goes on with a download asks for it, from some byte on.
func (r request) content() bool {
	return r.Kind == "blob" && r.Method == http.MethodGet && (r.Status == http.StatusOK || r.Status == http.StatusPartialContent)
}

// TestContent: what counts as fetched.
func TestContent(t *testing.T) {
	for _, c := range []struct {
		request request
		fetched bool
	}{
		{request{Method: http.MethodGet, Kind: "blob", Status: http.StatusOK}, true},
		{request{Method: http.MethodGet, Kind: "blob", Status: http.StatusPartialContent}, true},
		{request{Method: http.MethodHead, Kind: "blob", Status: http.StatusOK}, false},
		{request{Method: http.MethodGet, Kind: "blob", Status: http.StatusNotFound}, false},
		{request{Method: http.MethodGet, Kind: "manifest", Status: http.StatusOK}, false},
	} {
		if got := c.request.content(); got != c.fetched {
			t.Errorf("%+v counts as fetched: %t", c.request, got)
		}
	}
}

// requests are those that nodes made so far, without those of this machine.
func (s *stage) requests() []request {
	s.t.Helper()
	raw, err := os.ReadFile(s.Cluster.Plane.RegistryLog())
	if err != nil {
		s.t.Fatal(err)
	}
	var nodes []string
	for _, node := range s.Nodes {
		nodes = append(nodes, s.address(node))
	}
	var requests []request
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			s.t.Fatalf("the log of the registry: %v\n%s", err, lines.Text())
		}
		if slices.Contains(nodes, r.Remote) {
			requests = append(requests, r)
		}
	}
	return requests
}

// address is that of a node.
func (s *stage) address(node string) string {
	s.t.Helper()
	for _, a := range s.View().Node(node).Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	s.t.Fatalf("node %s has no address", node)
	return ""
}

// reference is a tag of app in the registry, as this machine knows it.
func reference(t *testing.T, c *harness.Cluster, tag string) name.Reference {
	t.Helper()
	address, err := c.Plane.RegistryAddress()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(address+"/app:"+tag, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// options are those of a client that may push.
func (s *stage) options() []remote.Option {
	s.t.Helper()
	return []remote.Option{
		remote.WithContext(s.Context()),
		remote.WithAuth(&authn.Basic{Username: localplane.RegistryUser, Password: s.registryPassword()}),
	}
}

func (s *stage) registryPassword() string {
	s.t.Helper()
	password, err := s.Cluster.Plane.RegistryPassword()
	if err != nil {
		s.t.Fatal(err)
	}
	return password
}

// push makes an image of the application that no node has, and returns its name. Its tag is its version.
func (s *stage) push(tag string) string {
	s.t.Helper()
	image, err := remote.Image(reference(s.t, s.Cluster, "v1"), s.options()...)
	if err != nil {
		s.t.Fatalf("reading an image: %v", err)
	}
	const size = 4 << 20
	layer := make([]byte, size)
	_, _ = rand.Read(layer) // it never fails
	image, err = withLayer(image, layer, tag)
	if err == nil {
		err = remote.Write(reference(s.t, s.Cluster, tag), image, s.options()...)
	}
	if err != nil {
		s.t.Fatalf("pushing an image: %v", err)
	}
	return repository + ":" + tag
}

// withLayer is the image with one more file and another version.
func withLayer(image v1.Image, content []byte, version string) (v1.Image, error) {
	layer, err := archive("more", content)
	if err != nil {
		return nil, err
	}
	image, err = mutate.AppendLayers(image, static.NewLayer(layer, types.OCIUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Env = append(slices.DeleteFunc(config.Config.Env, func(v string) bool { return strings.HasPrefix(v, "VERSION=") }), "VERSION="+version)
	return mutate.ConfigFile(image, config)
}

// tag gives the image of a tag another tag, and returns its name.
func (s *stage) tag(from, to string) string {
	s.t.Helper()
	image, err := remote.Image(reference(s.t, s.Cluster, from), s.options()...)
	if err == nil {
		err = remote.Tag(reference(s.t, s.Cluster, to).(name.Tag), image, s.options()...)
	}
	if err != nil {
		s.t.Fatalf("tagging an image: %v", err)
	}
	return repository + ":" + to
}

// slowRegistry has the registry take that long for each part of an image, until the test ends.
func (s *stage) slowRegistry(latency time.Duration) {
	s.t.Helper()
	address, err := s.Cluster.Plane.RegistryAddress()
	if err != nil {
		s.t.Fatal(err)
	}
	password := s.registryPassword()
	set := func(ctx context.Context, value time.Duration) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, fmt.Sprintf("http://%s/_localplane/latency?value=%s", address, value), nil)
		if err != nil {
			return err
		}
		request.SetBasicAuth(localplane.RegistryUser, password)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode/100 != 2 {
			err = fmt.Errorf("the registry answers %s", response.Status)
		}
		return errors.Join(err, response.Body.Close())
	}
	if err := set(s.Context(), latency); err != nil {
		s.t.Fatal(err)
	}
	s.atEnd("making the registry quick again", func(ctx context.Context) error { return set(ctx, 0) })
}

// archive is a layer with one file.
func archive(file string, content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}
