// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// programs writes something in place of the programs.
func programs(t *testing.T) Sources {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"pause", "testapp", "everynode-agent"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("program "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Sources{Dir: dir, Agent: filepath.Join(dir, "everynode-agent"), AgentTag: "dev"}
}

func make1(t *testing.T, r Recipe) *Image {
	t.Helper()
	image, err := r.Make()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestTheSameProgramsMakeTheSameImages(t *testing.T) {
	one, other := programs(t), programs(t)
	old := time.Unix(1, 0)
	if err := os.Chtimes(filepath.Join(other.Dir, "testapp"), old, old); err != nil {
		t.Fatal(err)
	}
	again := other.Recipes()
	for i, r := range one.Recipes() {
		if a, b := make1(t, r), make1(t, again[i]); !bytes.Equal(a.Manifest, b.Manifest) {
			t.Errorf("%s:%s has another digest in another directory:\n%s\n%s", r.Name, r.Tag, a.Manifest, b.Manifest)
		}
	}
}

func TestNoTwoImagesShareALayer(t *testing.T) {
	layers, manifests := map[v1.Hash]string{}, map[v1.Hash]string{}
	var names []string
	for _, r := range programs(t).Recipes() {
		name := r.Name + ":" + r.Tag
		names = append(names, name)
		image := make1(t, r)
		for what, blob := range map[*map[v1.Hash]string][]byte{&layers: image.Layer, &manifests: image.Manifest} {
			if other, there := (*what)[digest(blob)]; there {
				t.Errorf("%s and %s are the same", name, other)
			}
			(*what)[digest(blob)] = name
		}
	}
	want := []string{"pause:1", "app:v1", "app:v2", "app:v3", "app:broken", "app:crash", "app:slow", "everynode-agent:dev"}
	if !slices.Equal(names, want) {
		t.Errorf("the images are %v, want %v", names, want)
	}
}

func TestAManifestDescribesWhatIsThere(t *testing.T) {
	for _, r := range programs(t).Recipes() {
		image := make1(t, r)
		manifest, err := v1.ParseManifest(bytes.NewReader(image.Manifest))
		if err != nil {
			t.Fatal(err)
		}
		config, err := v1.ParseConfigFile(bytes.NewReader(image.Config))
		if err != nil {
			t.Fatal(err)
		}
		if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
			t.Fatalf("%s:%s: %d layers and %d diff IDs, want one of each", r.Name, r.Tag, len(manifest.Layers), len(config.RootFS.DiffIDs))
		}
		layer := digest(image.Layer)
		if manifest.Config.Digest != digest(image.Config) || manifest.Layers[0].Digest != layer || config.RootFS.DiffIDs[0] != layer {
			t.Errorf("%s:%s: a digest is wrong: %s", r.Name, r.Tag, image.Manifest)
		}
		if manifest.Config.Size != int64(len(image.Config)) || manifest.Layers[0].Size != int64(len(image.Layer)) {
			t.Errorf("%s:%s: a size is wrong: %s", r.Name, r.Tag, image.Manifest)
		}
		files := unpack(t, image.Layer)
		entrypoint := strings.TrimPrefix(config.Config.Entrypoint[0], "/")
		if program, there := files[entrypoint]; there == (r.Tag == "broken") {
			t.Errorf("%s:%s: the entrypoint %s is there: %v", r.Name, r.Tag, entrypoint, there)
		} else if there && (program.data != "program "+entrypoint || program.mode&0o111 != 0o111) {
			t.Errorf("%s:%s: the program is %q with mode %o", r.Name, r.Tag, program.data, program.mode)
		}
		if got, want := files["version"].data, r.Name+":"+r.Tag+"\n"; got != want {
			t.Errorf("%s:%s: /version says %q", r.Name, r.Tag, got)
		}
		if r.Name == "app" && !slices.Contains(config.Config.Env, "VERSION="+r.Tag) {
			t.Errorf("app:%s has the environment %v", r.Tag, config.Config.Env)
		}
	}
}

type file struct {
	data string
	mode fs.FileMode
}

func unpack(t *testing.T, layer []byte) map[string]file {
	t.Helper()
	files := map[string]file{}
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = file{string(data), h.FileInfo().Mode()}
	}
}

func TestPaddingDoesNotCompress(t *testing.T) {
	image := make1(t, programs(t).Recipes()[1])
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(image.Layer)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if out.Len() < padding {
		t.Errorf("%d bytes become %d", len(image.Layer), out.Len())
	}
}

func TestAProgramThatIsNotBuilt(t *testing.T) {
	_, err := Sources{Dir: "/nowhere"}.Recipes()[0].Make()
	if err == nil || !strings.Contains(err.Error(), "/nowhere/pause") || !strings.Contains(err.Error(), "make build-images") {
		t.Errorf("the error is %v", err)
	}
}

func TestWithoutAnAgentThereIsNoImageOfIt(t *testing.T) {
	for _, r := range (Sources{Dir: "d"}).Recipes() {
		if r.Name == "everynode-agent" {
			t.Error("there is one")
		}
	}
}
